"""What the tools of the tests did to the world, one line in a file each; and files that they wait for."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.authoring import ToolContext

VARIABLE = "EFFECTS_FILE"


def note(context: ToolContext, what: str, on: str = "") -> None:
    """Writes one line, at once; `on` is what it was done with."""
    did = {"what": what, "on": on, "pid": os.getpid()}
    line = {**did, "run": context.run_id, "call": context.call_id, "at": time.time()}
    with Path(os.environ[VARIABLE]).open("ab", buffering=0) as file:
        file.write(orjson.dumps(line) + b"\n")


async def permission(name: str) -> None:
    """Returns once the test allows it."""
    while not _sign(Path(os.environ[VARIABLE]), name).exists():  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.02)


def _sign(file: Path, name: str) -> Path:
    return file.with_name(f"permitted-{name}")


@dataclass(frozen=True)
class Effects:
    """The file as a test sees it."""

    path: Path

    def all(self) -> list[dict[str, Any]]:
        """Every line, in the order of writing."""
        if not self.path.exists():
            return []
        return [orjson.loads(line) for line in self.path.read_bytes().splitlines()]

    @property
    def words(self) -> list[str]:
        """Everything that any tool did."""
        return [each["what"] for each in self.all()]

    def lines_of(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """What the tools of a run did: what, by which call, and when."""
        return [each for each in self.all() if each["run"] == run["id"]]

    def of(self, run: dict[str, Any]) -> list[str]:
        """What the tools of a run did, in words."""
        return [each["what"] for each in self.lines_of(run)]

    def run_of(self, what: str) -> str:
        """The id of the one run that did something."""
        (run,) = {each["run"] for each in self.all() if each["what"] == what}
        return run

    async def wait_for(self, what: str, times: int = 1, within: float = 30) -> None:
        """Returns once it has happened so many times."""
        async with asyncio.timeout(within):
            while self.words.count(what) < times:  # noqa: ASYNC110 - other processes write it
                await asyncio.sleep(0.02)

    def permit(self, name: str) -> None:
        """Lets the tools go on that wait for it."""
        _sign(self.path, name).touch()
