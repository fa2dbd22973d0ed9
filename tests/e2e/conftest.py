"""Processes for a test of its own, and two services on one database that all tests of a session share."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from tests.notices import CALLBACK_SECRET, CHANNEL_SECRET, OLDER_SECRET
from tests.postgres import Cluster
from tests.service import Api, Processes, Served, free_port, processes
from tests.workflows.effects import VARIABLE, Effects
from tests.workflows.letters import SERVED

WORKFLOWS = (
    f"{SERVED},tests.workflows.safes:safes,tests.workflows.safes:deposits,examples.errands:errands"
)


@dataclass(frozen=True, kw_only=True)
class Town:
    """Two services on one database. Tests that share it start runs of their own, and kill nothing."""

    first: Served
    second: Served
    effects: Effects
    database_url: str
    approvers_port: int
    """Where the channel `approvers` is told; whoever listens there hears its notices."""

    @property
    def log_lines(self) -> list[str]:
        """Everything that both have said so far."""
        return [
            line
            for each in (self.first, self.second)
            for line in (*each.complaints, *each.said.splitlines())
        ]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def town(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Town]:
    folder = tmp_path_factory.mktemp("town")
    port, front = free_port(), free_port()
    environment = {
        VARIABLE: str(folder / "effects"),
        # Either may send a notice; both say that the first is answered.
        "SIGNOFF_BASE_URL": f"http://127.0.0.1:{front}",
        "SIGNOFF_CHANNELS__APPROVERS__URL": f"http://127.0.0.1:{port}/hook",
        "SIGNOFF_CHANNELS__APPROVERS__SECRETS": orjson.dumps(
            [CHANNEL_SECRET, OLDER_SECRET]
        ).decode(),
        "SIGNOFF_SECRETS": orjson.dumps([CALLBACK_SECRET]).decode(),
        # Spans stand beside the log lines, so that what must not be said is looked for there too.
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    async with cluster.migrated_database() as url:
        with processes(
            folder, workflows=WORKFLOWS, database_url=url, environment=environment
        ) as begun:
            first, second = begun.begin_serving(port=front), begun.begin_serving()
            await first.ready()
            await second.ready()
            yield Town(
                first=first,
                second=second,
                effects=Effects(folder / "effects"),
                database_url=url,
                approvers_port=port,
            )


@pytest.fixture
async def api(town: Town) -> AsyncGenerator[Api]:
    """A caller of the first service of the town."""
    async with town.first.api() as api:
        yield api


@pytest.fixture
async def other_api(town: Town) -> AsyncGenerator[Api]:
    """A caller of the second service of the town."""
    async with town.second.api() as api:
        yield api


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    """What the tools of this test's own processes do."""
    return Effects(tmp_path / "effects")


@pytest.fixture
def own(tmp_path: Path, effects: Effects, database_url: str) -> Generator[Processes]:
    """Processes of this test's own, on a database of its own."""
    environment = {VARIABLE: str(effects.path)}
    with processes(
        tmp_path, workflows=WORKFLOWS, database_url=database_url, environment=environment
    ) as begun:
        yield begun
