"""Lists over HTTP: pages, filters, order."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx

from examples.errands import errands
from tests.described import is_described
from tests.receivers import Answer, Receiver
from tests.serving import decide, paused, service
from tests.workflows.papers import echoes, enquiries

Json = dict[str, Any]


async def pages(client: httpx.AsyncClient, path: str) -> AsyncIterator[list[Json]]:
    """Page after page, as `Link` leads; `next` says the same."""
    following: str | None = path
    while following:
        answer = await client.get(following)
        assert answer.status_code == 200, answer.text
        yield answer.json()["items"]
        link = answer.headers.get("link")
        assert (link is None) == (answer.json()["next"] is None)
        match = re.fullmatch(r'<(.+)>; rel="next"', link) if link else None
        following = match[1] if match else None
        assert following is None or answer.json()["next"] in following


async def test_pages_show_everything_once_newest_first(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        made = [(await client.post("/threads")).json()["id"] for _ in range(7)]
        seen = [[each["id"] for each in page] async for page in pages(client, "/threads?limit=3")]
        assert [len(page) for page in seen] == [3, 3, 1]
        assert [each for page in seen for each in page] == list(reversed(made))


async def test_a_page_that_ends_exactly_is_the_last(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        for _ in range(4):
            await served.client.post("/threads")
        seen = [len(page) async for page in pages(served.client, "/threads?limit=2")]
        assert seen == [2, 2]


async def test_what_is_made_between_two_pages_moves_nothing(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        made = [(await client.post("/threads")).json()["id"] for _ in range(4)]
        seen: list[str] = []
        async for page in pages(client, "/threads?limit=2"):
            seen += [each["id"] for each in page]
            await client.post("/threads")
        assert seen == list(reversed(made))


async def test_runs_of_a_thread_come_newest_first(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        body = {"workflow": "echoes", "input": "x", "if_not_exists": "create"}
        made = [(await client.post("/threads/t/runs", json=body)).json()["id"] for _ in range(5)]
        seen = [
            each["id"] async for page in pages(client, "/threads/t/runs?limit=2") for each in page
        ]
        assert seen == list(reversed(made))
        assert (await client.get("/threads/nope/runs")).status_code == 404


async def test_pauses_come_the_longest_waiting_first_and_by_filter(database_url: str) -> None:
    async with service(database_url, [errands, enquiries]) as served:
        client = served.client
        first = await paused(client)
        second = await paused(client, "enquiries")
        third = await paused(client)
        await decide(client, first, {"approved": False, "by": "m"})
        one, two, three = (each["pause"]["id"] for each in (first, second, third))
        expected = {
            "limit=2": [one, two, three],
            "status=open": [two, three],
            "status=decided": [one],
            "status=expired": [],
            "kind=approval": [one, three],
            "kind=interactive": [two],
            "level=executor": [one, two, three],
            "level=step": [],
            "workflow=enquiries": [two],
            "channel=approvers": [one, three],
            "channel=desk": [two],
            "channel=nobody": [],
            f"thread_id={second['thread_id']}": [two],
            f"run_id={third['id']}": [three],
            f"status=open&kind=approval&run_id={third['id']}&limit=1": [three],
            f"status=decided&run_id={third['id']}": [],
        }
        for query, wanted in expected.items():
            found = [
                each["id"] async for page in pages(client, f"/pauses?{query}") for each in page
            ]
            assert found == wanted, query


async def test_deliveries_are_listed_shown_and_sent_again(database_url: str) -> None:
    async with service(database_url, [echoes]) as served, Receiver() as receiver:
        client = served.client
        receiver.answer_with(Answer(status=410))
        body = {
            "workflow": "echoes",
            "input": "x",
            "if_not_exists": "create",
            "callback": {"url": receiver.url},
        }
        run = (await client.post("/threads/t/runs", json=body)).json()
        dead = await first_of(client, "/deliveries?thread_id=t&status=dead")
        assert (dead["run_id"], dead["event_type"], dead["channel"]) == (
            run["id"],
            "run.completed",
            None,
        )
        shown = (await client.get(f"/deliveries/{dead['id']}")).json()
        assert [(each["attempt"], each["status"]) for each in shown["attempts"]] == [(1, 410)]
        assert (await client.get("/deliveries?channel=x")).json()["items"] == []
        receiver.answer_with(Answer(status=204))
        path, key = f"/deliveries/{dead['id']}/retry", {"Idempotency-Key": "k"}
        again = await client.post(path, headers=key)
        assert (again.status_code, again.json()["id"]) == (200, dead["id"])
        sent = await first_of(client, "/deliveries?thread_id=t&status=delivered")
        assert sent["id"] == dead["id"]
        replay = await client.post(path, headers=key)
        assert (replay.status_code, replay.headers["idempotency-replayed"]) == (200, "true")
        late = await client.post(path)
        assert (late.status_code, late.json()["code"]) == (409, "delivery_not_dead")
        ids = [each.headers["webhook-id"] for each in await receiver.wait_for(2)]
        assert ids == [dead["id"]] * 2
        assert all(is_described(each) for each in (again, replay, late))


async def first_of(client: httpx.AsyncClient, path: str) -> Json:
    """The first item of a list, once there is one."""
    async with asyncio.timeout(20):
        while not (items := (await client.get(path)).json()["items"]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return items[0]
