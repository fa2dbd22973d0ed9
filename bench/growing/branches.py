"""Parallel branches that all ask: how long until all have asked, and what each decision then costs."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from bench.caller import Caller
from bench.growing.callers import Paused, decide, new_thread
from bench.growing.table import Table, megabytes, milliseconds, ratio
from bench.growing.workflows import BRANCHES
from bench.measure import cpu_of_database
from bench.postgres import Postgres
from bench.service import Service, serving

_BRANCHES_IN_ALL: Final = 200
"""Of each width, so that narrow runs are measured as well as wide ones."""
_LOOK_EVERY: Final = 0.02


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """Seconds, and processor seconds of the service and its Postgres."""

    seconds: float
    cpu: float

    def __add__(self, other: "_Taken") -> "_Taken":
        return _Taken(seconds=self.seconds + other.seconds, cpu=self.cpu + other.cpu)

    def __sub__(self, other: "_Taken") -> "_Taken":
        return _Taken(seconds=self.seconds - other.seconds, cpu=self.cpu - other.cpu)


_NOTHING: Final = _Taken(seconds=0.0, cpu=0.0)


async def many_branches(server: Postgres) -> list[Table]:
    """By the number of branches; a branch is an agent with one gated call."""
    table = Table(
        title="Parallel branches that each ask: what one branch takes",
        head=[
            "branches",
            "asked, ms",
            "CPU ms",
            "decided, ms",
            "CPU ms",
            "CPU, by the first",
            "memory, MB",
        ],
    )
    url = await server.make("branches")
    fans = [f"bench.growing.workflows:fan_{each}" for each in BRANCHES]
    log = server.folder / "branches.log"
    async with (
        serving("branches", url, "branches", log=log, workflows=fans) as service,
        Caller.connected(service.port) as caller,
    ):
        first = 0.0
        for branches in BRANCHES:
            asked, decided = await _measured(server, service, caller, branches)
            cpu = asked.cpu + decided.cpu
            first = first or cpu
            times = [
                milliseconds(each / _BRANCHES_IN_ALL)
                for each in (asked.seconds, asked.cpu, decided.seconds, decided.cpu)
            ]
            memory = megabytes(service.process.memory_info().rss)
            table.rows.append([str(branches), *times, ratio(cpu, first), memory])
    return [table]


async def _measured(
    server: Postgres, service: Service, caller: Caller, branches: int
) -> tuple[_Taken, _Taken]:
    """What it takes until all have asked, and from there to the end of the run, over several runs."""
    asked = decided = _NOTHING
    for _ in range(_BRANCHES_IN_ALL // branches):
        thread_id = await new_thread(caller)
        began = _now(server, service)
        body = {"workflow": f"fan-{branches}", "input": {"text": "the news"}}
        run = await caller.post(f"/threads/{thread_id}/runs", body, status=201)
        pauses = [
            Paused(thread_id=thread_id, run_id=run["id"], pause_id=each["id"])
            for each in run["pauses"]
        ]
        assert len(pauses) == branches
        between = _now(server, service)
        for paused in pauses:
            await decide(caller, paused)
        await _ended(caller, pauses[0])
        asked += between - began
        decided += _now(server, service) - between
    return asked, decided


def _now(server: Postgres, service: Service) -> _Taken:
    cpu = service.cpu_seconds() + cpu_of_database(server.process, service.database)
    return _Taken(seconds=time.perf_counter(), cpu=cpu)


async def _ended(caller: Caller, paused: Paused) -> None:
    while True:
        run = await caller.get(paused.path, status=200)
        if run["finished_at"]:
            assert run["status"] == "completed", run["error"]
            return
        await asyncio.sleep(_LOOK_EVERY)
