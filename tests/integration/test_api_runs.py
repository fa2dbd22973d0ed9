"""Threads and runs over HTTP: what is answered, when, and with which headers."""

import asyncio

import httpx
import pytest

from app.api import application
from examples.errands import errands
from tests.serving import service, serving, site_over
from tests.workflows.papers import breaks, echoes, waiting_for

ERRAND = {"workflow": "errands", "input": {"text": "late"}}


async def thread_of(client: httpx.AsyncClient) -> str:
    made = await client.post("/threads", json={})
    assert made.status_code == 201
    return made.json()["id"]


async def test_a_thread_is_made_shown_listed_and_deleted(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        client = served.client
        made = await client.post(
            "/threads", json={"id": "customer-1", "workflow": "errands", "metadata": {"a": [1]}}
        )
        assert made.status_code == 201
        assert made.headers["location"] == "/threads/customer-1"
        thread = made.json()
        assert thread["id"] == "customer-1"
        assert thread["metadata"] == {"a": [1]}
        assert thread["active_run"] is None
        assert (await client.get("/threads/customer-1")).json() == thread
        assert (await client.get("/threads")).json()["items"] == [thread]
        gone = await client.delete("/threads/customer-1")
        assert (gone.status_code, gone.content) == (204, b"")
        assert (await client.get("/threads/customer-1")).status_code == 404
        assert (await client.delete("/threads/customer-1")).status_code == 404


async def test_a_thread_needs_no_body_and_gets_an_id(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        made = await served.client.post("/threads")
        assert made.status_code == 201
        assert made.json()["id"].startswith("thr_")


async def test_a_taken_id_is_refused(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        await served.client.post("/threads", json={"id": "a"})
        again = await served.client.post("/threads", json={"id": "a"})
        assert (again.status_code, again.json()["code"]) == (409, "thread_exists")


async def test_a_thread_for_an_unknown_workflow_is_refused(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        refused = await served.client.post("/threads", json={"workflow": "nope"})
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


async def test_a_run_is_answered_once_it_is_paused(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        client = served.client
        thread = await thread_of(client)
        started = await client.post(f"/threads/{thread}/runs", json=ERRAND)
        assert started.status_code == 201
        run = started.json()
        assert run["status"] == "paused"
        assert run["pause"]["call"]["arguments"]["smtp_password"] == "***"
        assert run["output"] is None
        assert started.headers["location"] == f"/threads/{thread}/runs/{run['id']}"
        assert "preference-applied" not in started.headers
        assert (await client.get(started.headers["location"])).json() == run
        assert (await client.get(f"/threads/{thread}")).json()["active_run"] == {
            "id": run["id"],
            "status": "paused",
        }


async def test_a_run_that_fails_is_still_created(database_url: str) -> None:
    async with service(database_url, [breaks]) as served:
        thread = await thread_of(served.client)
        started = await served.client.post(
            f"/threads/{thread}/runs", json={"workflow": "breaks", "input": "x"}
        )
        assert started.status_code == 201
        assert started.json()["status"] == "failed"


async def test_an_unknown_thread_is_refused_or_made(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        body = {"workflow": "echoes", "input": "x"}
        refused = await served.client.post("/threads/new/runs", json=body)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        made = await served.client.post(
            "/threads/new/runs", json={**body, "if_not_exists": "create"}
        )
        assert (made.status_code, made.json()["output"]) == (201, "x")


async def test_a_paused_thread_refuses_a_run_and_names_its_pauses(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        client = served.client
        thread = await thread_of(client)
        run = (await client.post(f"/threads/{thread}/runs", json=ERRAND)).json()
        refused = await client.post(f"/threads/{thread}/runs", json=ERRAND)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (409, "thread_paused")
        assert problem["pause_ids"] == [run["pause"]["id"]]
        assert problem["run_id"] == run["id"]
        undeletable = await client.delete(f"/threads/{thread}")
        assert (undeletable.status_code, undeletable.json()["code"]) == (409, "thread_paused")
        assert undeletable.json()["pause_ids"] == [run["pause"]["id"]]
        assert (await client.get(f"/pauses/{run['pause']['id']}")).json()["status"] == "open"


async def test_a_paused_run_can_be_superseded(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        client = served.client
        thread = await thread_of(client)
        first = (await client.post(f"/threads/{thread}/runs", json=ERRAND)).json()
        second = await client.post(
            f"/threads/{thread}/runs", json={**ERRAND, "if_paused": "supersede"}
        )
        assert (second.status_code, second.json()["status"]) == (201, "paused")
        old = (await client.get(f"/threads/{thread}/runs/{first['id']}")).json()
        assert (old["status"], old["stop_reason"]) == ("cancelled", "superseded")
        late = await client.post(
            f"/threads/{thread}/resume",
            json={"pause_id": first["pause"]["id"], "decision": {"approved": True, "by": "ann"}},
        )
        assert (late.status_code, late.json()["code"]) == (409, "pause_superseded")


async def test_who_waits_no_longer_is_told_where_to_look(database_url: str) -> None:
    event = asyncio.Event()
    async with service(database_url, [waiting_for(event)]) as served:
        client = served.client
        thread = await thread_of(client)
        started = await client.post(
            f"/threads/{thread}/runs",
            json={"workflow": "waits", "input": "x"},
            headers={"Prefer": "respond-async"},
        )
        assert started.status_code == 202
        assert started.headers["preference-applied"] == "respond-async"
        assert started.headers["retry-after"] == "1"
        path = started.headers["location"]
        assert path == f"/threads/{thread}/runs/{started.json()['id']}"
        busy = await client.post(
            f"/threads/{thread}/runs", json={"workflow": "waits", "input": "x"}
        )
        assert (busy.status_code, busy.json()["code"]) == (409, "thread_busy")
        undeletable = await client.delete(f"/threads/{thread}")
        assert (undeletable.status_code, undeletable.json()["code"]) == (409, "thread_busy")
        now = await client.get(path)
        assert (now.status_code, now.json()["status"]) == (200, "running")
        waited = await client.get(path, headers={"Prefer": "wait=1"})
        assert (waited.status_code, waited.headers["retry-after"]) == (202, "1")
        waiting = asyncio.create_task(client.get(path, headers={"Prefer": "wait=30"}))
        await asyncio.sleep(0.1)
        event.set()
        ended = await waiting
        assert (ended.status_code, ended.json()["output"]) == (200, "waited with x")
        assert ended.headers["preference-applied"] == "wait=30"


PREFERENCES = {
    "wait=5": "wait=5",
    "respond-async, wait=5": "wait=5",
    "WAIT=5; foo=bar": "wait=5",
    "wait=100000": "wait=60",
    "respond-async": "respond-async",
    "wait=-1": None,
    "wait=1.5": None,
    "wait": None,
    "wait=99999999999999999999999999999": None,
    "handling=lenient": None,
    "": None,
    "\xff,,;;==": None,
}


async def test_a_preference_is_obeyed_or_passed_over(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        thread = await thread_of(served.client)
        run = (
            await served.client.post(
                f"/threads/{thread}/runs", json={"workflow": "echoes", "input": "x"}
            )
        ).json()
        for prefer, applied in PREFERENCES.items():
            shown = await served.client.get(
                f"/threads/{thread}/runs/{run['id']}",
                headers=httpx.Headers([(b"Prefer", prefer.encode("latin-1"))]),
            )
            assert shown.status_code == 200
            assert shown.headers.get("preference-applied") == applied, prefer


async def test_cancelling_ends_a_run_and_an_ended_one_is_left_as_it_is(database_url: str) -> None:
    event = asyncio.Event()
    async with service(database_url, [waiting_for(event), errands, echoes]) as served:
        client = served.client
        thread = await thread_of(client)
        paused = (await client.post(f"/threads/{thread}/runs", json=ERRAND)).json()
        cancelled = await client.post(f"/threads/{thread}/runs/{paused['id']}/cancel")
        assert cancelled.status_code == 200
        assert cancelled.json()["status"] == "cancelled"
        assert cancelled.json()["pauses"][0]["status"] == "cancelled"
        again = await client.post(f"/threads/{thread}/runs/{paused['id']}/cancel", json={})
        assert again.json() == cancelled.json()
        running = (
            await client.post(
                f"/threads/{thread}/runs",
                json={"workflow": "waits", "input": "x"},
                headers={"Prefer": "respond-async"},
            )
        ).json()
        stopped = await client.post(f"/threads/{thread}/runs/{running['id']}/cancel")
        assert stopped.json()["status"] == "cancelled"
        done = await client.post(
            f"/threads/{thread}/runs", json={"workflow": "echoes", "input": "x"}
        )
        assert done.json()["status"] == "completed"
        left = await client.post(f"/threads/{thread}/runs/{done.json()['id']}/cancel")
        assert left.json() == done.json()
        unknown = await client.post(f"/threads/{thread}/runs/run_nope/cancel")
        assert unknown.status_code == 404


async def test_a_run_is_seen_in_its_own_thread_only(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        mine, other = await thread_of(client), await thread_of(client)
        run = (
            await client.post(f"/threads/{mine}/runs", json={"workflow": "echoes", "input": "x"})
        ).json()
        assert (await client.get(f"/threads/{other}/runs/{run['id']}")).status_code == 404
        assert (await client.post(f"/threads/{other}/runs/{run['id']}/cancel")).status_code == 404


async def test_a_wrong_input_is_pointed_at(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        thread = await thread_of(served.client)
        refused = await served.client.post(
            f"/threads/{thread}/runs", json={"workflow": "errands", "input": {"text": 1}}
        )
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "invalid_request")
        assert [each["pointer"] for each in problem["errors"]] == ["/input/text"]
        assert (await served.client.get(f"/threads/{thread}/runs")).json()["items"] == []


CALLBACKS: list[tuple[object, list[str]]] = [
    ({"url": "ftp://example.com"}, ["/callback/url"]),
    ({"url": "https://"}, ["/callback/url"]),
    ({"url": "https://user:password@example.com/"}, ["/callback/url"]),
    ({"url": "https://example.com:99999/"}, ["/callback/url"]),
    ({"url": "https://example.com/\n"}, ["/callback/url"]),
    ({"url": f"https://example.com/{'a' * 3000}"}, ["/callback/url"]),
    ({"url": "https://example.com", "secret": "hunter2"}, ["/callback/secret"]),
    ({"url": "x", "secret": "whsec_c2hvcnQ="}, ["/callback/url", "/callback/secret"]),
    ({"url": 1}, ["/callback/url"]),
    ({}, ["/callback/url"]),
    ({"url": "https://example.com", "more": 1}, ["/callback/more"]),
    ("https://example.com", ["/callback"]),
]


async def test_a_callback_that_cannot_be_used_is_pointed_at_and_never_quoted(
    database_url: str,
) -> None:
    async with service(database_url, [echoes]) as served:
        thread = await thread_of(served.client)
        for callback, pointers in CALLBACKS:
            refused = await served.client.post(
                f"/threads/{thread}/runs",
                json={"workflow": "echoes", "input": "x", "callback": callback},
            )
            assert refused.status_code == 422, callback
            assert [each["pointer"] for each in refused.json()["errors"]] == pointers
            assert "hunter2" not in refused.text
            assert "password@" not in refused.text
        assert (await served.client.get(f"/threads/{thread}/runs")).json()["items"] == []


async def test_a_callbacks_secret_is_never_shown(database_url: str) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    async with service(database_url, [errands]) as served:
        thread = await thread_of(served.client)
        callback = {"url": "https://127.0.0.1:9/", "secret": secret}
        started = await served.client.post(
            f"/threads/{thread}/runs", json={**ERRAND, "callback": callback}
        )
        assert started.status_code == 201
        assert secret not in started.text
        assert secret not in (await served.client.get("/deliveries")).text


async def test_a_client_that_hangs_up_changes_nothing(database_url: str) -> None:
    event = asyncio.Event()
    async with service(database_url, [waiting_for(event)]) as served:
        client = served.client
        thread = await thread_of(client)
        with pytest.raises(httpx.ReadTimeout):
            await client.post(
                f"/threads/{thread}/runs",
                json={"workflow": "waits", "input": "x"},
                headers={"Prefer": "wait=30"},
                timeout=0.5,
            )
        event.set()
        runs = (await client.get(f"/threads/{thread}/runs")).json()["items"]
        path = f"/threads/{thread}/runs/{runs[0]['id']}"
        ended = await client.get(path, headers={"Prefer": "wait=10"})
        assert [each["id"] for each in runs] == [ended.json()["id"]]
        assert ended.json()["status"] == "completed"


async def test_a_request_that_is_cancelled_has_still_started_its_run(database_url: str) -> None:
    event = asyncio.Event()
    async with service(database_url, [waiting_for(event)]) as served:
        thread = await thread_of(served.client)
        transport = httpx.ASGITransport(application(served.site))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as inner:
            asking = asyncio.create_task(
                inner.post(f"/threads/{thread}/runs", json={"workflow": "waits", "input": "x"})
            )
            while not served.site.hands.busy and not asking.done():  # noqa: ASYNC110
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        event.set()
        (run,) = (await served.client.get(f"/threads/{thread}/runs")).json()["items"]
        ended = await served.client.get(
            f"/threads/{thread}/runs/{run['id']}", headers={"Prefer": "wait=10"}
        )
        assert ended.json()["status"] == "completed"


async def test_a_run_waits_in_the_queue_where_nobody_works(database_url: str) -> None:
    async with site_over(database_url, [echoes], works=False) as site, serving(site) as client:
        thread = await thread_of(client)
        body = {"workflow": "echoes", "input": "x"}
        queued = await client.post(
            f"/threads/{thread}/runs", json=body, headers={"Prefer": "wait=0"}
        )
        assert (queued.status_code, queued.json()["status"]) == (202, "queued")
        waiting = asyncio.create_task(
            client.get(queued.headers["location"], headers={"Prefer": "wait=20"})
        )
        async with site_over(database_url, [echoes]):
            ended = await waiting
        assert (ended.status_code, ended.json()["status"]) == (200, "completed")
