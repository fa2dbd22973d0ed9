"""A thread has one unfinished run: what a second one is told, and how a run is ended from outside."""

from tests.e2e.conftest import Town
from tests.service import Api, new_thread, path_of


async def test_a_new_run_on_a_paused_thread_is_refused_and_the_pause_untouched(api: Api) -> None:
    run = await api.started("letters")
    answer = await api.start("letters", thread=run["thread_id"])
    assert (answer.status_code, answer.json()["code"]) == (409, "thread_paused")
    assert answer.json()["pause_ids"] == [run["pause"]["id"]]
    assert await api.run(run) == run
    assert (await api.decided(run["pause"]))["status"] == "completed"


async def test_a_new_run_on_a_busy_thread_is_refused(town: Town, api: Api) -> None:
    thread = new_thread()
    run = await api.accepted("jobs", thread, thread=thread)
    for more in ({}, {"if_paused": "supersede"}):
        answer = await api.start("jobs", thread=thread, more=more)
        assert (answer.status_code, answer.json()["code"]) == (409, "thread_busy")
    town.effects.permit(thread)
    assert (await api.ended(run))["status"] == "completed"
    assert town.effects.of(run) == [f"began {thread}", f"ended {thread}"]


async def test_a_superseding_run_takes_the_paused_ones_place(town: Town, api: Api) -> None:
    old = await api.started("letters", "old")
    new = await api.started("letters", "new", thread=old["thread_id"], if_paused="supersede")
    assert new["status"] == "paused"
    ended = await api.run(old)
    assert (ended["status"], ended["stop_reason"]) == ("cancelled", "superseded")
    assert [each["status"] for each in ended["pauses"]] == ["superseded"]
    late = await api.decide(old["pause"])
    assert (late.status_code, late.json()["code"]) == (409, "pause_superseded")
    assert (await api.decided(new["pause"]))["output"] == "sent new"
    assert town.effects.of(old) == []


async def test_a_thread_with_an_unfinished_run_cannot_be_deleted(town: Town, api: Api) -> None:
    paused = await api.started("letters")
    busy = await api.accepted("jobs", new_thread())
    for run, code in ((paused, "thread_paused"), (busy, "thread_busy")):
        answer = await api.ask("DELETE", f"/threads/{run['thread_id']}")
        assert (answer.status_code, answer.json()["code"]) == (409, code)
        await api.cancel(run)
        assert (await api.ask("DELETE", f"/threads/{run['thread_id']}")).status_code == 204
        assert (await api.ask("GET", path_of(run))).status_code == 404


async def test_a_cancelled_pause_cannot_be_decided_and_the_thread_goes_on(
    town: Town, api: Api
) -> None:
    run = await api.started("letters", "first")
    answer = await api.cancel(run)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert [each["status"] for each in answer.json()["pauses"]] == ["cancelled"]
    assert (await api.get("/pauses", status="open", run_id=run["id"]))["items"] == []
    late = await api.decide(run["pause"])
    assert (late.status_code, late.json()["code"]) == (409, "pause_cancelled")
    following = await api.started("letters", "second", thread=run["thread_id"])
    assert (await api.decided(following["pause"]))["output"] == "sent second"
    assert town.effects.of(run) == []


async def test_a_running_run_is_cancelled_in_the_middle_of_a_call(
    town: Town, api: Api, other_api: Api
) -> None:
    task = new_thread()
    run = await api.accepted("jobs", task)
    await town.effects.wait_for(f"began {task}")
    answer = await other_api.cancel(run)
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    following = await api.started("waved_letters", thread=run["thread_id"])
    assert following["status"] == "completed"
    town.effects.permit(task)
    assert (await api.run(run))["status"] == "cancelled"


async def test_an_ended_run_is_not_cancelled(api: Api) -> None:
    run = await api.started("waved_letters")
    answer = await api.cancel(run)
    assert (answer.status_code, answer.json()) == (200, run)
