"""The pytest plugin: the fixture `signoff`, over a Postgres that the session shares.

An embedded Postgres by default; another one where `SIGNOFF_TEST_DATABASE_URL` names a migrated, empty
database. What the fixture needs is imported with the first test that asks for it.
"""

import asyncio
import importlib
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from app.testing.signoff import Signoff

_QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Nothing here has to outlive a power cut."""


@pytest.fixture(scope="session")
def signoff_database_url() -> Generator[str]:
    """A migrated database for the session. Override it to bring another one."""
    if given := os.environ.get("SIGNOFF_TEST_DATABASE_URL"):
        yield given
        return
    embedded, migrate = _part("storage.embedded"), _part("storage.migrate")
    with tempfile.TemporaryDirectory(prefix="signoff-testing-") as folder:
        Path(folder).chmod(0o711)  # where root lends Postgres an account, it must get through
        data = Path(folder, "data")
        server = asyncio.run(embedded.EmbeddedPostgres.start(data, settings=_QUICK))
        try:
            asyncio.run(migrate.migrate(server.url))
            yield server.url
        finally:
            asyncio.run(server.stop())


@pytest_asyncio.fixture
async def signoff(signoff_database_url: str) -> "AsyncGenerator[Signoff]":
    """Runs workflows over real storage; fails the test where a script was never used."""
    service: Signoff = _part("testing.signoff").Signoff(signoff_database_url)
    yield service
    await service.close()


def _part(name: str) -> Any:
    return importlib.import_module(f"app.{name}")
