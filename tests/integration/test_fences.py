"""A worker whose run has gone to another one by now writes nothing of it any more, whatever it tries."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from app.domain.ask import Policy
from app.domain.event import Event, EventType
from app.domain.facts import Facts, RunEnd
from app.domain.ids import CallId, ThreadId, new_run_id
from app.domain.ledger import LedgerEntry, LedgerKind
from app.domain.pause import Ask, PauseKind, PauseLevel
from app.domain.principal import Principal
from app.domain.run import Lease, RunStatus
from app.domain.step import StepRecord, StepStatus
from app.lifecycle import start
from app.lifecycle.site import Site
from app.storage import progress, runs
from app.storage.checkpoints import CheckpointRow, Unsaved
from app.storage.database import Database
from app.storage.progress import Addressees, Leavings
from app.storage.runs import LeaseLost
from tests.serving import site_over
from tests.workflows.papers import echoes

TOLD = Addressees(channels=frozenset({"desk"}), callback=True)
FACTS = Facts(
    events=(Event(type=EventType.STEP_COMPLETED, data={"path": "late"}),),
    ledger=(LedgerEntry(place="late", kind=LedgerKind.MODEL, agent="late", name="late"),),
    steps=(
        StepRecord(path="late", name="late", type="function", index=0, status=StepStatus.COMPLETED),
    ),
)
ASK = Ask(
    place="late",
    line="root",
    kind=PauseKind.CONFIRMATION,
    level=PauseLevel.STEP,
    policy=Policy(channel="desk"),
    shown={},
    interrupt_id="late",
)
Write = Callable[[Database, Lease], Awaitable[object]]


def unsaved(lease: Lease) -> Unsaved:
    row = CheckpointRow(
        line="root", ns="", id="late", parent_id=None, body=b"msgpack:\x80", metadata="{}"
    )
    return Unsaved(
        thread_id=lease.run.thread_id,
        run_id=lease.run.run_id,
        checkpoints=(row,),
        writes=(),
        prunes=(),
        upto=1,
    )


async def go_on(database: Database, lease: Lease) -> None:
    await progress.save(database, lease, FACTS, unsaved(lease), TOLD, asks=[ASK])


async def park(database: Database, lease: Lease) -> None:
    await progress.park(database, lease, FACTS, unsaved(lease), TOLD, asks=[ASK], seen=0)


async def end(database: Database, lease: Lease) -> None:
    left = Leavings(open_pauses=True, step_results=True)
    await progress.end(
        database,
        lease,
        FACTS,
        TOLD,
        end=RunEnd(status=RunStatus.COMPLETED, output="late", shown_output="late"),
        leaves=left,
    )


async def hand_back(database: Database, lease: Lease) -> None:
    await progress.hand_back(database, lease, FACTS, unsaved(lease), TOLD)


async def keep_a_result(database: Database, lease: Lease) -> None:
    await runs.save_step_result(database, lease, CallId("late"), "late", 1)


async def claimed(site: Site, worker: str, *, seconds: float) -> Lease:
    (found,) = await runs.claim(
        site.database,
        fingerprints=site.catalog.fingerprints,
        worker=worker,
        lease_seconds=seconds,
        most=1,
    )
    return found.lease


async def left_by_its_worker(site: Site) -> Lease:
    """The lease of a worker that fell asleep, and has ended."""
    request = start.StartRequest(
        thread_id=ThreadId("t"), workflow=echoes.name, input="x", metadata={}, creates=True
    )
    await start.start(site, Principal(), request, run_id=new_run_id(), key=None)
    lease = await claimed(site, "asleep", seconds=0.01)
    await asyncio.sleep(0.05)
    return lease


async def everything(url: str) -> dict[str, str]:
    """All rows of all tables, as text."""
    connection = await asyncpg.connect(url)
    tables = await connection.fetch(
        "select tablename from pg_tables where schemaname = 'public' order by 1"
    )
    held = {
        name: str(await connection.fetchval(f"select json_agg(t order by t::text) from {name} t"))
        for (name,) in tables
    }
    await connection.close()
    return held


@pytest.mark.parametrize("write", [go_on, park, end, hand_back, keep_a_result])
async def test_a_lost_lease_cannot_write(write: Write, database_url: str) -> None:
    async with site_over(database_url, [echoes], works=False) as site:
        asleep = await left_by_its_worker(site)
        assert await runs.requeue_lost(site.database) == [asleep.run.run_id]
        awake = await claimed(site, "awake", seconds=60)
        before = await everything(database_url)

        with pytest.raises(LeaseLost):
            await write(site.database, asleep)
        assert await everything(database_url) == before

        await write(site.database, awake)  # the same is written by whoever holds the run
        assert await everything(database_url) != before


@pytest.mark.parametrize("write", [go_on, park, end, hand_back, keep_a_result])
async def test_a_lease_that_has_ended_cannot_write_although_nobody_took_the_run(
    write: Write, database_url: str
) -> None:
    async with site_over(database_url, [echoes], works=False) as site:
        asleep = await left_by_its_worker(site)
        before = await everything(database_url)
        with pytest.raises(LeaseLost):
            await write(site.database, asleep)
        assert await everything(database_url) == before
