"""Idle streams of events: what a thousand followers cost while nothing happens, and what others notice of them."""

import asyncio
import statistics
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bench.caller import Caller, read_head
from bench.growing.callers import Paused, decide, new_thread, start, timed
from bench.growing.table import Table, kilobytes, megabytes, milliseconds, ratio
from bench.measure import cpu_of_database
from bench.postgres import Postgres
from bench.service import Service, serving

_COUNTS: Final = (0, 100, 1000)
_SAMPLES: Final = 60
_IDLE_SECONDS: Final = 20.0
"""Longer than from one heartbeat to the next."""


async def idle_streams(server: Postgres) -> list[Table]:
    """By the number of streams, each of a paused run of its own; another service has none and is asked in turn."""
    table = Table(
        title="Idle streams of events",
        head=[
            "streams",
            "memory, MB",
            "kB a stream",
            "idle: CPU ms/s",
            "and of Postgres",
            "start → pause, times without",
            "decide → end, times without",
        ],
    )
    async with AsyncExitStack() as ending:
        without, followed = [
            await ending.enter_async_context(
                serving(name, await server.make(name), name, log=server.folder / f"{name}.log")
            )
            for name in ("without", "followed")
        ]
        before, open_streams = 0, 0
        for count in _COUNTS:
            paused = await _paused(followed, count - open_streams)
            before = before or followed.process.memory_info().rss
            begun = followed.process.memory_info().rss
            for each in paused:
                await ending.enter_async_context(_following(followed.port, each))
            added = len(paused)
            open_streams += added
            idle = await _idle(server, followed)
            memory = followed.process.memory_info().rss
            of_one = kilobytes((memory - begun) / added) if added else ""
            ratios = await _latencies(without, followed)
            table.rows.append([str(count), megabytes(memory), of_one, *idle, *ratios])
    return [table]


async def _paused(service: Service, count: int) -> list[Paused]:
    async with Caller.connected(service.port) as caller:
        return [await start(caller, await new_thread(caller), "errands") for _ in range(count)]


@asynccontextmanager
async def _following(port: int, paused: Paused) -> AsyncGenerator[None]:
    """A stream of a run's events, of which what comes is taken and forgotten."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {paused.path}/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    await read_head(reader)
    taking = asyncio.create_task(_take(reader))
    try:
        yield
    finally:
        taking.cancel()
        writer.transport.abort()


async def _take(reader: asyncio.StreamReader) -> None:
    while await reader.read(4096):
        pass


async def _idle(server: Postgres, service: Service) -> list[str]:
    own, backends = service.cpu_seconds(), cpu_of_database(server.process, service.database)
    await asyncio.sleep(_IDLE_SECONDS)
    own = service.cpu_seconds() - own
    backends = cpu_of_database(server.process, service.database) - backends
    return [milliseconds(own / _IDLE_SECONDS), milliseconds(backends / _IDLE_SECONDS)]


async def _latencies(without: Service, followed: Service) -> list[str]:
    starting: tuple[list[float], list[float]] = ([], [])
    deciding: tuple[list[float], list[float]] = ([], [])
    async with Caller.connected(without.port) as one, Caller.connected(followed.port) as other:
        for _ in range(_SAMPLES):
            for at, caller in enumerate((one, other)):
                thread_id = await new_thread(caller)
                paused, took = await timed(start(caller, thread_id, "errands"))
                starting[at].append(took)
                deciding[at].append((await timed(decide(caller, paused)))[1])
    return [
        ratio(statistics.median(some), statistics.median(none))
        for none, some in (starting, deciding)
    ]
