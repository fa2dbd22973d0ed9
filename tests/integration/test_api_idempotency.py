"""The same request under the same key does its work once."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx

from examples.errands import errands
from tests.keyring import holding, key
from tests.serving import paused, service, serving, site_over
from tests.workflows.papers import echoes

ECHO = {"workflow": "echoes", "input": "x"}


def only_one_did_it(answers: Sequence[httpx.Response]) -> None:
    """One answer is the first one's, the others say that they repeat it; all show the same resource."""
    replayed = [each.headers.get("idempotency-replayed") for each in answers]
    assert sorted(each or "" for each in replayed) == [""] + ["true"] * (len(answers) - 1), [
        (each.status_code, each.text[:200]) for each in answers
    ]
    assert len({each.json()["id"] for each in answers}) == 1


async def test_a_repeated_start_makes_one_run(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        thread = (await client.post("/threads")).json()["id"]
        key = {"Idempotency-Key": "k-1"}
        first = await client.post(f"/threads/{thread}/runs", json=ECHO, headers=key)
        again = await client.post(
            f"/threads/{thread}/runs",
            content=b'{"input":"x",  "workflow":"echoes"}',
            headers=key | {"Content-Type": "application/json; charset=utf-8"},
        )
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == first.json()
        only_one_did_it([first, again])
        assert len((await client.get(f"/threads/{thread}/runs")).json()["items"]) == 1


async def test_repeated_starts_at_once_through_two_processes_make_one_run(
    database_url: str,
) -> None:
    async with (
        site_over(database_url, [errands]) as one,
        site_over(database_url, [errands]) as two,
        serving(one) as first,
        serving(two) as second,
    ):
        for round_ in range(5):
            thread = (await first.post("/threads")).json()["id"]
            answers = await asyncio.gather(
                *(
                    client.post(
                        f"/threads/{thread}/runs",
                        json={"workflow": "errands", "input": {"text": "x"}},
                        headers={"Idempotency-Key": f"k-{round_}"},
                    )
                    for client in (first, second) * 4
                )
            )
            assert {each.status_code for each in answers} <= {201, 202}
            only_one_did_it(answers)


async def test_repeated_threads_at_once_make_one_thread(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        for body in ({}, {"id": "mine"}):
            answers = await asyncio.gather(
                *(
                    served.client.post(
                        "/threads", json=body, headers={"Idempotency-Key": f"k{len(body)}"}
                    )
                    for _ in range(8)
                )
            )
            assert {each.status_code for each in answers} == {201}
            only_one_did_it(answers)


async def test_a_repeated_decision_is_answered_with_the_run_as_it_is_by_then(
    database_url: str,
) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        body = {"pause_id": run["pause"]["id"], "decision": {"approved": True, "by": "m"}}
        answers = await asyncio.gather(
            *(
                served.client.post(
                    f"/threads/{run['thread_id']}/resume",
                    json=body,
                    headers={"Idempotency-Key": "k"},
                )
                for _ in range(8)
            )
        )
        assert {each.status_code for each in answers} == {200}
        assert {each.json()["status"] for each in answers} == {"completed"}
        only_one_did_it(answers)


async def test_a_repeated_cancel_does_nothing_again(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        path = f"/threads/{run['thread_id']}/runs/{run['id']}/cancel"
        answers = [
            await served.client.post(path, headers={"Idempotency-Key": "k"}) for _ in range(2)
        ]
        assert {each.json()["status"] for each in answers} == {"cancelled"}
        only_one_did_it(answers)


async def test_a_key_belongs_to_one_request(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client, key = served.client, {"Idempotency-Key": "k"}
        one = (await client.post("/threads", headers=key)).json()["id"]
        other = (await client.post("/threads")).json()["id"]
        run = (await client.post(f"/threads/{other}/runs", json=ECHO)).json()["id"]
        requests: list[tuple[str, object]] = [
            ("/threads", {"metadata": {"a": 1}}),
            (f"/threads/{one}/runs", ECHO),
            (f"/threads/{other}/runs", ECHO),
            (f"/threads/{other}/runs/{run}/cancel", {}),
            (f"/threads/{other}/resume", {"pause_id": "pau_1", "decision": {}}),
            ("/deliveries/dlv_1/retry", {}),
        ]
        for path, body in requests:
            refused = await client.post(path, json=body, headers=key)
            problem = refused.json()
            assert (refused.status_code, problem["code"]) == (422, "idempotency_mismatch"), path


async def test_each_principal_has_keys_of_their_own(database_url: str) -> None:
    async with service(database_url, [echoes], is_open=False) as served:
        database = served.site.database
        secrets = [await key(database, name) for name in ("ann", "ann", "bob")]
        async with AsyncExitStack() as callers:
            ann, again, bob = [
                await callers.enter_async_context(holding(served.client, each)) for each in secrets
            ]
            named = {"Idempotency-Key": "sgk_" + "k" * 43}
            first, second, other = [
                await each.post("/threads", json={}, headers=named) for each in (ann, again, bob)
            ]
            mismatch = await bob.post("/threads", json={"metadata": {"a": 1}}, headers=named)
        kept = await database.fetch("select k::text as row from idempotency_keys k")
    only_one_did_it([first, second])
    assert other.status_code == 201
    assert other.json()["id"] != first.json()["id"]
    assert "idempotency-replayed" not in other.headers
    assert mismatch.json()["code"] == "idempotency_mismatch"
    assert len(kept) == 2
    assert all(named["Idempotency-Key"] not in each["row"] for each in kept)


async def test_a_refused_request_leaves_its_key_free(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client, key = served.client, {"Idempotency-Key": "k"}
        assert (await client.post("/threads/t/runs", json=ECHO, headers=key)).status_code == 404
        await client.post("/threads", json={"id": "t"})
        started = await client.post("/threads/t/runs", json=ECHO, headers=key)
        assert (started.status_code, started.json()["output"]) == (201, "x")


async def test_a_key_that_is_no_key_is_refused(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        for key in (b"", b"a b", b"\xff", b"k" * 256):
            refused = await served.client.post(
                "/threads", headers=httpx.Headers([(b"Idempotency-Key", key)])
            )
            assert refused.status_code == 422, key
            assert refused.json()["errors"][0]["pointer"] == "/header/idempotency-key"
