"""Measures cycles with more and more processes on one database, and which of them the time goes to.

    python -m bench.scale [--processes 1,2,4] [--clients 8] [--cycles 200] [--rounds 3]

So many processes that serve without working, and as many workers. A cycle makes a thread, runs to its pause and
resumes to its end. On few cores the rate says where they end; the processor time a cycle of each part says what
more of them would carry. Waits are what the backends of Postgres that had a statement were seen to wait for.
"""

import argparse
import asyncio
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil
import uvloop

from bench.growing.table import Table, milliseconds
from bench.measure import RunCycle, cpu_of, cpu_of_database
from bench.postgres import Postgres, temporary_postgres
from bench.service import Service, serving, working

_WARM_UP = 64  # cycles
_LOOK_EVERY = 0.02

_COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"
_AT_WORK = """
select coalesce(wait_event_type || ': ' || wait_event, 'none: it computes') as wait, count(*) as count
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state = 'active' group by 1
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is measured."""

    processes: Sequence[int]
    clients: int
    cycles: int
    rounds: int

    @classmethod
    def read(cls) -> "Options":
        parser = argparse.ArgumentParser(prog="python -m bench.scale")
        parser.add_argument("--processes", default="1,2,4", help="of each kind, with commas")
        parser.add_argument("--clients", type=int, default=8)
        parser.add_argument("--cycles", type=int, default=200, help="in a round, all clients")
        parser.add_argument("--rounds", type=int, default=3)
        given = parser.parse_args()
        processes = [int(each) for each in given.processes.split(",")]
        return cls(
            processes=processes, clients=given.clients, cycles=given.cycles, rounds=given.rounds
        )


@dataclass(frozen=True, kw_only=True)
class _Site:
    """The processes on one database."""

    name: str
    url: str
    serving: list[Service]
    working: list[psutil.Process]


@dataclass(frozen=True, kw_only=True)
class _Spent:
    """Processor seconds by part, and commits."""

    serving: float
    working: float
    postgres: float
    commits: float


@dataclass(frozen=True, kw_only=True)
class _Round:
    """A round: cycles a second, and what one cycle took."""

    rate: float
    cycle: _Spent


async def main(options: Options) -> None:
    """Measures, and prints the tables."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load}; "
        f"{options.clients} clients, medians of {options.rounds} rounds of {options.cycles} cycles\n"
    )
    table = Table(
        title="A cycle by the number of processes of each kind",
        head=["processes", "cycles/s", "API, CPU ms", "workers", "Postgres", "all", "commits"],
    )
    waits: Counter[str] = Counter()
    async with temporary_postgres() as server:
        for count in options.processes:
            async with _site(server, count) as site:
                await _cycles(site, options.clients, _WARM_UP)
                async with _watching(site.url, waits):
                    rounds = [await _round(server, site, options) for _ in range(options.rounds)]
            table.rows.append([str(count), *_medians(rounds)])
    print(f"{table.written()}\n\n{_of_waits(waits).written()}")


@asynccontextmanager
async def _site(server: Postgres, count: int) -> AsyncGenerator[_Site]:
    name = f"scale_{count}"
    url = await server.make(name)
    async with AsyncExitStack() as ending:
        served = [
            await ending.enter_async_context(
                serving(name, url, name, log=_log(server, f"api_{at}"), works=False)
            )
            for at in range(count)
        ]
        workers = [
            await ending.enter_async_context(working(url, log=_log(server, f"worker_{at}")))
            for at in range(count)
        ]
        yield _Site(name=name, url=url, serving=served, working=workers)


def _log(server: Postgres, name: str) -> Path:
    return server.folder / f"{name}.log"


async def _round(server: Postgres, site: _Site, options: Options) -> _Round:
    before, began = await _spent(server, site), time.perf_counter()
    await _cycles(site, options.clients, options.cycles)
    took, after = time.perf_counter() - began, await _spent(server, site)
    cycle = _Spent(
        serving=(after.serving - before.serving) / options.cycles,
        working=(after.working - before.working) / options.cycles,
        postgres=(after.postgres - before.postgres) / options.cycles,
        commits=(after.commits - before.commits) / options.cycles,
    )
    return _Round(rate=options.cycles / took, cycle=cycle)


async def _cycles(site: _Site, clients: int, cycles: int) -> None:
    """Lets the clients, which are spread over the processes that serve, share the cycles."""
    left = iter(range(cycles))

    async def go_on(run: RunCycle) -> None:
        for _ in left:
            await run()

    async with AsyncExitStack() as ending:
        runs = [
            await ending.enter_async_context(site.serving[at % len(site.serving)].client())
            for at in range(clients)
        ]
        await asyncio.gather(*(go_on(run) for run in runs))


async def _spent(server: Postgres, site: _Site) -> _Spent:
    connection = await asyncpg.connect(site.url)
    commits = await connection.fetchval(_COMMITS)
    await connection.close()
    return _Spent(
        serving=sum(each.cpu_seconds() for each in site.serving),
        working=sum(cpu_of(each) for each in site.working),
        postgres=cpu_of_database(server.process, site.name),
        commits=float(commits),
    )


@asynccontextmanager
async def _watching(url: str, waits: Counter[str]) -> AsyncGenerator[None]:
    connection = await asyncpg.connect(url)

    async def watch() -> None:
        while True:
            for row in await connection.fetch(_AT_WORK):
                waits[row["wait"]] += row["count"]
            await asyncio.sleep(_LOOK_EVERY)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await connection.close()


def _medians(rounds: Sequence[_Round]) -> list[str]:
    cycles = [each.cycle for each in rounds]
    parts = [
        statistics.median(each.serving for each in cycles),
        statistics.median(each.working for each in cycles),
        statistics.median(each.postgres for each in cycles),
        statistics.median(each.serving + each.working + each.postgres for each in cycles),
    ]
    rate = statistics.median(each.rate for each in rounds)
    commits = statistics.median(each.commits for each in cycles)
    return [f"{rate:.0f}", *(milliseconds(each) for each in parts), f"{commits:.1f}"]


def _of_waits(waits: Counter[str]) -> Table:
    table = Table(title="What backends with a statement waited for", head=["wait", "of 100"])
    for wait, count in waits.most_common(8):
        table.rows.append([wait, f"{100 * count / waits.total():.0f}"])
    return table


if __name__ == "__main__":
    uvloop.run(main(Options.read()))
