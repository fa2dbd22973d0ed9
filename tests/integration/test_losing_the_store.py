"""Connections that end under the service: each says so by its name, and no run is held or missed by it."""

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg

from app.authoring import Confirm, Parallel, Step, StepContext, Workflow
from app.channels import InboxChannel
from app.domain.ids import RunId, ThreadId, new_run_id
from app.domain.principal import Principal
from app.domain.run import RunRef
from app.engine.program import Program
from app.lifecycle import start
from app.lifecycle.site import Site
from app.storage import reads, runs, threads
from app.storage.database import Database, StoreUnavailable
from app.storage.runs import NewRun
from tests.pooler import IS_POOLED
from tests.service import until
from tests.serving import serving, site_over
from tests.workflows.papers import echoes, waiting_for

TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name = 'signoff' and datname = current_database()"
)
TERMINATE_WAITING = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
    "where wait_event_type = 'Lock' and datname = current_database()"
)
desk = InboxChannel("desk")


async def test_whatever_a_killed_connection_says_the_store_is_unavailable(
    database_url: str,
) -> None:
    operator = await asyncpg.connect(database_url)
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    try:
        for number in range(60):
            killing = asyncio.create_task(operator.fetch(TERMINATE))
            for turn in range(6):
                with suppress(StoreUnavailable):
                    await database.fetch(f"select {number}, {turn}, $1::int", 1)
            await killing
    finally:
        await database.close()
        await operator.close()


async def written_without_an_answer(site: Site) -> RunRef:
    """A run that was leased to this worker by a statement whose answer never came."""
    run = RunRef(tenant=Principal().tenant, thread_id=ThreadId("orphan"), run_id=new_run_id())
    program = Program(echoes)
    await threads.create(
        site.database, run.tenant, run.thread_id, workflow=None, metadata={}, key=None
    )
    new = NewRun(
        run=run,
        workflow=program.name,
        version=program.version,
        fingerprint=program.fingerprint,
        input="text",
        shown_input="text",
        metadata={},
        callback=None,
        requested_by=None,
        history=0,
    )
    await runs.start(
        site.database, new, worker=site.hands.worker, lease_seconds=site.lease_seconds, key=None
    )
    return run


async def completed(site: Site, run: RunRef) -> bool:
    view = await reads.run(site.database, run.tenant, run.thread_id, run.run_id)
    return view is not None and view["status"] == "completed"


async def begun(site: Site, workflow: Workflow) -> RunId:
    """A run of this worker's own."""
    request = start.StartRequest(
        thread_id=ThreadId("own"), workflow=workflow.name, input="x", metadata={}, creates=True
    )
    accepted = await start.start(site, Principal(), request, run_id=new_run_id(), key=None)
    return accepted.run.run_id


async def test_a_lease_that_nobody_uses_ends_although_its_worker_is_busy(
    database_url: str,
) -> None:
    release = asyncio.Event()
    busy = waiting_for(release)
    async with site_over(database_url, [echoes, busy], lease_seconds=1) as site:
        await begun(site, busy)
        orphan = await written_without_an_answer(site)
        await until(lambda: completed(site, orphan))
        release.set()


def fan(release: asyncio.Event, told: asyncio.Event) -> Workflow:
    """One branch that takes its time beside one that asks."""

    async def wait(context: StepContext, value: str) -> str:
        await release.wait()
        return value

    async def tell(context: StepContext, value: str) -> str:
        told.set()
        return value

    ask = Step("tell", tell, before=Confirm("Tell?", channel=desk))
    both = Parallel("both", steps=[Step("wait", wait), ask])
    return Workflow("fan", version="1", input=str, steps=[both], channels=[desk])


async def open_pause(client: Any) -> dict[str, Any]:
    async def listed() -> list[dict[str, Any]]:
        return (await client.get("/pauses?status=open")).json()["items"]

    (pause,) = await until(listed)
    return pause


async def test_a_look_at_decisions_that_was_cut_off_is_taken_again_while_siblings_run(
    database_url: str,
) -> None:
    release, told = asyncio.Event(), asyncio.Event()
    workflow = fan(release, told)
    async with site_over(database_url, [workflow]) as site, serving(site) as client:
        run_id = await begun(site, workflow)
        pause = await open_pause(client)
        operator = await asyncpg.connect(database_url)
        async with operator.transaction():
            await operator.execute("lock table pauses in access exclusive mode")
            site.hands.tell(run_id)
            await until(lambda: operator.fetchval(TERMINATE_WAITING))
        await operator.close()
        body = {"pause_id": pause["id"], "decision": {"approved": True, "by": "alice"}}
        headers = {"prefer": "respond-async"}
        await client.post(f"/threads/{pause['thread_id']}/resume", json=body, headers=headers)
        async with asyncio.timeout(15):
            await told.wait()
        release.set()
