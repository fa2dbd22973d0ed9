"""One Postgres for a whole session of tests, and a database of its own for every test.

An embedded Postgres by default; another one where `SIGNOFF_TEST_DATABASE_URL` names it, by an account
that may create databases. With `SIGNOFF_TEST_PGBOUNCER=1` the service reaches it through a PgBouncer in
transaction mode, and has no prepared statements.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from app.storage.embedded import EmbeddedPostgres
from app.storage.migrate import migrate
from tests.pooler import IS_POOLED, pgbouncer

# Nothing here has to outlive a power cut.
QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "300",
    "max_wal_size": "256MB",
}
_MEMORY = Path("/dev/shm")  # copying a database there takes a tenth of the time
_ENOUGH = 2 << 30  # bytes
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Postgres with a migrated database to copy from. `pooled` is where the service reaches it instead."""

    url: str
    template: str
    pooled: str | None = None

    @asynccontextmanager
    async def migrated_database(self) -> AsyncGenerator[str]:
        """The URL of a database with the service's tables, which goes afterwards."""
        async with self._database_from(self.template) as url:
            yield url

    @asynccontextmanager
    async def empty_database(self) -> AsyncGenerator[str]:
        """The URL of a database without any table, which goes afterwards."""
        async with self._database_from("template0") as url:
            yield url

    async def make_template(self) -> None:
        await self._run(f"create database {self.template}")
        await migrate(_in_database(self.url, self.template))

    async def drop_template(self) -> None:
        await self._run(f"drop database {self.template} with (force)")

    @asynccontextmanager
    async def _database_from(self, template: str) -> AsyncGenerator[str]:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        await self._run(f"create database {name} template {template} strategy file_copy")
        try:
            yield _in_database(self.pooled or self.url, name)
        finally:
            await self._run(f"drop database {name} with (force)")

    async def _run(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


def _in_database(url: str, name: str) -> str:
    # By hand: urlunsplit loses the empty host of a URL with a socket.
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{name}{query}"


def quickest_folder() -> Path | None:
    """Where to put the data of a Postgres: into memory, if there is enough; None: where files usually go."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH
    return _MEMORY if roomy and os.access(_MEMORY, os.W_OK) else None


@contextmanager
def serve() -> Generator[Cluster]:
    """A Postgres that is ready to be copied from, until the end of the block."""
    with _server() as url, _pooler(url) as pooled:
        cluster = Cluster(url=url, template=f"template_{os.getpid()}", pooled=pooled)
        asyncio.run(cluster.make_template())
        yield cluster
        asyncio.run(cluster.drop_template())


@contextmanager
def _server() -> Generator[str]:
    if given := os.environ.get("SIGNOFF_TEST_DATABASE_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="signoff-tests-", dir=quickest_folder()) as folder:
        Path(folder).chmod(0o711)  # where root lends Postgres an account, it must get through
        server = asyncio.run(EmbeddedPostgres.start(Path(folder, "data"), settings=QUICK))
        try:
            yield server.url
        finally:
            asyncio.run(server.stop())


@contextmanager
def _pooler(url: str) -> Generator[str | None]:
    if not IS_POOLED:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="signoff-pooler-") as folder:
        Path(folder).chmod(0o755)
        with pgbouncer(Path(folder), url) as pooled:
            yield pooled
