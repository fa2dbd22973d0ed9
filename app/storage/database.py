"""One pool of asyncpg connections: JSON by orjson, no reset query, errors with a name."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias, cast

import asyncpg
import orjson
from sqlalchemy.dialects.postgresql import asyncpg as asyncpg_dialect
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from app.errors import SignoffError

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)
Row: TypeAlias = asyncpg.Record

LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
"""What says that Postgres is away for the moment."""

_DIALECT: Any = asyncpg_dialect.dialect()


class StoreUnavailable(SignoffError):
    """Postgres cannot be reached; nothing is known to have been written."""

    code = "store_unavailable"


class Store(Protocol):
    """What runs statements: the database, each on its own, or one transaction of it."""

    async def fetch(self, query: str, *arguments: object) -> list[Row]: ...

    async def fetch_row(self, query: str, *arguments: object) -> Row | None: ...


class Transaction:
    """Statements that are committed together."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        return await self._connection.fetch(query, *arguments)

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        return await self._connection.fetchrow(query, *arguments)


class Database:
    """The service's one way to Postgres. A method is one statement, committed on its own."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", url: str) -> None:
        self._pool = pool
        self.url = url

    @classmethod
    async def connect(
        cls, url: str, *, size: int = 10, prepared_statements: bool = True
    ) -> "Database":
        """Opens the pool. `prepared_statements=False` for a PgBouncer in transaction mode."""
        with _named_errors():
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=size,
                init=_set_codecs,
                reset=_keep,
                statement_cache_size=512 if prepared_statements else 0,
                command_timeout=30,
                server_settings={"application_name": "signoff", "timezone": "UTC"},
            )
        return cls(pool, url)

    async def close(self) -> None:
        await self._pool.close()

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        with _named_errors():
            async with self._pool.acquire() as connection:
                return await connection.fetch(query, *arguments)

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        with _named_errors():
            async with self._pool.acquire() as connection:
                return await connection.fetchrow(query, *arguments)

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

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """For the few cases that need more than one statement."""
        with _named_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                yield Transaction(connection)

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
