"""How much one credential may ask of a process, and how large a request may be."""

import asyncio

import httpx

from app.api.limits import Limits
from tests.keyring import bearer, key
from tests.service import until
from tests.serving import service
from tests.workflows.papers import echoes, waiting_for


def is_refused(answer: httpx.Response, within: range = range(1, 61)) -> bool:
    assert answer.headers["content-type"] == "application/problem+json"
    is_told = answer.json()["code"] == "too_many_requests"
    return answer.status_code == 429 and is_told and int(answer.headers["retry-after"]) in within


async def test_more_requests_a_minute_than_allowed_are_told_when_to_come_back(
    database_url: str,
) -> None:
    limits = Limits(requests_per_minute=5)
    async with service(database_url, [echoes], is_open=False, limits=limits) as served:
        ann, bob = [await key(served.site.database, name) for name in ("ann", "bob")]
        for _ in range(5):
            assert (await served.client.get("/threads", headers=bearer(ann))).status_code == 200
        assert is_refused(await served.client.get("/threads", headers=bearer(ann)))
        assert is_refused(await served.client.post("/threads", headers=bearer(ann)))
        assert (await served.client.get("/threads", headers=bearer(bob))).status_code == 200
        for path in ("/livez", "/readyz"):
            assert [(await served.client.get(path)).status_code for _ in range(9)] == [200] * 9


async def test_more_runs_an_hour_than_allowed_are_refused_and_nothing_else(
    database_url: str,
) -> None:
    async with service(database_url, [echoes], limits=Limits(runs_per_hour=2)) as served:
        body = {"workflow": "echoes", "input": "x", "if_not_exists": "create"}
        for thread in ("a", "b"):
            started = await served.client.post(f"/threads/{thread}/runs", json=body)
            assert started.status_code == 201
        refused = await served.client.post("/threads/c/runs", json=body)
        assert is_refused(refused, within=range(1700, 1801))
        assert (await served.client.get("/threads/c")).status_code == 404
        assert (await served.client.get("/threads/a/runs")).status_code == 200


async def test_more_requests_at_once_than_allowed_are_refused_until_one_has_its_answer(
    database_url: str,
) -> None:
    event = asyncio.Event()
    limits = Limits(requests_at_once=1)
    async with service(database_url, [waiting_for(event)], limits=limits) as served:
        body = {"workflow": "waits", "input": "x", "if_not_exists": "create"}
        waits = asyncio.create_task(
            served.client.post("/threads/a/runs", json=body, headers={"Prefer": "wait=20"})
        )

        async def is_running() -> bool:
            return bool(served.site.hands.busy)

        await until(is_running)
        assert is_refused(await served.client.get("/threads"), within=range(1, 2))
        event.set()
        assert (await waits).status_code == 201
        assert (await served.client.get("/threads")).status_code == 200


async def test_without_limits_nobody_is_refused(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        answers = await asyncio.gather(*(served.client.get("/threads") for _ in range(100)))
        assert {each.status_code for each in answers} == {200}


async def test_headers_and_bodies_are_bounded_by_settings(database_url: str) -> None:
    async with service(
        database_url, [echoes], max_header_bytes=2000, max_body_bytes=1024
    ) as served:
        large = await served.client.get("/threads", headers={"x-large": "x" * 2000})
        assert (large.status_code, large.json()["code"]) == (431, "headers_too_large")
        many = await served.client.get("/threads", headers={f"x-{n}": "x" for n in range(500)})
        assert many.status_code == 431
        body = await served.client.post("/threads", json={"metadata": {"a": "x" * 1024}})
        assert (body.status_code, body.json()["code"]) == (413, "body_too_large")
        assert (await served.client.post("/threads", json={})).status_code == 201
