"""The pages of the documentation as tests read and run them: their blocks, and the stories that these tell.

A story is a page's blocks of `sh`, and the files that blocks with a title are. A block that starts the service
goes on beside the following ones, until the next such block or the end. `# → text` says that the output so far
goes on with something that has `text`.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.service import free_port

ROOT = Path(__file__).parents[1]
EXAMPLES = ",".join(f"examples.{each}:{each}" for each in ("errands", "publishing", "payments"))
SIGNOFF = f"{sys.executable} -c 'from app.cli import main; main()'"
FENCED = re.compile(
    r'^(?:<!-- not run: (.+?) -->\n+)?```(\w*)(?: title="([^"]+)")?\n(.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page. `line` is that of its first line, `title` the file that it is.

    `not_run` is why nobody can run it, where the page says so.
    """

    page: Path
    language: str
    title: str | None
    text: str
    line: int
    not_run: str | None

    @property
    def starts_the_service(self) -> bool:
        return "make run" in self.text or "signoff serve" in self.text


def all_blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in FENCED.finditer(text):
        yield Block(
            page=page,
            language=found[2],
            title=found[3],
            text=found[4],
            line=text.count("\n", 0, found.start(4)) + 1,
            not_run=found[1],
        )


def blocks(page: Path, language: str) -> Iterator[Block]:
    return (each for each in all_blocks(page) if each.language == language and not each.not_run)


def executed(page: Path) -> dict[str, Any]:
    """What the blocks of Python of a page define, once they have run."""
    namespace: dict[str, Any] = {"__name__": page.stem.replace("-", "_")}
    for block in blocks(page, "python"):
        # Its lines count as in the page, so that a traceback points there.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        exec(code, namespace)
    return namespace


async def tell(page: Path, database_url: str, *, folder: Path, **more: str) -> None:
    """Runs the story of a page in a folder; `more` are variables of its shells."""
    port, bot_port = free_port(), free_port()
    environment = {
        **{name: each for name, each in os.environ.items() if not name.startswith("SIGNOFF_")},
        "DATABASE_URL": database_url,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SIGNOFF_LOG_LEVEL": "WARNING",
        "SIGNOFF_URL": f"http://127.0.0.1:{port}",
        **more,
    }
    async with AsyncExitStack() as running:
        for block in all_blocks(page):
            script = _at(block.text, port, bot_port)
            if block.not_run:
                pass
            elif block.title:
                (folder / block.title).write_text(block.text)
            elif block.language == "sh" and block.starts_the_service:
                await running.aclose()
                service = await running.enter_async_context(_beside(script, environment, folder))
                await _answers(f"http://127.0.0.1:{port}/readyz", service)
            elif block.language == "sh":
                _check(block, await _shell(script, environment, folder))


def _at(text: str, port: int, bot_port: int) -> str:
    """The block as it runs here: on ports that are free, with the Python that runs the tests."""
    serve = f"exec {SIGNOFF} serve --port {port}"
    here = {
        "make run": f"SIGNOFF_WORKFLOWS={EXAMPLES} {serve}",
        ".venv/bin/signoff serve": serve,
        ".venv/bin/signoff": SIGNOFF,
        ".venv/bin/python": sys.executable,
        "127.0.0.1:8000": f"127.0.0.1:{port}",
        "127.0.0.1:9000": f"127.0.0.1:{bot_port}",
        "--port 9000": f"--port {bot_port}",
        " examples/": f" {ROOT}/examples/",
    }
    shown = "|".join(re.escape(each) for each in here)
    return re.sub(shown, lambda found: here[found[0]], text)


@asynccontextmanager
async def _beside(
    script: str, environment: dict[str, str], folder: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A script that goes on until the end of the block, with everything that it started."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-eu", "-c", script), env=environment, cwd=folder, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def _answers(url: str, service: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient() as client:
        while True:
            assert service.returncode is None, "the service has ended"
            with suppress(httpx.TransportError):
                if (await client.get(url)).is_success:
                    return
            await asyncio.sleep(0.05)


async def _shell(script: str, environment: dict[str, str], folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *("sh", "-eu", "-c", script),
        env=environment,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def _check(scene: Block, output: str) -> None:
    """What the block says it prints, it prints, in that order."""
    rest = output
    for expected in re.findall(r"^# → (.*)$", scene.text, re.MULTILINE):
        _, found, rest = rest.partition(expected)
        assert found, f"{scene.page.name}:{scene.line} does not print {expected!r}:\n{output}"
