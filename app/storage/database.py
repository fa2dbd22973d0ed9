"""One pool of asyncpg connections: JSON by orjson, no reset query, errors with a name."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import asyncpg
import orjson
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from app.errors import SignoffError
from app.storage.sealing import PLAIN, Vault
from app.watching.backlog import PoolUse

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Pooled: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Row: TypeAlias = asyncpg.Record

LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,  # a statement met the end of its connection half way
)
"""What says that Postgres is away for the moment."""

T = TypeVar("T")

TRANSACTIONS = 2
"""How many connections beyond the statements' own there are for transactions."""

_DIALECT: Any = asyncpg_dialect.dialect()


class StoreUnavailable(SignoffError):
    """Postgres cannot be reached; nothing is known to have been written."""

    code = "store_unavailable"


class Store(Protocol):
    """What runs statements: the database, each on its own, or one transaction of it."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]: ...

    async def fetch_row(self, query: str, *arguments: object) -> Row | None: ...

    @property
    def vault(self) -> Vault: ...


class Transaction:
    """Statements that are committed together."""

    def __init__(self, connection: Connection, vault: Vault) -> None:
        self._connection = connection
        self.vault = vault

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        return await self._connection.fetch(query, *arguments)

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        return await self._connection.fetchrow(query, *arguments)

    def stream(self, query: str, *arguments: object, seconds: float) -> AsyncIterable[Row]:
        """The rows as they come, for a query with more of them than fit into memory."""
        return self._connection.cursor(query, *arguments, prefetch=500, timeout=seconds)


class Database:
    """The service's one way to Postgres. A method is one statement, committed on its own.

    A connection that went well stays with the database, the last one used being the next one taken: a way
    through the pool costs more than a statement. The pool makes them, and takes back those that failed.
    """

    def __init__(
        self, pool: "asyncpg.Pool[asyncpg.Record]", url: str, size: int, vault: Vault
    ) -> None:
        self.vault = vault
        self._pool = pool
        self._idle: list[Pooled] = []
        self._free = asyncio.Semaphore(size)
        self._is_closing = False
        self._size = size
        self._asked = 0
        self.url = url

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        size: int = 10,
        prepared_statements: bool = True,
        vault: Vault = PLAIN,
    ) -> "Database":
        """Opens the pool. `prepared_statements=False` for a PgBouncer in transaction mode.

        `vault` seals the true values that its statements write.
        """
        with _named_errors():
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=size + TRANSACTIONS,
                init=_set_codecs,
                reset=_keep,
                statement_cache_size=512 if prepared_statements else 0,
                command_timeout=30,
                server_settings={"application_name": "signoff", "timezone": "UTC"},
            )
        return cls(pool, url, size, vault)

    async def close(self) -> None:
        self._is_closing = True  # what is under way gives its connection back to the pool
        while self._idle:
            await self._pool.release(self._idle.pop())
        await self._pool.close()

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        return await self._lent(lambda connection: connection.fetch(query, *arguments))

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        return await self._lent(lambda connection: connection.fetchrow(query, *arguments))

    async def fetch_composed(self, query: ClauseElement) -> list[Row]:
        """Runs a query that was composed with SQLAlchemy Core."""
        compiled = cast(
            "SQLCompiler",
            query.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True}),
        )
        values = compiled.params
        return await self.fetch(
            str(compiled), *(values[name] for name in compiled.positiontup or ())
        )

    @property
    def use(self) -> PoolUse:
        """How many statements may be at work, are, and wait for one that is to end."""
        waiting = max(0, self._asked - self._size)
        return PoolUse(size=self._size, busy=self._asked - waiting, waiting=waiting)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """For the few cases that need more than one statement."""
        with _named_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                yield Transaction(connection, self.vault)

    async def _lent(self, use: Callable[[Pooled], Awaitable[T]]) -> T:
        """What `use` gives with a connection; what goes wrong is an error with a name."""
        self._asked += 1
        try:
            return await self._given(use)
        finally:
            self._asked -= 1

    async def _given(self, use: Callable[[Pooled], Awaitable[T]]) -> T:
        with _named_errors():
            async with self._free:
                connection = await self._taken()
                try:
                    given = await use(connection)
                except BaseException:
                    await self._pool.release(connection)
                    raise
                if self._is_closing:
                    await self._pool.release(connection)
                else:
                    self._idle.append(connection)
                return given

    async def _taken(self) -> Pooled:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            await self._pool.release(connection)
        return await self._pool.acquire()

    async def listen(self, channel: str, hear: Callable[[str], None]) -> None:
        """Calls `hear` with what is notified on `channel`, on a connection of its own, until that is lost."""
        lost = asyncio.Event()
        with _named_errors():
            connection = await asyncpg.connect(self.url)
            try:
                connection.add_termination_listener(lambda _: lost.set())
                await connection.add_listener(
                    channel, lambda _connection, _pid, _channel, payload: hear(str(payload))
                )
                await lost.wait()
            finally:
                await connection.close()


class _named_errors:  # noqa: N801  # reads as a statement: `with _named_errors():`
    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if isinstance(error, LOST):
            raise StoreUnavailable(
                "Postgres cannot be reached.", reason=type(error).__name__
            ) from error


async def _set_codecs(connection: Connection) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=orjson.dumps, decoder=orjson.loads, format="binary"
    )


async def _keep(_: Connection) -> None:
    """Every statement stands alone, so a connection comes back as it went; a reset costs four statements."""
