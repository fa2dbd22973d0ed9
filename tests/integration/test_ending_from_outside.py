"""A run is ended from outside while its worker writes, and by a deadline whose workflow is elsewhere."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import httpx

from app.authoring import Confirm, Step, StepContext, Workflow
from app.channels import InboxChannel
from app.lifecycle.expire import expire_due
from tests.service import until
from tests.serving import paused, serving, site_over
from tests.workflows.papers import echoes

desk = InboxChannel("desk")


async def same(context: StepContext, value: str) -> str:
    return value


def asks_after(event: asyncio.Event, begun: asyncio.Event) -> Workflow:
    """Asks once the event is set; says when it has begun."""

    async def wait(context: StepContext, value: str) -> str:
        begun.set()
        await event.wait()
        return value

    gated = Step("gated", same, before=Confirm("Go on?", channel=desk))
    return Workflow("asks", version="1", input=str, steps=[wait, gated], channels=[desk])


@asynccontextmanager
async def locked(database_url: str, thread_id: str) -> AsyncGenerator[asyncpg.Connection]:
    """Holds the thread's row, so that whoever writes to it stands in line."""
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            await connection.execute("select from threads where id = $1 for update", thread_id)
            yield connection
    finally:
        await connection.close()


async def until_waiting(connection: asyncpg.Connection, number: int) -> None:
    """Returns once so many statements wait for the thread's row."""
    waiting = (
        "select count(*) from pg_stat_activity "
        "where wait_event_type = 'Lock' and datname = current_database()"
    )

    async def are_waiting() -> bool:
        return await connection.fetchval(waiting) >= number

    await until(are_waiting)


async def cancelled(client: httpx.AsyncClient, path: str) -> dict[str, object]:
    return (await client.post(f"{path}/cancel")).json()


async def test_a_run_that_is_cancelled_while_it_parks_leaves_no_open_pause(
    database_url: str,
) -> None:
    event, begun = asyncio.Event(), asyncio.Event()
    async with site_over(database_url, [asks_after(event, begun)]) as site, serving(site) as client:
        started = await client.post(
            "/threads/one/runs",
            json={"workflow": "asks", "input": "x", "if_not_exists": "create"},
            headers={"prefer": "respond-async"},
        )
        path = started.headers["location"]
        await begun.wait()  # a run that is locked is claimed by nobody
        async with locked(database_url, "one") as connection:
            event.set()
            await until_waiting(connection, 1)
            cancelling = asyncio.create_task(cancelled(client, path))
            await until_waiting(connection, 2)
        run = await cancelling
        assert run["status"] == "cancelled"
        assert (await client.get("/pauses?status=open")).json()["items"] == []
        left = await site.database.fetch("select from checkpoints")
        assert left == []


async def test_a_deadline_is_left_to_who_serves_its_workflow(database_url: str) -> None:
    gate = Confirm("Go on?", channel=desk, expires_after=timedelta(hours=1))
    timed = Workflow(
        "timed", version="1", input=str, steps=[Step("gated", same, before=gate)], channels=[desk]
    )
    async with site_over(database_url, [timed]) as site, serving(site) as client:
        await paused(client, "timed")
    async with site_over(database_url, [echoes], works=False) as site:
        await site.database.fetch("update pauses set expires_at = clock_timestamp()")
        assert await expire_due(site) == 0
    async with site_over(database_url, [timed], works=False) as site:
        assert await expire_due(site) == 1
