"""The service: a process of its own, over HTTP, with the errands of the examples."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.storage.migrate import migrate
from bench.caller import Caller, Refused
from bench.measure import Cycle, RunCycle, cpu_of
from bench.receiver import Receiver

_ROOT = Path(__file__).resolve().parent.parent
_SERVE = "from app.cli import main; main()"
_READY_WITHIN = 60.0


class NotReady(Exception):
    """The service ended, or did not answer in time."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """`signoff serve`, and what its callers do with it. With a receiver, it tells somebody of each pause."""

    name: str
    database: str
    port: int
    process: psutil.Process
    receiver: Receiver | None

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[RunCycle]:
        async with Caller.connected(self.port) as caller:
            yield lambda: _cycle(caller)

    def cpu_seconds(self) -> float:
        return cpu_of(self.process)

    async def settled(self) -> None:
        if self.receiver:
            await self.receiver.quiet()


async def _cycle(caller: Caller) -> Cycle:
    thread = await caller.post("/threads", {}, status=201)
    path = f"/threads/{thread['id']}"
    began = time.perf_counter()
    run = await caller.post(f"{path}/runs", _START, status=201)
    paused = time.perf_counter()
    decision = {"approved": True, "by": "boss"}
    answer = {"pause_id": run["pause"]["id"], "decision": decision}
    resumed = time.perf_counter()
    run = await caller.post(f"{path}/resume", answer, status=200)
    if run["status"] != "completed":
        raise Refused(f"The run is {run['status']}: {run['error']}")
    return Cycle(pause=paused - began, resume=time.perf_counter() - resumed)


_START = {"workflow": "errands", "input": {"text": "write to the boss"}}


@asynccontextmanager
async def serving(
    name: str,
    url: str,
    database: str,
    *,
    log: Path,
    receiver: Receiver | None = None,
    workflows: Sequence[str] = (),
    works: bool = True,
) -> AsyncGenerator[Service]:
    """Migrates the database and serves from it, until the end of the block; what it logs goes to `log`.

    It has the errands, and whatever other `workflows` are named. Where it does not work itself, others have to.
    """
    await migrate(url)
    environment = _environment(url, workflows)
    if receiver:
        environment["SIGNOFF_CHANNELS__APPROVERS__URL"] = receiver.url
        environment["SIGNOFF_CHANNELS__APPROVERS__SECRETS"] = f'["whsec_{"A" * 32}"]'
    port = _free_port()
    command = ["serve", "--host", "127.0.0.1", "--port", str(port)]
    process = await asyncio.to_thread(
        _launch, [*command, *([] if works else ["--no-worker"])], environment, log
    )
    try:
        await _until_ready(process, port, log)
        yield Service(
            name=name,
            database=database,
            port=port,
            process=psutil.Process(process.pid),
            receiver=receiver,
        )
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


@asynccontextmanager
async def working(url: str, *, log: Path) -> AsyncGenerator[psutil.Process]:
    """A worker on a migrated database, until the end of the block."""
    process = await asyncio.to_thread(_launch, ["worker"], _environment(url, ()), log)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _environment(url: str, workflows: Sequence[str]) -> dict[str, str]:
    served = ",".join(["examples.errands:errands", *workflows])
    return {"DATABASE_URL": url, "SIGNOFF_WORKFLOWS": served}


def _launch(
    arguments: Sequence[str], environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIGNOFF_")}
    with log.open("wb") as written:
        return subprocess.Popen(
            [sys.executable, "-c", _SERVE, *arguments],
            cwd=_ROOT,
            env=kept | environment,
            stdout=written,
            stderr=subprocess.STDOUT,
        )


async def _until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + _READY_WITHIN
    while process.poll() is None and time.monotonic() < ends:
        try:
            async with Caller.connected(port) as caller:
                await caller.get("/readyz", status=200)
                return
        except (OSError, Refused):
            await asyncio.sleep(0.05)
    raise NotReady(f"The service did not get ready:\n{_last_words(log)}")


def _last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]
