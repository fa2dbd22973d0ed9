"""Paused runs: what requests cost among few and among many of them, and what each of them takes.

Two services over two databases of one Postgres: one keeps a few hundred paused runs, the other gets more and more.
Each request is made to both in turn, so that what else the machine does falls on both alike.
"""

import asyncio
import random
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import asyncpg

from bench.caller import Caller
from bench.growing.callers import Paused, decide, new_thread, seconds_of, start, timed
from bench.growing.table import Table, kilobytes, megabytes, milliseconds, ratio
from bench.measure import cpu_of_database
from bench.postgres import Postgres
from bench.service import Service, serving

_FEW: Final = 300
_SELDOM: Final = 20
"""Of them: less than a page."""
_KEPT: Final = 250
"""The first that were parked: no process remembers them after a thousand others."""
_CLIENTS: Final = 8
_SAMPLES: Final = 40
_IDLE_SECONDS: Final = 5.0
_QUIET_WITHIN: Final = 120  # seconds

_SIZES: Final = """
select c.relname as name, pg_total_relation_size(c.oid) as bytes
from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
"""
_AT_WORK: Final = "select count(*) from pg_stat_activity where backend_type = 'autovacuum worker'"


@dataclass(kw_only=True)
class _Growing:
    """A service and its paused runs: `oldest` are those that were made first, `last` the one made last."""

    service: Service
    url: str
    count: int = 0
    oldest: list[Paused] = field(default_factory=list[Paused])
    last: Paused | None = None

    async def grow(self, to: int) -> None:
        numbers = iter(range(self.count, to))
        async with AsyncExitStack() as ending:
            callers = [
                await ending.enter_async_context(Caller.connected(self.service.port))
                for _ in range(_CLIENTS)
            ]
            await asyncio.gather(*(self._start_all(each, numbers) for each in callers))
        self.count = max(self.count, to)

    async def _start_all(self, caller: Caller, numbers: Iterator[int]) -> None:
        for number in numbers:
            if number < _SELDOM:
                await start(caller, await new_thread(caller), "seldom")
                continue
            paused = await start(caller, await new_thread(caller), "errands")
            if len(self.oldest) < _KEPT:
                self.oldest.append(paused)


_Timed: TypeAlias = Callable[[_Growing, Caller], Awaitable[float]]


async def _start_one(growing: _Growing, caller: Caller) -> float:
    thread_id = await new_thread(caller)
    growing.last, took = await timed(start(caller, thread_id, "errands"))
    return took


async def _decide_last(growing: _Growing, caller: Caller) -> float:
    assert growing.last
    return await seconds_of(decide(caller, growing.last))


async def _decide_oldest(growing: _Growing, caller: Caller) -> float:
    paused = growing.oldest.pop(0)
    return await seconds_of(decide(caller, paused))


def _get(path: str) -> _Timed:
    return lambda _, caller: seconds_of(caller.get(path, status=200))


async def _get_pause(growing: _Growing, caller: Caller) -> float:
    paused = random.choice(growing.oldest)
    return await seconds_of(caller.get(f"/pauses/{paused.pause_id}", status=200))


async def _get_run(growing: _Growing, caller: Caller) -> float:
    paused = random.choice(growing.oldest)
    return await seconds_of(caller.get(paused.path, status=200))


_REQUESTS: Final[Mapping[str, _Timed]] = {
    "start → pause": _start_one,
    "decide → end": _decide_last,
    "decide → end, paused long ago": _decide_oldest,
    "GET /pauses": _get("/pauses"),
    "the inbox: GET /pauses?status=open&limit=50": _get("/pauses?status=open&limit=50"),
    "GET /pauses?status=open&workflow=seldom": _get("/pauses?status=open&workflow=seldom"),
    "GET /pauses?status=open&channel=board": _get("/pauses?status=open&channel=board"),
    "GET /pauses?status=open&kind=review": _get("/pauses?status=open&kind=review"),
    "GET /pauses/{pause_id}": _get_pause,
    "a run's page: GET /threads/{thread_id}/runs/{run_id}": _get_run,
    "GET /threads": _get("/threads"),
    "GET /deliveries?status=delivered": _get("/deliveries?status=delivered"),
    "GET /audit": _get("/audit"),
    "GET /metrics": _get("/metrics"),
}


async def paused_runs(server: Postgres, most: int) -> list[Table]:
    """Requests, memory and bytes with few, with a tenth of `most`, and with `most` paused runs."""
    at_rest = Table(
        title="The process beside paused runs",
        head=["paused runs", "made in s", "its memory, MB", "idle: CPU ms/s", "and of Postgres"],
    )
    found: list[tuple[int, Mapping[str, tuple[float, float]]]] = []
    async with AsyncExitStack() as ending:
        few, many = [await _served(server, name, ending) for name in ("few", "many")]
        empty = await _sizes(many.url)
        await few.grow(_FEW)
        for count in (_FEW, most // 10, most):
            took = await seconds_of(many.grow(count))
            await _quiet(server)
            at_rest.rows.append(
                [f"{many.count:,}", f"{took:.0f}", *await _at_rest(many.service, server)]
            )
            found.append((many.count, await _compared(few, many)))
        sizes = _grown(empty, await _sizes(many.url), many.count)
    return [_requests(found), at_rest, sizes]


async def _served(server: Postgres, name: str, ending: AsyncExitStack) -> _Growing:
    url = await server.make(name)
    seldom = ["bench.growing.workflows:seldom"]
    log = server.folder / f"{name}.log"
    service = await ending.enter_async_context(serving(name, url, name, log=log, workflows=seldom))
    return _Growing(service=service, url=url)


async def _compared(few: _Growing, many: _Growing) -> Mapping[str, tuple[float, float]]:
    """What each request takes among few and among many: medians."""
    taken: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    async with (
        Caller.connected(few.service.port) as one,
        Caller.connected(many.service.port) as other,
    ):
        for _ in range(_SAMPLES):
            for name, request in _REQUESTS.items():
                taken[name][0].append(await request(few, one))
                taken[name][1].append(await request(many, other))
    return {
        name: (statistics.median(one), statistics.median(other))
        for name, (one, other) in taken.items()
    }


async def _at_rest(service: Service, server: Postgres) -> list[str]:
    """Its memory, and what it and its part of Postgres do while nobody asks anything."""
    memory = megabytes(service.process.memory_info().rss)
    own, backends = service.cpu_seconds(), cpu_of_database(server.process, service.database)
    await asyncio.sleep(_IDLE_SECONDS)
    own = service.cpu_seconds() - own
    backends = cpu_of_database(server.process, service.database) - backends
    return [memory, milliseconds(own / _IDLE_SECONDS), milliseconds(backends / _IDLE_SECONDS)]


async def _quiet(server: Postgres) -> None:
    """Returns once Postgres has looked after what was written."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("checkpoint")
    for _ in range(_QUIET_WITHIN):
        if not await connection.fetchval(_AT_WORK):
            break
        await asyncio.sleep(1)
    await connection.close()


async def _sizes(url: str) -> Mapping[str, int]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(_SIZES)
    await connection.close()
    return {row["name"]: row["bytes"] for row in rows}


def _requests(found: list[tuple[int, Mapping[str, tuple[float, float]]]]) -> Table:
    table = Table(
        title=f"Requests beside paused runs: p50 ms among {_FEW}, and times that among more",
        head=["", "ms", *(f"{count:,}" for count, _ in found)],
    )
    for name in _REQUESTS:
        few = milliseconds(statistics.median(medians[name][0] for _, medians in found))
        ratios = [ratio(medians[name][1], medians[name][0]) for _, medians in found]
        table.rows.append([name, few, *ratios])
    return table


def _grown(before: Mapping[str, int], after: Mapping[str, int], count: int) -> Table:
    table = Table(title=f"What a paused run takes, of {count:,}", head=["table", "kB"])
    grown = {name: (after[name] - before[name]) / count for name in after}
    for name, size in sorted(grown.items(), key=lambda item: -item[1]):
        if size > 1:
            table.rows.append([name, kilobytes(size)])
    table.rows.append(["all", kilobytes(sum(grown.values()))])
    return table
