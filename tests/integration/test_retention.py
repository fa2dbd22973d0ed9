"""What is old is deleted after its time, and nothing that anybody may still need; checkpoints go with their run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from app.lifecycle.forget import forget_old
from app.lifecycle.site import Site
from app.worker import Worker
from tests.receivers import Answer, Receiver
from tests.service import until
from tests.serving import decide, paused, service, site_over
from tests.workflows.papers import echoes, enquiries

Json = dict[str, Any]
MONTH = timedelta(days=30)
LEFT = """
select (select count(*) from events) as events, (select count(*) from deliveries) as deliveries,
       (select count(*) from delivery_attempts) as attempts, (select count(*) from runs) as runs,
       (select count(*) from ledger) as ledger, (select count(*) from audit) as audit
"""
AGE = "update runs set finished_at = finished_at - interval '31 days' where id = $1"


@pytest.fixture
async def operator(database_url: str) -> AsyncGenerator[asyncpg.Connection]:
    """Who makes things old, and counts them."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def left(operator: asyncpg.Connection) -> Json:
    row = await operator.fetchrow(LEFT)
    assert row is not None
    return dict(row)


async def ended(client: httpx.AsyncClient, **more: Any) -> Json:
    """A run that has ended, in a thread of its own."""
    thread = (await client.post("/threads")).json()["id"]
    body = {"workflow": "echoes", "input": "x", **more}
    run = (await client.post(f"/threads/{thread}/runs", json=body)).json()
    assert run["status"] == "completed", run
    return run


async def answered(client: httpx.AsyncClient) -> Json:
    """A run with a model, a pause, a decision and an audit row, that has ended."""
    run = await paused(client, "enquiries")
    return (await decide(client, run, {"value": "red", "by": "ann"})).json()


async def all_forgotten(site: Site) -> None:
    while await forget_old(site, after=MONTH):
        pass


async def test_what_is_older_goes_and_what_is_younger_or_unfinished_stays(
    database_url: str, operator: asyncpg.Connection
) -> None:
    async with service(database_url, [echoes, enquiries]) as served:
        young = await answered(served.client)
        waiting = await paused(served.client, "enquiries")
        kept = await left(operator)
        old = await answered(served.client)
        await operator.execute(AGE, old["id"])
        await operator.execute("update events set at = at - interval '31 days'")
        whole = await left(operator)

        await all_forgotten(served.site)
        assert (await left(operator)) == whole | {"events": kept["events"]}

        path = f"/threads/{old['thread_id']}/runs/{old['id']}"
        assert (await served.client.get(path)).json() | {"finished_at": old["finished_at"]} == old
        assert (await served.client.get(f"{path}/events")).status_code == 204
        told = await served.client.get(f"/threads/{young['thread_id']}/runs/{young['id']}/events")
        assert "run.completed" in told.text
        done = await decide(served.client, waiting, {"value": "red", "by": "ann"})
        assert done.json()["status"] == "completed"


async def test_notices_go_with_their_attempts_unless_one_is_still_to_be_sent(
    database_url: str, operator: asyncpg.Connection
) -> None:
    async with service(database_url, [echoes]) as served, Receiver() as receiver:
        callback = {"url": receiver.url}
        sent = await ended(served.client, callback=callback)
        await receiver.wait_for(1)
        receiver.answer_with(Answer(status=500))
        unsent = await ended(served.client, callback=callback)

        async def are_tried() -> bool:
            return (await left(operator))["attempts"] == 2

        await until(are_tried)
        for run in (sent, unsent):
            await operator.execute(AGE, run["id"])
        await all_forgotten(served.site)
        found = await operator.fetch("select run_id, status from deliveries")
        assert [tuple(each) for each in found] == [(unsent["id"], "pending")]
        (of,) = await operator.fetch("select distinct run_id from events")
        assert of["run_id"] == unsent["id"]
        assert (await left(operator))["attempts"] == 1


async def test_old_keys_are_forgotten_and_young_ones_still_answer(
    database_url: str, operator: asyncpg.Connection
) -> None:
    async with service(database_url, [echoes]) as served:
        for key in ("old", "young"):
            await served.client.post("/threads", headers={"idempotency-key": key})
        await operator.execute(
            "update idempotency_keys set created_at = created_at - interval '31 days' "
            "where created_at = (select min(created_at) from idempotency_keys)"
        )
        await all_forgotten(served.site)
        replayed = [
            (await served.client.post("/threads", headers={"idempotency-key": key})).headers.get(
                "idempotency-replayed"
            )
            for key in ("old", "young")
        ]
        assert replayed == [None, "true"]


async def test_several_may_forget_at_once_and_a_thread_that_is_in_use_is_passed_over(
    database_url: str, operator: asyncpg.Connection
) -> None:
    async with (
        service(database_url, [echoes]) as served,
        site_over(database_url, [echoes], works=False) as other,
    ):
        runs = [await ended(served.client) for _ in range(12)]
        await operator.executemany(AGE, [(run["id"],) for run in runs])
        async with held(database_url, runs[0]["thread_id"]):
            async with asyncio.timeout(5):
                await asyncio.gather(all_forgotten(served.site), all_forgotten(other))
            found = await operator.fetch("select distinct run_id from events")
            assert [each["run_id"] for each in found] == [runs[0]["id"]]
        await all_forgotten(other)
        assert (await left(operator))["events"] == 0


@asynccontextmanager
async def held(database_url: str, thread_id: str) -> AsyncGenerator[None]:
    """Somebody is at work on a thread."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await connection.execute("select from threads where id = $1 for update", thread_id)
        yield
    await connection.close()


async def test_a_worker_forgets_by_itself(database_url: str, operator: asyncpg.Connection) -> None:
    async with (
        service(database_url, [echoes]) as served,
        site_over(database_url, [echoes], works=False) as other,
    ):
        run = await ended(served.client)
        await operator.execute(AGE, run["id"])
        stopping = asyncio.Event()
        worker = Worker(other, drain_seconds=1, forgets_after=MONTH)
        working = asyncio.create_task(worker.run(stopping))

        async def are_gone() -> bool:
            return (await left(operator))["events"] == 0

        await until(are_gone)
        stopping.set()
        await working


async def test_what_a_run_goes_on_from_is_gone_with_its_end(
    database_url: str, operator: asyncpg.Connection
) -> None:
    stored = "select (select count(*) from checkpoints) + (select count(*) from checkpoint_writes)"
    async with service(database_url, [enquiries]) as served:
        done, cancelled = [await paused(served.client, "enquiries") for _ in range(2)]
        assert await operator.fetchval(stored) > 0
        await decide(served.client, done, {"value": "red", "by": "ann"})
        path = f"/threads/{cancelled['thread_id']}/runs/{cancelled['id']}"
        await served.client.post(f"{path}/cancel")
        assert await operator.fetchval(stored) == 0
