"""A service that all tests of the client share, on a socket, in a thread of its own."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from anyio.from_thread import start_blocking_portal

from examples.errands import errands
from signoff_client import AsyncSignoffClient, SignoffClient
from tests.postgres import Cluster
from tests.serving import service
from tests.session_postgres import cluster, pytest_configure_node
from tests.workflows import desk, lingering

__all__ = ["cluster", "pytest_configure_node"]


@dataclass(frozen=True, kw_only=True)
class Served:
    """Where it is, and what it writes into."""

    url: str
    database_url: str


@pytest.fixture(scope="session")
def served(cluster: Cluster) -> Generator[Served]:
    """A service of a workflow for each kind of pause. It is open."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_serving(cluster)) as served,
    ):
        yield served


@asynccontextmanager
async def _serving(cluster: Cluster) -> AsyncGenerator[Served]:
    async with (
        cluster.migrated_database() as url,
        service(url, [*desk.ALL, *lingering.ALL, errands]) as served,
    ):
        yield Served(url=str(served.client.base_url), database_url=url)


@pytest.fixture
def client(served: Served) -> Generator[SignoffClient]:
    """A client that decides as maria."""
    with SignoffClient(served.url, by="maria") as client:
        yield client


@pytest.fixture
async def async_client(served: Served) -> AsyncGenerator[AsyncSignoffClient]:
    """The same for a program that is async."""
    async with AsyncSignoffClient(served.url, by="maria") as client:
        yield client
