"""A thread of a thousand runs, and a run of a thousand turns: what the last ones cost beside the first ones."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from bench.caller import Caller
from bench.growing.callers import Paused, decide, new_thread, start
from bench.growing.table import Table, kilobytes, milliseconds, ratio
from bench.growing.workflows import STRETCH
from bench.measure import cpu_of_database
from bench.postgres import Postgres
from bench.service import Service, serving

_RUNS: Final = 1000
_STRETCHES: Final = 10


@dataclass(frozen=True, kw_only=True)
class _Spent:
    """What was spent so far: seconds, processor seconds of the service and of its Postgres, bytes of WAL."""

    seconds: float
    own: float
    postgres: float
    wal: float

    def since(self, before: "_Spent", parts: int) -> "_Spent":
        """What each of some parts took since then."""
        return _Spent(
            seconds=(self.seconds - before.seconds) / parts,
            own=(self.own - before.own) / parts,
            postgres=(self.postgres - before.postgres) / parts,
            wal=(self.wal - before.wal) / parts,
        )


async def long_threads(server: Postgres) -> list[Table]:
    """Runs of one thread by the hundred, then turns of one run by the hundred."""
    url = await server.make("threads")
    talker = ["bench.growing.workflows:talker"]
    log = server.folder / "threads.log"
    async with (
        serving("threads", url, "threads", log=log, workflows=talker) as service,
        Caller.connected(service.port) as caller,
    ):
        runs = await _runs_of_one_thread(server, service, caller)
        turns = await _turns_of_one_run(server, service, caller)
    return [
        _by_stretches("A thread of many runs: what one run takes, start → pause → end", runs),
        _by_stretches("A run of many turns: what one turn of an agent takes", turns),
    ]


async def _runs_of_one_thread(
    server: Postgres, service: Service, caller: Caller
) -> Sequence[_Spent]:
    thread_id = await new_thread(caller)
    each = _RUNS // _STRETCHES
    stretches: list[_Spent] = []
    for _ in range(_STRETCHES):
        before = await _spent(server, service)
        for _ in range(each):
            await decide(caller, await start(caller, thread_id, "errands"))
        stretches.append((await _spent(server, service)).since(before, each))
    return stretches


async def _turns_of_one_run(server: Postgres, service: Service, caller: Caller) -> Sequence[_Spent]:
    """The agent asks a person after each hundredth turn."""
    before = await _spent(server, service)
    paused = await start(caller, await new_thread(caller), "talker")
    stretches = [(await _spent(server, service)).since(before, STRETCH)]
    while True:
        before = await _spent(server, service)
        run = await decide(caller, paused)
        if run["status"] != "paused":
            return stretches
        stretches.append((await _spent(server, service)).since(before, STRETCH))
        paused = Paused(
            thread_id=paused.thread_id, run_id=paused.run_id, pause_id=run["pause"]["id"]
        )


async def _spent(server: Postgres, service: Service) -> _Spent:
    connection = await asyncpg.connect(server.url)
    wal = await connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'")
    await connection.close()
    return _Spent(
        seconds=time.perf_counter(),
        own=service.cpu_seconds(),
        postgres=cpu_of_database(server.process, service.database),
        wal=float(wal),
    )


def _by_stretches(title: str, stretches: Sequence[_Spent]) -> Table:
    table = Table(
        title=title, head=["", "ms", "CPU ms", "of Postgres", "WAL kB", "times the first, CPU"]
    )
    first = stretches[0]
    each = 1000 // len(stretches)
    for number, spent in enumerate(stretches):
        table.rows.append(
            [
                f"{number * each + 1} to {(number + 1) * each}",
                milliseconds(spent.seconds),
                milliseconds(spent.own),
                milliseconds(spent.postgres),
                kilobytes(spent.wal),
                ratio(spent.own + spent.postgres, first.own + first.postgres),
            ]
        )
    later = statistics.median(each.own + each.postgres for each in stretches[-3:])
    earlier = statistics.median(each.own + each.postgres for each in stretches[:3])
    table.rows.append(["the last three by the first three", *[""] * 4, ratio(later, earlier)])
    return table
