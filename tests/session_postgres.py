"""A Postgres that the whole session of tests shares, also over xdist's workers: fixtures for a `conftest.py`."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pytest

from tests.postgres import Cluster, serve

_CLUSTER = pytest.StashKey[Cluster]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of xdist, before it starts, where the Postgres of its session is."""
    node.workerinput["cluster"] = asdict(_cluster_of(node.config))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The session's Postgres."""
    return _cluster_of(request.config)


@pytest.fixture
async def database_url(cluster: Cluster) -> AsyncGenerator[str]:
    """A migrated database of this test's own."""
    async with cluster.migrated_database() as url:
        yield url


@pytest.fixture
async def empty_database_url(cluster: Cluster) -> AsyncGenerator[str]:
    """A database of this test's own without any table."""
    async with cluster.empty_database() as url:
        yield url


def _cluster_of(config: pytest.Config) -> Cluster:
    """Started when it is first asked for, stopped with the session."""
    if told := getattr(config, "workerinput", None):
        return Cluster(**told["cluster"])
    if _CLUSTER not in config.stash:
        serving = ExitStack()
        config.add_cleanup(serving.close)
        config.stash[_CLUSTER] = serving.enter_context(serve())
    return config.stash[_CLUSTER]
