"""Pauses as callers and approvers see them over HTTP."""

from tests.e2e.conftest import Town
from tests.service import Api, approval, new_thread, rejection


async def test_a_run_is_the_same_before_and_after_its_pause(town: Town, api: Api) -> None:
    thread = new_thread()
    await api.ask("POST", "/threads", {"id": thread, "metadata": {"customer": 4711}})
    paused = await api.started("letters", "hello", thread=thread, metadata={"order": 12})
    completed = await api.decided(paused["pause"], approval(feedback="fine"))
    kept = ("id", "thread_id", "workflow", "input", "metadata", "requested_by", "created_at")
    assert {name: completed[name] for name in kept} == {name: paused[name] for name in kept}
    assert completed["started_at"] == paused["started_at"]
    assert (paused["status"], paused["output"]) == ("paused", None)
    assert paused["stop_reason"] == "waiting for approval"
    assert (completed["status"], completed["output"]) == ("completed", "sent hello")
    assert paused["usage"]["cost"] == "0.01"
    assert completed["usage"] == {
        "model_calls": 2,
        "tool_calls": 1,
        "input_tokens": 18,
        "output_tokens": 8,
        "cost": "0.03",
    }
    assert (await api.get(f"/threads/{thread}"))["metadata"] == {"customer": 4711}
    assert town.effects.of(paused) == ["sent hello"]


async def test_a_run_that_fails_after_its_pause_keeps_what_it_spent(town: Town, api: Api) -> None:
    paused = await api.started("unlucky_letters", "hello")
    failed = await api.decided(paused["pause"])
    assert (failed["id"], failed["status"]) == (paused["id"], "failed")
    assert failed["error"]["code"] == "step_failed"
    assert failed["usage"]["cost"] == "0.03"
    assert town.effects.of(paused) == ["sent hello"]


async def test_a_large_argument_is_decidable_as_soon_as_its_pause_is_answered(
    town: Town, api: Api
) -> None:
    large = "x" * 1_000_000
    paused = await api.started("letters", large)
    assert paused["pause"]["call"]["arguments"] == {"text": large}
    assert (await api.decided(paused["pause"]))["status"] == "completed"


async def test_what_one_service_answers_the_other_one_can_decide(api: Api, other_api: Api) -> None:
    paused = await api.started("letters", "hello")
    assert (await other_api.run(paused))["pause"] == paused["pause"]
    assert (await other_api.decided(paused["pause"]))["status"] == "completed"
    assert (await api.run(paused))["status"] == "completed"


async def test_an_automatic_channel_decides_without_a_pause_that_is_seen(
    town: Town, api: Api
) -> None:
    for workflow, name, approved in (
        ("waved_letters", "yes", True),
        ("refused_letters", "no", False),
    ):
        run = await api.started(workflow, "hello")
        assert (run["status"], run["pause"]) == ("completed", None)
        (pause,) = run["pauses"]
        assert pause["status"] == "decided"
        assert (pause["decision"]["approved"], pause["decision"]["by"]) == (approved, name)
        assert town.effects.of(run) == ["sent hello"] * approved


async def test_a_second_decision_is_refused_and_changes_nothing(town: Town, api: Api) -> None:
    run = await api.started("letters", "hello")
    rejected = await api.decided(run["pause"], rejection(feedback="no"))
    again = await api.decide(run["pause"], approval())
    assert (again.status_code, again.json()["code"]) == (409, "pause_decided")
    assert rejected["output"] == "Tool error: the call was rejected by alice: no"
    assert await api.run(run) == rejected
    assert town.effects.of(run) == []


async def test_a_decision_about_another_threads_pause_is_not_found(api: Api) -> None:
    run, elsewhere = await api.started("letters"), await api.started("letters")
    for pause in (elsewhere["pause"], {"id": "pau_00000000000000000000000000000000"}):
        answer = await api.decide(pause, thread=run["thread_id"])
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await api.run(run))["status"] == "paused"
    assert (await api.run(elsewhere))["pause"] == elsewhere["pause"]


async def test_a_decision_for_the_first_pause_does_not_answer_the_second(
    town: Town, api: Api
) -> None:
    run = await api.started("pairs", "letter")
    first = run["pause"]
    then = await api.decided(first, rejection())
    second = then["pause"]
    assert second["id"] != first["id"]
    assert [each["position"]["index"] for each in (first, second)] == [0, 1]
    late = await api.decide(first, approval(by="double click"))
    assert (late.status_code, late.json()["code"]) == (409, "pause_decided")
    assert await api.run(run) == then
    ended = await api.decided(second)
    assert ended["output"] == "Tool error: the call was rejected by alice; sent letter 2"
    assert town.effects.of(run) == ["sent letter 2"]


async def test_an_invalid_decision_leaves_the_pause_as_it_was(api: Api) -> None:
    run = await api.started("letters")
    for wrong in ({"approved": "yes", "by": "a"}, {"approved": None, "by": "a"}, approval(x=1), {}):
        answer = await api.decide(run["pause"], wrong or {"by": "a"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_decision")
        assert answer.json()["errors"]
    assert await api.run(run) == run


async def test_a_decision_about_something_else_than_what_is_shown_is_refused(api: Api) -> None:
    run = await api.started("letters")
    other = await api.decide(run["pause"], if_match='"0000"')
    assert (other.status_code, other.json()["code"]) == (412, "digest_mismatch")
    shown = await api.decide(run["pause"], if_match=f'"{run["pause"]["digest"]}"')
    assert shown.status_code == 200


async def test_a_tools_question_is_answered_with_exactly_the_value(town: Town, api: Api) -> None:
    run = await api.started("enquiries", "tea")
    assert run["pause"]["kind"] == "interactive"
    ended = await api.decided(run["pause"], {"value": {"milk": False, "cups": [0, ""]}, "by": "me"})
    assert ended["status"] == "completed"
    assert town.effects.of(run) == ["heard {'milk': False, 'cups': [0, '']}"]
