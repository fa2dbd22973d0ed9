"""Services and workers on one Postgres are killed and frozen, and Postgres restarted, at random, under load.

`CRASH_SECONDS` says for how long, 30 by default; `CRASH_SEED` repeats the order of what is done.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.storage.embedded import EmbeddedPostgres
from app.storage.migrate import migrate
from tests.crossing import ENDED, TAKEN_BEFORE, answer_to
from tests.history import Findings, Freeze, find, until_told
from tests.long.conftest import Say
from tests.postgres import QUICK
from tests.receivers import Receiver
from tests.service import Api, Json, Process, Processes, Served, path_of, processes
from tests.workflows.crossings import SERVED, is_whole
from tests.workflows.effects import VARIABLE, Effects

SECONDS = float(os.environ.get("CRASH_SECONDS", "20"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1_000_000)
CALLERS = 8
LEASE = 1.0


@dataclass(kw_only=True)
class Town:
    """Two services and a worker, the Postgres under them, and what was done to them."""

    begun: Processes
    doors: list[Served]
    worker: Process
    postgres: EmbeddedPostgres
    data: Path
    random: random.Random
    strikes: Counter[str] = field(default_factory=Counter[str])
    freezes: list[Freeze] = field(default_factory=list[Freeze])

    async def strike(self) -> None:
        """Does one of the things that happen to processes."""
        blow = self.random.choice(
            (self._kill, self._kill, self._kill_worker, self._freeze, self._restart)
        )
        self.strikes[blow.__name__.strip("_")] += 1
        await blow()

    async def _kill(self) -> None:
        index = self.random.randrange(len(self.doors))
        port = self.doors[index].port
        self.doors[index].kill()
        await asyncio.sleep(self.random.uniform(0, 1.5))
        self.doors[index] = await self.begun.serve(port=port, lease_seconds=LEASE)

    async def _kill_worker(self) -> None:
        self.worker.kill()
        self.worker = await self.begun.work(lease_seconds=LEASE)

    async def _freeze(self) -> None:
        frozen = self.random.choice((*self.doors, self.worker))
        since = time.time()
        os.kill(frozen.pid, signal.SIGSTOP)
        await asyncio.sleep(LEASE + self.random.uniform(0.5, 2))
        os.kill(frozen.pid, signal.SIGCONT)
        self.freezes.append(Freeze(pid=frozen.pid, since=since, until=time.time()))

    async def _restart(self) -> None:
        await self.postgres.stop()
        self.postgres = await EmbeddedPostgres.start(self.data, settings=QUICK)


class Crowd:
    """Callers, and approvers who contradict each other; they ask until they have an answer."""

    def __init__(self, doors: Sequence[Api], order: random.Random) -> None:
        self.runs: list[Json] = []
        self.taken: dict[str, set[str]] = {}
        """Who was told that their decision counts, by pause."""
        self._doors = doors
        self._random = order
        self._number = 0

    async def call_until(self, over: asyncio.Event) -> None:
        """Starts one run after the other, each through all its pauses to its end."""
        while not over.is_set():
            self._number += 1
            self.runs.append(await self._travel(f"thread-{self._number}"))

    async def _travel(self, name: str) -> Json:
        body = {"workflow": "crossings", "input": name, "if_not_exists": "create"}
        answer = await self._ask("POST", f"/threads/{name}/runs", body, idempotency_key=name)
        run = answer.json()
        async with asyncio.timeout(240):
            while run["status"] not in ENDED:
                pauses = [each for each in run["pauses"] if each["status"] == "open"]
                await asyncio.gather(*(self._race(each) for each in pauses))
                run = (await self._ask("GET", path_of(run), prefer="wait=1")).json()
        return run

    async def _race(self, pause: Json) -> None:
        """Three decide at once, by different doors."""
        names = [f"{name}-{len(pause['votes'])}" for name in ("ann", "bob", "cid")]
        await asyncio.gather(*(self._decide(pause, name) for name in names))

    async def _decide(self, pause: Json, by: str) -> None:
        body = {"pause_id": pause["id"], "decision": {**answer_to(pause), "by": by}}
        path, key = f"/threads/{pause['thread_id']}/resume", f"{pause['id']}-{by}"
        answer = await self._ask("POST", path, body, idempotency_key=key)
        if answer.is_success:
            self.taken.setdefault(pause["id"], set()).add(by)
        else:
            assert answer.json()["code"] in TAKEN_BEFORE, answer.text

    async def _ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        headers.setdefault("prefer", "wait=1")
        while True:
            with suppress(httpx.TransportError):
                answer = await self._random.choice(self._doors).ask(method, path, body, **headers)
                if answer.status_code != 503 and not _is_in_flight(answer):
                    return answer
            await asyncio.sleep(0.05)


def _is_in_flight(answer: httpx.Response) -> bool:
    return answer.status_code == 409 and answer.json()["code"] == "idempotency_in_flight"


@asynccontextmanager
async def town_of(folder: Path, environment: dict[str, str]) -> AsyncGenerator[Town]:
    data = folder / "postgres"
    postgres = await EmbeddedPostgres.start(data, settings=QUICK)
    await migrate(postgres.url)
    with processes(
        folder, workflows=SERVED, database_url=postgres.url, environment=environment
    ) as begun:
        town = Town(
            begun=begun,
            doors=[await begun.serve(lease_seconds=LEASE) for _ in range(2)],
            worker=await begun.work(lease_seconds=LEASE),
            postgres=postgres,
            data=data,
            random=random.Random(SEED),
        )
        try:
            yield town
        finally:
            begun.end()
            await town.postgres.stop()


@pytest.mark.timeout(600 + 3 * SECONDS)
async def test_whatever_dies_when_every_run_ends_right(tmp_path: Path, say: Say) -> None:
    effects = Effects(tmp_path / "effects")
    async with Receiver() as approvers:
        environment = {
            VARIABLE: str(effects.path),
            "SIGNOFF_CHANNELS__APPROVERS__URL": approvers.url,
            "SIGNOFF_ALLOWED_NETWORKS": "127.0.0.0/8",
        }
        async with town_of(tmp_path, environment) as town, town.doors[0].api() as first:
            async with town.doors[1].api() as second:
                crowd = Crowd((first, second), random.Random(SEED))
                await _live(town, crowd)
                await until_told(town.postgres.url, approvers.received)
            findings = await find(
                town.postgres.url, effects, received=approvers.received, freezes=town.freezes
            )
    _look_at_runs(findings, crowd, effects)
    findings.counts += Counter({f"times {name}": n for name, n in town.strikes.items()})
    say(f"crashes at random, seed {SEED}: {findings}")
    assert findings.faults == []


async def _live(town: Town, crowd: Crowd) -> None:
    """Lets callers call while things happen; returns when all their runs have ended."""
    over = asyncio.Event()
    calling = [asyncio.create_task(crowd.call_until(over)) for _ in range(CALLERS)]
    clock = asyncio.get_running_loop().time
    ends = clock() + SECONDS
    while clock() < ends:
        await asyncio.sleep(town.random.uniform(0.2, 2))
        await town.strike()
    over.set()
    await asyncio.gather(*calling)


def _look_at_runs(findings: Findings, crowd: Crowd, effects: Effects) -> None:
    """Whether every run came to its end, and was decided by whoever was told so, and by nobody else."""
    did: dict[str, list[str]] = {}
    for line in effects.all():
        did.setdefault(line["run"], []).append(line["what"])
    for run in crowd.runs:
        if not is_whole(run, did.get(run["id"], [])):
            findings.faults.append(f"did not go to its end: {run['id']} {run['error']}")
        for pause in run["pauses"]:
            findings.counts["decisions"] += 1
            taken = crowd.taken.get(pause["id"], set())
            counted = {vote["by"] for vote in pause["votes"]} or {pause["decision"]["by"]}
            if pause["status"] == "expired":
                counted = {vote["by"] for vote in pause["votes"]}
            if taken != counted:
                findings.faults.append(f"told {taken}, decided by {counted}: {pause['id']}")
