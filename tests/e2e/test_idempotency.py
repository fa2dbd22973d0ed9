"""The same request again, under the same key, does nothing again."""

import asyncio

from tests.e2e.conftest import Town
from tests.service import Api, approval, new_thread, rejection

IN_FLIGHT = (409, "idempotency_in_flight")


async def test_twenty_starts_at_once_with_one_key_are_one_run(
    town: Town, api: Api, other_api: Api
) -> None:
    thread = new_thread()
    answers = await asyncio.gather(
        *(
            door.start("waved_letters", thread=thread, idempotency_key=thread, prefer="wait=30")
            for door in [api, other_api] * 10
        )
    )
    taken = [each for each in answers if each.is_success]
    assert all(
        (each.status_code, each.json()["code"]) == IN_FLIGHT
        for each in answers
        if not each.is_success
    )
    assert len({each.json()["id"] for each in taken}) == 1
    assert sum("idempotency-replayed" not in each.headers for each in taken) == 1
    (run,) = (await api.get(f"/threads/{thread}/runs"))["items"]
    assert town.effects.of(run) == ["sent work"]


async def test_a_replay_answers_with_the_run_as_it_is_now(api: Api) -> None:
    thread = new_thread()
    first = await api.start("letters", thread=thread, idempotency_key=f"{thread}-start")
    run = first.json()
    await api.decided(run["pause"])
    again = await api.start("letters", thread=thread, idempotency_key=f"{thread}-start")
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json()["id"], again.json()["status"]) == (run["id"], "completed")


async def test_a_key_with_another_request_is_refused(api: Api) -> None:
    thread = new_thread()
    run = (await api.start("letters", "one", thread=thread, idempotency_key=thread)).json()
    other_body = await api.start("letters", "two", thread=thread, idempotency_key=thread)
    other_path = await api.start("letters", "one", idempotency_key=thread)
    other_route = await api.decide(run["pause"], idempotency_key=thread)
    for answer in (other_body, other_path, other_route):
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_mismatch")
    assert await api.run(run) == run


async def test_the_same_decision_again_under_its_key_is_no_second_decision(
    town: Town, api: Api
) -> None:
    run = await api.started("letters")
    answers = [
        await api.decide(run["pause"], approval(), idempotency_key=run["id"]) for _ in range(2)
    ]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    changed = await api.decide(run["pause"], rejection(), idempotency_key=run["id"])
    assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_mismatch")
    assert town.effects.of(run) == ["sent work"]


async def test_a_thread_is_made_once_under_its_key(api: Api) -> None:
    key = new_thread()
    first, second = [
        await api.ask("POST", "/threads", {"metadata": {"n": 1}}, idempotency_key=key)
        for _ in range(2)
    ]
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
