"""SIGTERM, and processes that only serve or only work."""

import asyncio

from tests.service import Processes, until
from tests.workflows.effects import Effects


async def test_a_stopped_service_ends_its_calls_answers_its_callers_and_takes_nothing_new(
    own: Processes, effects: Effects
) -> None:
    stopped, other = own.begin_serving(drain_seconds=60), own.begin_serving("--no-worker")
    await stopped.ready()
    await other.ready()
    async with stopped.api() as api, other.api() as other_api:
        waiting = asyncio.create_task(api.start("jobs", "last", prefer="wait=60"))
        await effects.wait_for("began last")
        stopped.tell_to_stop()

        async def is_draining() -> bool:
            return any(each["event"] == "draining" for each in stopped.log)

        await until(is_draining)
        queued = await other_api.accepted("waved_letters")
        effects.permit("last")
        answer = await waiting
        assert await stopped.exit_code() == 0
        assert (answer.status_code, answer.json()["output"]) == (201, "done last")
        assert effects.of(answer.json()) == ["began last", "ended last"]
        assert (await other_api.run(queued))["status"] == "queued"
        assert effects.of(queued) == []


async def test_worker_processes_run_what_a_service_without_one_has_taken(
    own: Processes, effects: Effects
) -> None:
    serving = await own.serve("--no-worker")
    async with serving.api() as api:
        unwanted = await api.accepted("waved_letters")
        assert (await api.cancel(unwanted)).json()["status"] == "cancelled"
        taken = await api.accepted("waved_letters")

        worker = await own.work(drain_seconds=0)
        assert (await api.ended(taken))["output"] == "sent work"
        paused = await api.started("gated_jobs", "unfinished")
        letter = await api.started("letters")
        await api.decide(paused["pause"], prefer="respond-async")
        await effects.wait_for("began unfinished")
        worker.tell_to_stop()
        assert await worker.exit_code() == 0
        assert (await api.run(paused))["status"] == "queued"
        decided = await api.decide(letter["pause"], prefer="respond-async")
        assert (decided.status_code, decided.json()["status"]) == (202, "queued")

        await own.work()
        assert (await api.ended(letter))["output"] == "sent work"
        await effects.wait_for("began unfinished", times=2)
        effects.permit("unfinished")
        assert (await api.ended(paused))["output"] == "done unfinished"
    assert effects.of(unwanted) == []
    assert effects.of(paused) == ["began unfinished"] * 2 + ["ended unfinished"]
    assert len({each["call"] for each in effects.lines_of(paused)}) == 1
