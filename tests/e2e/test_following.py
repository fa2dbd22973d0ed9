"""Streams of events over processes that work, that only serve, and that die."""

from tests.service import Processes, approval
from tests.streams import events_of, streaming
from tests.workflows.effects import Effects


async def test_a_stream_goes_on_across_the_death_of_its_worker_and_of_its_process(
    own: Processes, effects: Effects
) -> None:
    doomed = await own.serve(lease_seconds=1)
    serving = await own.serve("--no-worker")
    async with doomed.api() as doomed_api, serving.api() as api:
        run = await doomed_api.started("gated_jobs", "long")
        async with (
            streaming(doomed_api.client, events_of(run)) as lost,
            streaming(api.client, events_of(run)) as stream,
            streaming(api.client, "/events") as all,
        ):
            await lost.until_type("run.paused")
            await all.until_type("stream.position")
            await doomed_api.decide(run["pause"], approval(), prefer="respond-async")
            await effects.wait_for("began long")
            await stream.until_type("tool.started")
            doomed.kill()
            await own.work(lease_seconds=1)
            effects.permit("long")
            told = await stream.rest(within=60)
            await all.until_type("run.completed", within=60)
        async with streaming(api.client, events_of(run), after=lost.last_id) as following:
            rest = await following.rest()
    assert [int(each.id or 0) for each in told] == list(range(1, len(told) + 1))
    assert told[-1].type == "run.completed"
    assert [*lost.durable, *rest] == told
    assert [each.data for each in all.durable] == [each.data for each in told[6:]]


async def test_a_worker_passes_on_what_its_models_write_to_who_follows_elsewhere(
    own: Processes, effects: Effects
) -> None:
    serving = await own.serve("--no-worker")
    await own.work()
    async with serving.api() as api:
        run = await api.started("letters", "a letter")
        async with streaming(api.client, events_of(run)) as stream:
            await stream.until_type("run.paused")
            await api.decide(run["pause"], prefer="respond-async")
            await stream.rest()
    heard = "".join(each["text"] for each in stream.deltas if each["turn"] == 1)
    assert heard == "sent a letter"


async def test_a_process_that_is_told_to_stop_lets_go_of_who_follows_at_once(
    own: Processes, effects: Effects
) -> None:
    stopped = await own.serve(drain_seconds=60)
    async with stopped.api() as api:
        run = await api.started("letters")
        async with (
            streaming(api.client, events_of(run)) as stream,
            streaming(api.client, "/events") as all,
        ):
            await stream.until_type("run.paused")
            await all.until_type("stream.position")
            stopped.tell_to_stop()
            await stream.rest(within=10)
            await all.rest(within=10)
    assert await stopped.exit_code() == 0
