"""An embedded Postgres for as long as something is measured, with its default durability."""

import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil

from app.storage.embedded import EmbeddedPostgres


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A server, and a folder beside its data that goes with it."""

    url: str
    process: psutil.Process
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "data" / "postgres.log"

    async def make(self, database: str) -> str:
        """Makes a database, and says its URL."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f"create database {database}")
        finally:
            await connection.close()
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}"


@asynccontextmanager
async def temporary_postgres() -> AsyncGenerator[Postgres]:
    """Starts a server, and takes it away with all that is in it."""
    with _folder() as folder:
        server = await EmbeddedPostgres.start(folder / "data")
        try:
            yield Postgres(url=server.url, process=psutil.Process(server.pid), folder=folder)
        finally:
            await server.stop()


@contextmanager
def _folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        Path(folder).chmod(0o711)  # where root lends Postgres an account, it must get through
        yield Path(folder)
