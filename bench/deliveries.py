"""Measures how long notices take to arrive, with addresses beside them that are dead or slow, and without.

    python -m bench.deliveries [--notices 10000] [--addresses 50] [--dead 5] [--slow 5]

All notices are due at once, the same number for each address. A dead address takes the connection and never
answers; a slow one answers after three seconds. Both times the same good addresses get the same notices, from
a service of its own over a database of its own; the delay of a notice is from being due to arriving. This
process is the receivers.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import asyncpg
import uvloop

from bench.postgres import Postgres, temporary_postgres
from bench.service import serving

SLOW_SECONDS = 3.0
_WITHIN = 150.0  # seconds for all good notices to arrive
_TAKEN = b"HTTP/1.1 204 taken\r\nconnection: close\r\n\r\n"

_FILL = """
with numbered as (
  select n, $1::text[] as urls, (n - 1) % cardinality($1::text[]) + 1 as place
  from generate_series(1, $2::int) n
), named as (
  select 'thr_' || n as thread_id, 'run_' || n as run_id, 'dlv_' || n as id, urls[place] as url from numbered
), thread as (
  insert into threads (id, tenant, metadata, event_sequence) select thread_id, 'default', '{}', 1 from named
), run as (
  insert into runs (thread_id, id, tenant, workflow, version, fingerprint, status, input, shown_input, metadata,
                    callback, callback_host, finished_at)
  select thread_id, run_id, 'default', 'errands', '1', '-', 'completed', '{}', '{}', '{}',
         json_build_object('url', url), substring(url from '//([^/]*)'), now()
  from named
), event as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select thread_id, 'default', 1, run_id, 'run.completed', '{}' from named
)
insert into deliveries (thread_id, id, tenant, run_id, event_type, event_sequence, address, status, next_attempt_at)
select thread_id, id, 'default', run_id, 'run.completed', 1, substring(url from '//([^/]*)'), 'pending', now()
from named
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How many notices, and to whom."""

    notices: int
    addresses: int
    dead: int
    slow: int

    @property
    def good(self) -> int:
        return self.addresses - self.dead - self.slow

    @property
    def each(self) -> int:
        return self.notices // self.addresses

    @classmethod
    def read(cls) -> "Options":
        parser = argparse.ArgumentParser(prog="python -m bench.deliveries")
        parser.add_argument("--notices", type=int, default=10_000)
        parser.add_argument("--addresses", type=int, default=50)
        parser.add_argument("--dead", type=int, default=5)
        parser.add_argument("--slow", type=int, default=5)
        return cls(**vars(parser.parse_args()))


class Inboxes:
    """Receivers on ports of their own; the good ones note when something arrives."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.arrived: list[float] = []
        self.all_arrived = asyncio.Event()
        self._closing = asyncio.Event()
        self.urls: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self, count: int, *, waits: float | None, notes: bool) -> None:
        """Adds so many receivers that answer after `waits` seconds; None: never."""

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await _read(reader)
                if notes:
                    self._note()
                await self._wait(waits)
                writer.write(_TAKEN)
            self._open.discard(writer)
            writer.close()

        for _ in range(count):
            server = await asyncio.start_server(take, "127.0.0.1", 0, backlog=512)
            self._servers.append(server)
            self.urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def _note(self) -> None:
        self.arrived.append(time.perf_counter())
        if len(self.arrived) == self.expected:
            self.all_arrived.set()

    def close(self) -> None:
        self._closing.set()
        for server in self._servers:
            server.close()
        for writer in self._open:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
    await reader.readexactly(int(length))


async def main(options: Options) -> None:
    """Measures twice, and prints what came of it."""
    async with temporary_postgres() as server:
        alone = await _delays(options, server, beside=False)
        beside = await _delays(options, server, beside=True)
    _print(options, alone, beside)


async def _delays(options: Options, server: Postgres, *, beside: bool) -> list[float]:
    """How long each notice to a good address took."""
    name = "beside" if beside else "alone"
    database_url = await server.make(name)
    async with (
        _inboxes(options, beside=beside) as inboxes,
        serving(name, database_url, name, log=server.folder / f"{name}.log"),
    ):
        connection = await asyncpg.connect(database_url)
        due = time.perf_counter()
        await connection.execute(_FILL, inboxes.urls, options.each * len(inboxes.urls))
        await connection.close()
        await asyncio.wait_for(inboxes.all_arrived.wait(), _WITHIN)
        return sorted(at - due for at in inboxes.arrived)


@asynccontextmanager
async def _inboxes(options: Options, *, beside: bool) -> AsyncGenerator[Inboxes]:
    inboxes = Inboxes(options.each * options.good)
    try:
        if beside:
            await inboxes.listen(options.dead, waits=None, notes=False)
            await inboxes.listen(options.slow, waits=SLOW_SECONDS, notes=False)
        await inboxes.listen(options.good, waits=0, notes=True)
        yield inboxes
    finally:
        inboxes.close()


def _print(options: Options, alone: Sequence[float], beside: Sequence[float]) -> None:
    print(
        f"{options.each} notices to each of {options.good} good addresses, "
        f"without and with {options.dead} dead and {options.slow} slow ones beside them"
    )
    print("| | notices | a second | p50 delay s | p95 delay s |")
    print("|---|---|---|---|---|")
    for name, delays in (("without", alone), ("with", beside)):
        quantiles = statistics.quantiles(delays, n=20)
        print(
            f"| {name} | {len(delays)} | {len(delays) / delays[-1]:.0f} "
            f"| {quantiles[9]:.2f} | {quantiles[18]:.2f} |"
        )
    ratio = statistics.quantiles(beside, n=20)[18] / statistics.quantiles(alone, n=20)[18]
    print(f"p95 with / without: {ratio:.2f}")


if __name__ == "__main__":
    uvloop.run(main(Options.read()))
