"""What is the same for every request: ids, log lines, errors nobody has foreseen, browsers, health."""

import logging
from typing import Any

import httpx
import pytest

from app.api import application
from app.lifecycle.site import Site
from examples.errands import errands
from tests.serving import paused, service, serving, site_over
from tests.workflows.papers import echoes


async def test_every_answer_has_an_id_the_callers_own_where_it_can_be(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        own = await served.client.get("/livez", headers={"X-Request-ID": "mine-1"})
        assert own.headers["x-request-id"] == "mine-1"
        for strange in ("", "a b", "x" * 129):
            new = await served.client.get("/livez", headers={"X-Request-ID": strange})
            assert new.headers["x-request-id"].startswith("req_")
        refused = await served.client.post("/threads", content=b"{", headers={"X-Request-ID": "r"})
        assert refused.headers["x-request-id"] == "r"


async def test_a_request_is_one_line_that_tells_ids_and_codes_and_no_values(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="app.api.access")
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        await served.client.get(f"/threads/{run['thread_id']}/runs/{run['id']}?secret=hunter2")
        await served.client.get("/nope/hunter2")
        await served.client.get("/livez")
    told: list[dict[str, Any]] = [
        each.__dict__ for each in caplog.records if each.name == "app.api.access"
    ]
    assert [(each["msg"], each["method"], each["route"], each["status"]) for each in told] == [
        ("request", "POST", "/threads", 201),
        ("request", "POST", "/threads/{thread_id}/runs", 201),
        ("request", "GET", "/threads/{thread_id}/runs/{run_id}", 200),
        ("request", "GET", None, 404),
    ]
    assert all(each["ms"] >= 0 for each in told)
    ids = {"thread_id": run["thread_id"], "run_id": run["id"]}
    assert ids.items() <= told[2].items()
    assert "hunter2" not in str(told)


async def test_what_nobody_has_foreseen_is_logged_and_not_told(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with site_over(database_url, [echoes], works=False) as site:
        await site.database.fetch("alter table threads rename column metadata to hunter2")
        async with serving(site) as client:
            broken = await client.get("/threads")
    assert broken.status_code == 500
    assert broken.headers["content-type"] == "application/problem+json"
    assert broken.json()["code"] == "internal_error"
    assert "x-request-id" in broken.headers
    assert "hunter2" not in broken.text
    assert "metadata" not in broken.text
    assert [each.exc_info is not None for each in caplog.records if each.msg == "request broke"]


async def test_a_database_that_is_away_is_503_and_the_process_still_lives(
    database_url: str,
) -> None:
    async with site_over(database_url, [echoes], works=False) as site:
        await site.database.close()
        async with serving(site) as client:
            away = await client.get("/threads")
            assert (away.status_code, away.json()["code"]) == (503, "store_unavailable")
            assert away.headers["retry-after"] == "1"
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
            assert (await client.get("/livez")).json() == {"status": "alive"}


async def test_a_database_without_tables_is_not_ready(empty_database_url: str) -> None:
    async with (
        site_over(empty_database_url, [echoes], works=False) as site,
        serving(site) as client,
    ):
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
        assert "migrations" in ready.json()["detail"]


def in_process(site: Site, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application(site, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type, idempotency-key, prefer",
}


async def test_browsers_of_named_origins_may_use_it_and_no_others(database_url: str) -> None:
    allowed, other = {"Origin": "https://app.example"}, {"Origin": "https://evil.example"}
    async with (
        site_over(database_url, [echoes], works=False) as site,
        in_process(site, cors_origins=["https://app.example"]) as client,
    ):
        asked = await client.options("/threads", headers=allowed | PREFLIGHT)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == "https://app.example"
        assert (await client.options("/threads", headers=other | PREFLIGHT)).status_code == 400
        for answer in (
            await client.get("/threads", headers=allowed),
            await client.post("/threads", content=b"{", headers=allowed),
        ):
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
            assert "Location" in answer.headers["access-control-expose-headers"]
        refused = await client.get("/threads", headers=other)
        assert "access-control-allow-origin" not in refused.headers


async def test_without_named_origins_no_browser_is_let_in(database_url: str) -> None:
    async with (
        site_over(database_url, [echoes], works=False) as site,
        in_process(site) as client,
    ):
        asked = await client.options(
            "/threads", headers={"Origin": "https://app.example"} | PREFLIGHT
        )
        assert asked.status_code == 405
        assert "access-control-allow-origin" not in asked.headers


async def test_answers_are_not_to_be_kept(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        for path in ("/threads", "/threads/nope", "/readyz"):
            assert (await served.client.get(path)).headers["cache-control"] == "no-store"


async def test_sensitive_values_are_in_no_answer(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        for path in (
            f"/threads/{run['thread_id']}",
            f"/threads/{run['thread_id']}/runs",
            f"/threads/{run['thread_id']}/runs/{run['id']}",
            "/threads",
            "/pauses",
            f"/pauses/{run['pause']['id']}",
            "/deliveries",
            "/workflows/errands",
        ):
            assert "hunter2" not in (await served.client.get(path)).text
