"""What a cycle costs: its times, and the processor time and statements of all who take part in it."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import asyncpg
import psutil


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """How long one run took to its pause, and from its decision to its end, in seconds."""

    pause: float
    resume: float


RunCycle: TypeAlias = Callable[[], Awaitable[Cycle]]


class Subject(Protocol):
    """What is measured."""

    @property
    def name(self) -> str: ...

    @property
    def database(self) -> str | None:
        """The name of its own database, where it has one."""
        ...

    def client(self) -> AbstractAsyncContextManager[RunCycle]:
        """One client, which runs a cycle after the other."""
        ...

    def cpu_seconds(self) -> float:
        """The processor time of its process so far, without Postgres and without its clients."""
        ...

    async def settled(self) -> None:
        """Returns when what its cycles left to be done later is done."""
        ...


@dataclass(frozen=True, kw_only=True)
class Round:
    """Some cycles of one subject. Processor times are in seconds a cycle."""

    cycles: list[Cycle]
    rate: float
    cpu: float
    postgres_cpu: float


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a cycle sends to Postgres."""

    statements: float
    commits: float


async def run_round(
    subject: Subject, postgres: psutil.Process, *, clients: int, cycles: int
) -> Round:
    """Lets so many clients share the cycles, and watches."""
    async with AsyncExitStack() as ending:
        runs = [await ending.enter_async_context(subject.client()) for _ in range(clients)]
        cpu, postgres_cpu = subject.cpu_seconds(), cpu_with_children(postgres)
        began = time.perf_counter()
        done = await _share(runs, cycles)
        took = time.perf_counter() - began
        await subject.settled()
        return Round(
            cycles=done,
            rate=cycles / took,
            cpu=(subject.cpu_seconds() - cpu) / cycles,
            postgres_cpu=(cpu_with_children(postgres) - postgres_cpu) / cycles,
        )


async def _share(runs: list[RunCycle], cycles: int) -> list[Cycle]:
    left = iter(range(cycles))

    async def go_on(run: RunCycle) -> list[Cycle]:
        return [await run() for _ in left]

    clients = await asyncio.gather(*[go_on(run) for run in runs])
    return [cycle for client in clients for cycle in client]


def cpu_of(process: psutil.Process) -> float:
    """The processor time of one process, in seconds."""
    times = process.cpu_times()
    return times.user + times.system


def cpu_with_children(process: psutil.Process) -> float:
    """The processor time of a process, of the children it has, and of those that have ended."""
    times = process.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            total += cpu_of(child)
    return total


def cpu_of_database(process: psutil.Process, database: str) -> float:
    """The processor time of the backends that a Postgres has for one of its databases, by their titles."""
    total = 0.0
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            if f" {database} " in " ".join(child.cmdline()):
                total += cpu_of(child)
    return total


class StatementLog:
    """Counts statements and transactions by Postgres' own log, which says each while it is on."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log

    async def traffic_of(self, subject: Subject, *, cycles: int) -> Traffic:
        """What a cycle of a single client sends; nothing, where the subject has no database."""
        if subject.database is None:
            return Traffic(statements=0, commits=0)
        async with self._on(), subject.client() as run:
            begins = self._log.stat().st_size
            for _ in range(cycles):
                await run()
            await subject.settled()
        text = self._log.read_bytes()[begins:].decode(errors="replace")
        transactions = re.findall(_entry_of(subject.database), text, re.MULTILINE)
        return Traffic(
            statements=len(transactions) / cycles, commits=len(set(transactions)) / cycles
        )

    @asynccontextmanager
    async def _on(self) -> AsyncGenerator[None]:
        await self._set(
            "alter system set log_line_prefix = '%d %v '", "alter system set log_statement = 'all'"
        )
        try:
            yield
        finally:
            await self._set("alter system reset all")

    async def _set(self, *settings: str) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            for setting in (*settings, "select pg_reload_conf()"):
                await connection.execute(setting)
        finally:
            await connection.close()
        await asyncio.sleep(0.2)  # until every backend has been told


def _entry_of(database: str) -> str:
    """The pattern of a statement in the log; its group is the transaction's number."""
    return rf"^{re.escape(database)} (\S+) LOG:  (?:statement|execute [^:]+):"
