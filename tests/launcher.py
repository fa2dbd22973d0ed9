"""Starts `signoff` commands as processes, each forked from one that has imported the service already.

To import the service takes seconds, and the tests start it dozens of times. What is forked does what the
script `signoff` does, and is killed and told to stop like any other process.

    test process ──lines of JSON──► launcher ──fork──► signoff serve | worker | …
"""

import contextlib
import fcntl
import importlib
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, cast

import orjson

REPOSITORY = Path(__file__).parents[1]


class Launcher:
    """The test process' end of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.launcher"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def launch(
        self, words: Sequence[str], *, environment: Mapping[str, str], out: Path, err: Path
    ) -> int:
        """The pid of a new `signoff` with these words, which writes into these files."""
        files = [os.devnull, str(out), str(err)]
        return self._ask(words=list(words), environment=dict(environment), files=files)

    def launch_in(
        self, terminal: str, words: Sequence[str], *, environment: Mapping[str, str]
    ) -> int:
        """The pid of a new `signoff` with these words, at a terminal of its own."""
        files = [terminal] * 3
        return self._ask(words=list(words), environment=dict(environment), files=files)

    def exit_code(self, pid: int) -> int | None:
        """How it ended: as `subprocess` says it; None if it has not. A pid is good until this is known."""
        return self._ask(ended=pid)

    def close(self) -> None:
        """Kills what was launched and is still there."""
        self._process.communicate()

    def _ask(self, **question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(orjson.dumps(question) + b"\n")
        self._process.stdin.flush()
        return orjson.loads(self._process.stdout.readline())


@cache
def launcher() -> Launcher:
    """The one of this process; it ends with it."""
    return Launcher()


def main() -> None:
    """Answers the questions on standard input until there are no more."""
    running: set[int] = set()
    for line in sys.stdin.buffer:
        question = cast("dict[str, Any]", orjson.loads(line))
        if (pid := question.get("ended")) is not None:
            answer = _exit_code(pid)
            if answer is not None:
                running.discard(pid)
        else:
            answer = _fork(**question)
            running.add(answer)
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _fork(words: list[str], environment: dict[str, str], files: list[str]) -> int:
    pid = os.fork()
    if pid == 0:
        _become(words, environment, files)
    return pid


def _become(words: list[str], environment: dict[str, str], files: list[str]) -> NoReturn:
    try:
        os.setsid()
        for number, path in enumerate(files):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that its Ctrl-C comes here
            # As a shell starts it; what the tests run under may have told its children to ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["signoff", *words]
        importlib.import_module("app.cli").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - what nobody catches ends a process, told and with 1
        sys.excepthook(*cast("Any", sys.exc_info()))
        code = 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


PROVIDERS = ("langchain_openai", "langchain_anthropic")
"""What the service imports at the first question to a model; with it every process would take seconds more."""


if __name__ == "__main__":
    for each in PROVIDERS:
        importlib.import_module(each)
    for each in importlib.import_module("app.cli").COMMANDS:
        importlib.import_module("app.cli").command_of(each)
    main()
