"""What is told to Prometheus: counted where it happens, read from the database where it waits."""

import asyncio
import re
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.domain.ledger import LedgerEntry, LedgerKind
from app.storage.backlog import _BACKLOG, read  # pyright: ignore[reportPrivateUsage]
from app.watching.backlog import PoolUse, SlotUse
from app.watching.metrics import MOST_NAMES, Metrics
from examples.errands import errands
from tests.filled import fill
from tests.receivers import Answer, Receiver
from tests.service import until
from tests.serving import Service, decide, paused, service, serving, site_over
from tests.workflows.papers import breaks, echoes, waiting_for

Labels = frozenset[tuple[str, str]]


class Told:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.samples: dict[tuple[str, Labels], float] = {
            (each.name, frozenset(each.labels.items())): each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels, among others."""
        wanted = frozenset(labels.items())
        return sum(
            value for (each, has), value in self.samples.items() if each == name and wanted <= has
        )

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


async def told(client: httpx.AsyncClient) -> Told:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return Told(answer.text)


@pytest.fixture
async def served(database_url: str) -> AsyncGenerator[Service]:
    async with service(database_url, [errands, echoes]) as begun:
        yield begun


async def test_a_run_is_counted_from_its_start_over_its_pause_to_its_end(served: Service) -> None:
    run = await paused(served.client)
    refused = await decide(served.client, run, {"approved": "maybe", "by": "ada"})
    assert refused.status_code == 422
    before = await told(served.client)
    assert (await decide(served.client, run, {"approved": True, "by": "ada"})).status_code == 200
    after = await told(served.client)

    of = {"workflow": "errands"}
    assert before("signoff_runs_started_total", **of) == 1
    assert before("signoff_pauses_opened_total", kind="approval", **of) == 1
    assert before("signoff_open_pauses", **of) == 1
    assert before("signoff_decisions_refused_total", via="api", code="invalid_decision") == 1
    assert before("signoff_decision_seconds_count", **of) == 0
    assert before("signoff_runs_ended_total", **of) == 0
    assert after("signoff_open_pauses", **of) in (0, 1)  # a look is told for a second
    assert after("signoff_decision_seconds_count", kind="approval", via="api", **of) == 1
    assert after("signoff_runs_ended_total", status="completed", code="", **of) == 1
    assert after("signoff_model_calls_total", agent="assistant", **of) == 2
    assert after("signoff_model_seconds_count", agent="assistant", outcome="done", **of) == 2
    assert after("signoff_tool_calls_total", tool="send_email", **of) == 1
    assert after("signoff_tool_seconds_count", tool="send_email", outcome="done", **of) == 1


async def test_why_runs_fail_is_a_label(database_url: str) -> None:
    async with service(database_url, [breaks]) as served:
        thread = (await served.client.post("/threads")).json()["id"]
        body = {"workflow": "breaks", "input": "x"}
        run = (await served.client.post(f"/threads/{thread}/runs", json=body)).json()
        assert run["error"]["code"] == "step_failed"
        now = await told(served.client)
    assert (
        now("signoff_runs_ended_total", workflow="breaks", status="failed", code="step_failed") == 1
    )


async def test_requests_are_counted_by_route_and_never_by_what_callers_write(
    served: Service,
) -> None:
    for path in ("/threads/one", "/threads/two", "/nowhere/one", "/nowhere/two"):
        await served.client.get(path)
    await served.client.request("PROPFIND", "/pot")
    now = await told(served.client)
    of = "signoff_http_requests_total"
    assert now(of, method="GET", route="/threads/{thread_id}", status="404") == 2
    assert now(of, method="GET", route="none", status="404") == 2
    assert now(of, method="other", route="none", status="404") == 1
    assert now("signoff_http_request_seconds_count", route="/threads/{thread_id}") == 2
    values = {value for _, labels in now.samples for _, value in labels}
    assert not values & {"one", "two", "PROPFIND", "/pot", "/nowhere/one"}


async def test_what_waits_is_the_same_in_every_process(
    database_url: str,
) -> None:
    async with (
        site_over(database_url, [errands]) as working,
        site_over(database_url, [echoes], works=False) as other,
        serving(working) as client,
        serving(other) as other_client,
    ):
        run = await paused(client)
        await decide(client, run, {"approved": True, "by": "ada"})
        for _ in range(2):
            await paused(client)
        thread = (await client.post("/threads")).json()["id"]
        body = {"workflow": "echoes", "input": "late"}
        queued = await other_client.post(
            f"/threads/{thread}/runs", json=body, headers={"Prefer": "respond-async"}
        )
        assert queued.status_code == 202
        here, there = await told(client), await told(other_client)
    for now in (here, there):
        assert now("signoff_database_up") == 1
        assert now("signoff_open_pauses", workflow="errands") == 2
        assert now("signoff_open_pauses_older", workflow="errands", age="1m") == 0
        assert 0 < now("signoff_oldest_open_pause_seconds", workflow="errands") < 60
        assert now("signoff_queued_runs") == 1
        assert now("signoff_longest_queued_run_seconds") > 0
        assert now("signoff_running_runs") == now("signoff_runs_without_worker") == 0
    assert (here("signoff_worker_slots"), there("signoff_worker_slots")) == (20, 0)
    assert (here("signoff_runs_started_total"), there("signoff_runs_started_total")) == (3, 1)


async def test_however_many_scrape_the_database_is_looked_at_once_a_second(
    database_url: str,
) -> None:
    async with site_over(database_url, [errands], works=False) as site:
        looks = await asyncio.gather(*(site.last_look.at(site.database) for _ in range(20)))
        assert looks[0] is not None
        assert all(each is looks[0] for each in looks)


async def test_old_pauses_lost_workers_and_dead_notices_are_told(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        await paused(served.client)
        run = await paused(served.client)
        await _age(database_url, run)
        backlog = await read(served.site.database)
    assert backlog is not None
    pauses = backlog.open_pauses["errands"]
    assert (pauses.count, pauses.older) == (2, {"1m": 1, "10m": 1, "1h": 1, "1d": 1, "7d": 0})
    assert 2 * 86_400 <= pauses.oldest < 2 * 86_400 + 60
    assert (backlog.pending_deliveries, backlog.dead_deliveries) == (1, 1)
    assert 60 <= backlog.longest_due < 120


async def _age(database_url: str, run: dict[str, Any]) -> None:
    """Moves a pause into the past, with a notice that is overdue and one that is dead."""
    connection = await asyncpg.connect(database_url)
    notice = """
        insert into deliveries (thread_id, id, tenant, run_id, event_type, event_sequence, channel, address,
                                status, next_attempt_at)
        values ($1, $2, 'other', $3, 'pause.opened', 1, 'elsewhere', 'elsewhere', $4, $5::timestamptz)
    """
    try:
        await connection.execute(
            "update pauses set opened_at = opened_at - interval '2 days' where id = $1",
            run["pause"]["id"],
        )
        overdue = await connection.fetchval("select now() - interval '1 minute'")
        for status, at in (("pending", overdue), ("dead", None)):
            await connection.execute(notice, run["thread_id"], status, run["id"], status, at)
    finally:
        await connection.close()


async def test_a_scrape_without_a_database_tells_what_the_process_knows(
    database_url: str, empty_database_url: str
) -> None:
    for url, closes in ((database_url, True), (empty_database_url, False)):
        async with site_over(url, [errands], works=False) as site, serving(site) as client:
            if closes:
                await site.database.close()
            assert (await client.get("/livez")).status_code == 200
            now = await told(client)
        assert now("signoff_database_up") == 0
        assert now("signoff_http_requests_total", route="/livez") == 1
        assert "signoff_open_pauses" not in now.names
        assert str(now("signoff_queued_runs")) == "nan"


async def test_what_waits_is_found_by_indexes(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await fill(connection)
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {_BACKLOG}"))
    finally:
        await connection.close()
    by = ("pauses_open", "threads_ready", "threads_leased", "deliveries_due", "deliveries_dead")
    for index in by:
        assert re.search(f"(using|on) {index}", plan), plan
    assert "Seq Scan" not in plan


async def test_names_that_come_from_outside_are_cut_off() -> None:
    metrics = Metrics()
    for number in range(MOST_NAMES + 50):
        entry = LedgerEntry(
            place=f"{number}",
            kind=LedgerKind.MODEL,
            agent="clerk",
            name=f"model-{number}",
            input_tokens=10,
            cost=Decimal("0.25"),
        )
        metrics.spent("desk", [entry, entry])
    pool, slots = PoolUse(size=1, busy=0, waiting=0), SlotUse(size=1, busy=0)
    now = Told(metrics.expose("", backlog=None, pool=pool, slots=slots).body.decode())
    models = [labels for name, labels in now.samples if name == "signoff_model_calls_total"]
    assert len(models) == MOST_NAMES + 1
    assert now("signoff_model_calls_total", model="other") == 100
    assert now("signoff_model_tokens_total", agent="clerk", kind="input") == 3000
    assert now("signoff_cost_usd_total", workflow="desk", kind="model") == 75


async def test_openmetrics_is_told_to_who_asks_for_it(served: Service) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    answer = await served.client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


async def test_notices_are_counted_by_channel_and_outcome(database_url: str) -> None:
    async with (
        Receiver(Answer(status=500), Answer(status=204)) as receiver,
        service(database_url, [errands]) as served,
    ):
        thread = (await served.client.post("/threads")).json()["id"]
        callback = {"url": f"http://127.0.0.1:{receiver.port}/hook"}
        body = {"workflow": "errands", "input": {"text": "late"}, "callback": callback}
        run = (await served.client.post(f"/threads/{thread}/runs", json=body)).json()
        await decide(served.client, run, {"approved": True, "by": "ada"})

        async def both() -> Told | None:
            now = await told(served.client)
            return now if now("signoff_delivery_attempts_total") >= 2 else None

        now = await until(both)
    of = {"channel": "callback"}
    assert now("signoff_delivery_attempts_total", outcome="pending", **of) == 1
    assert now("signoff_delivery_attempts_total", outcome="delivered", **of) >= 1
    assert now("signoff_delivery_lag_seconds_count", **of) >= 1


async def test_what_is_claimed_from_the_queue_and_what_is_rescued_is_counted(
    database_url: str,
) -> None:
    held = asyncio.Event()
    async with site_over(database_url, [waiting_for(held)], works=False) as taking:
        async with serving(taking) as client:
            thread = (await client.post("/threads")).json()["id"]
            body = {"workflow": "waits", "input": "x"}
            asked = {"Prefer": "respond-async"}
            await client.post(f"/threads/{thread}/runs", json=body, headers=asked)
        async with (
            site_over(database_url, [waiting_for(held)], lease_seconds=60) as site,
            serving(site) as client,
        ):

            async def is_claimed() -> Told | None:
                now = await told(client)
                claimed = now("signoff_claim_latency_seconds_count")
                # Who looks for more holds a slot for as long as it looks.
                return now if claimed and now("signoff_worker_slots_busy") == 1 else None

            await until(is_claimed)
            await site.database.fetch("update threads set lease_until = now() - interval '1 s'")

            async def is_rescued() -> Told | None:
                now = await told(client)
                return now if now("signoff_leases_ended_total") else None

            assert (await until(is_rescued))("signoff_lease_losses_total") <= 1

            async def is_lost() -> bool:
                return (await told(client))("signoff_lease_losses_total") == 1

            await until(is_lost)
            held.set()
