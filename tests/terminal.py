"""A pseudo-terminal with a `signoff` command in it, and somebody who reads and types."""

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from pexpect import TIMEOUT
from pexpect.fdpexpect import fdspawn

from tests.launcher import launcher

_READ_WITHIN = 90


class Terminal:
    """A command, and the screen and the keys of whoever uses it."""

    def __init__(self, words: Sequence[str], *, environment: Mapping[str, str]) -> None:
        mine, its = os.openpty()
        self.pid = launcher().launch_in(
            os.ttyname(its), words, environment={**environment, "TERM": "dumb", "COLUMNS": "160"}
        )
        self._exit_code: int | None = None
        self._its = its  # kept open, so that what was said last can still be read
        self._child = fdspawn(mine, encoding="utf-8", timeout=_READ_WITHIN)
        self._all: list[str] = []

    @property
    def said(self) -> str:
        """Everything that was read from the screen so far."""
        return "".join([*self._all, cast("str", self._child.buffer)])

    def sees(self, text: str) -> None:
        """Reads on until there is this text."""
        if self._child.expect([re.escape(text), TIMEOUT]):
            raise AssertionError(f"{text!r} was not said, but: {self.said[-500:]!r}")
        self._all += [cast("str", self._child.before), text]

    def types(self, line: str) -> None:
        """Types a line."""
        self._child.sendline(line)

    def answers(self, *turns: tuple[str, str]) -> None:
        """Reads on until there is a text, and types a line; again and again."""
        for text, line in turns:
            self.sees(text)
            self.types(line)

    def presses(self, letter: str) -> None:
        """Presses Ctrl and a letter."""
        self._child.send(chr(ord(letter.upper()) - 64))

    def exit_code(self) -> int:
        """How it ended, once it has; what was said until then is in `said`."""
        ends = time.monotonic() + _READ_WITHIN
        while not self._has_ended:
            assert time.monotonic() < ends, f"it goes on: {self.said[-500:]}"
            self._read_on()
        self._read_on()
        assert self._exit_code is not None
        return self._exit_code

    def end(self) -> None:
        """Kills what still runs."""
        if not self._has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        while not self._has_ended:
            time.sleep(0.01)
        self._child.close()
        os.close(self._its)

    @property
    def _has_ended(self) -> bool:
        if self._exit_code is None:
            self._exit_code = launcher().exit_code(self.pid)
        return self._exit_code is not None

    def _read_on(self) -> None:
        self._child.expect(TIMEOUT, timeout=0.2)
