"""Streams of events: of one run and of everything, interrupted, slow, and while others still write."""

import asyncio
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.domain.ids import DEFAULT_TENANT, RunId, ThreadId
from app.domain.run import RunRef
from app.engine.audience import Delta
from app.lifecycle.follow import Recorded, Writing
from app.lifecycle.site import Site
from examples.errands import errands
from tests.service import until
from tests.serving import decide, paused, service, serving, site_over
from tests.streams import Told, events_of, streaming
from tests.workflows.papers import breaks, echoes, waiting_for
from tests.workflows.talkers import FOLDER, WORDS, talk

APPROVED = {"approved": True, "by": "alice"}


async def no_followers(site: Site) -> None:
    async def are_gone() -> bool:
        return len(site.followers) == 0

    await until(are_gone)


async def begun(client: httpx.AsyncClient, workflow: str, thread: str) -> dict[str, Any]:
    """A run of which nothing more is known than that it was taken."""
    body = {"workflow": workflow, "input": "x", "if_not_exists": "create"}
    answer = await client.post(
        f"/threads/{thread}/runs", json=body, headers={"prefer": "respond-async"}
    )
    return answer.json()


async def test_a_run_is_told_from_its_beginning_to_its_end_across_a_pause(
    database_url: str,
) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        async with streaming(served.client, events_of(run)) as stream:
            opened = await stream.until_type("pause.opened")
            await stream.until_type("run.paused")
            assert opened.data["data"]["pause_id"] == run["pause"]["id"]
            await decide(served.client, run, APPROVED)
            told = await stream.rest()
        assert [each.type for each in told] == [
            *("run.queued", "run.started", "step.started", "model.answered", "pause.opened"),
            *("run.paused", "pause.decided", "run.started", "tool.started", "tool.finished"),
            *("model.answered", "step.completed", "run.completed"),
        ]
        assert [int(each.id or 0) for each in told] == list(range(1, len(told) + 1))
        for each in told:
            assert each.data["type"] == each.type
            assert each.data["data"]["event_sequence"] == int(each.id or 0)
            assert each.data["data"]["run_id"] == run["id"]
        assert "hunter2" not in str(told)
        await no_followers(served.site)


async def test_a_stream_goes_on_after_any_event_with_nothing_missed_and_nothing_repeated(
    database_url: str,
) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        await decide(served.client, run, APPROVED)
        async with streaming(served.client, events_of(run)) as stream:
            whole = await stream.rest()
        for count in range(1, len(whole)):
            async with streaming(
                served.client, events_of(run), after=whole[count - 1].id
            ) as stream:
                assert await stream.rest() == whole[count:]
        async with streaming(served.client, events_of(run), after=whole[-1].id) as stream:
            assert stream.response.status_code == 204


async def test_an_end_from_outside_ends_the_stream_with_its_last_event(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        async with streaming(served.client, events_of(run)) as stream:
            await stream.until_type("run.paused")
            await served.client.post(events_of(run).replace("events", "cancel"))
            told = await stream.rest()
        assert [each.type for each in told[-2:]] == ["pause.cancelled", "run.cancelled"]


def since(told: list[Told], type_: str) -> list[Any]:
    """What was told from the first event of a type on."""
    return [each.data for each in dropwhile(lambda each: each.type != type_, told)]


async def test_what_another_process_does_is_told_too(database_url: str) -> None:
    async with (
        service(database_url, [errands]) as worker,
        site_over(database_url, [errands], works=False) as site,
        serving(site) as client,
    ):
        run = await paused(worker.client)
        async with streaming(client, events_of(run)) as stream, streaming(client, "/events") as all:
            await stream.until_type("run.paused")
            await all.until_type("stream.position")
            await decide(worker.client, run, APPROVED)
            told = await stream.rest()
            await all.until_type("run.completed")
        assert told[-1].type == "run.completed"
        assert since(all.told, "pause.decided") == since(told, "pause.decided")


async def test_everything_is_told_from_now_on_of_the_types_that_are_wanted(
    database_url: str,
) -> None:
    async with service(database_url, [errands, breaks, echoes]) as served:
        await paused(served.client)
        async with (
            streaming(served.client, "/events") as all,
            streaming(served.client, "/events?types=pause.*,run.failed") as some,
        ):
            await all.until_type("stream.position")
            await some.until_type("stream.position")
            run = await paused(served.client)
            await decide(served.client, run, APPROVED)
            await begun(served.client, "breaks", "t")
            await all.until_type("run.failed")
            await some.until_type("run.failed")
        assert all.types.count("run.queued") == 2
        assert some.types[1:] == ["pause.opened", "pause.decided", "run.failed"]
        assert len({each.id for each in all.told}) == len(all.told)


async def test_what_was_begun_before_and_is_committed_later_is_not_missed(
    database_url: str,
) -> None:
    async with service(database_url, [errands, echoes]) as served:
        run = await paused(served.client)
        slow = await asyncpg.connect(database_url)
        async with streaming(served.client, "/events") as stream:
            await stream.until_type("stream.position")
            transaction = slow.transaction()
            await transaction.start()
            await slow.execute(  # it has its place among the others before they have theirs
                "insert into events (thread_id, tenant, sequence, run_id, type, data) "
                "values ($1, 'default', 100, $2, 'pause.reminder', '{}')",
                run["thread_id"],
                run["id"],
            )
            await served.client.post("/threads", json={"id": "t"})
            for _ in range(3):
                await served.client.post(
                    "/threads/t/runs", json={"workflow": "echoes", "input": "x"}
                )
            await transaction.commit()
            await stream.until_type("run.completed", times=3)
        await slow.close()
        assert stream.types[1] == "pause.reminder"
        async with streaming(served.client, "/events", after=stream.told[1].id) as again:
            await again.until_type("run.completed", times=3)
        assert again.told[1:] == stream.told[2:]


async def test_every_place_in_everything_can_be_gone_on_from(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        client = served.client
        async with streaming(client, "/events") as stream:
            await stream.until_type("stream.position")
            await asyncio.gather(*(begun(client, "echoes", f"t{number}") for number in range(10)))
            await stream.until_type("run.completed", times=10)
        whole = [each for each in stream.told if each.type != "stream.position"]
        assert len({each.id for each in whole}) == len(whole)
        for count in range(0, len(whole) - 1, 7):
            async with streaming(client, "/events", after=whole[count].id) as again:
                await again.until(lambda it: it.last_id == whole[-1].id)
            assert again.told[1:] == whole[count + 1 :]


async def test_a_quiet_stream_shows_that_it_is_alive(database_url: str) -> None:
    async with (
        site_over(database_url, [errands]) as site,
        serving(site, heartbeat_seconds=0.05) as client,
    ):
        run = await paused(client)
        async with streaming(client, events_of(run)) as stream:
            await stream.until(lambda it: it.comments >= 3)
        async with streaming(client, "/events") as stream:
            await stream.until(lambda it: it.comments >= 3)


async def test_a_client_that_hangs_up_leaves_nothing_behind(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        before = {task.get_name() for task in asyncio.all_tasks()}
        for path in (events_of(run), "/events"):
            async with streaming(served.client, path) as stream:
                await stream.until(lambda it: bool(it.told))
                assert len(served.site.followers) == 1
            await no_followers(served.site)
        after = {task.get_name() for task in asyncio.all_tasks()}
        assert "look for followers" not in after - before
        assert (await decide(served.client, run, APPROVED)).status_code == 200


async def test_a_process_that_takes_leave_ends_its_streams_and_another_goes_on(
    database_url: str,
) -> None:
    event = asyncio.Event()
    async with (
        service(database_url, [waiting_for(event)]) as first,
        service(database_url, [waiting_for(event)]) as second,
    ):
        run = await begun(first.client, "waits", "t")
        async with (
            streaming(first.client, events_of(run)) as stream,
            streaming(first.client, "/events") as all,
        ):
            await stream.until_type("run.started")
            await all.until_type("stream.position")
            first.site.followers.close()
            await stream.rest()
            await all.rest()
        event.set()
        async with streaming(second.client, events_of(run), after=stream.last_id) as following:
            await following.rest()
        async with streaming(second.client, "/events", after=all.last_id) as everything:
            await everything.until_type("run.completed")
        types = [each.type for each in (*stream.durable, *following.durable)]
        assert types == [
            *("run.queued", "run.started", "step.started", "step.completed", "run.completed"),
        ]


async def test_a_stream_outlives_its_connections_to_postgres(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        operator = await asyncpg.connect(database_url)
        async with streaming(served.client, events_of(run)) as stream:
            await stream.until_type("run.paused")
            await operator.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'signoff' and datname = current_database()"
            )

            async def is_decided() -> bool:
                return (await decide(served.client, run, APPROVED)).status_code in (200, 409)

            await until(is_decided)
            told = await stream.rest()
        await operator.close()
        assert [int(each.id or 0) for each in told] == list(range(1, len(told) + 1))
        assert told[-1].type == "run.completed"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/events?types=nope", {}),
        ("/events?types=pause", {}),
        ("/events?types=", {}),
        ("/events", {"last-event-id": "x"}),
        ("/events", {"last-event-id": "1.2"}),
        ("/events", {"last-event-id": "5"}),
        ("/events", {"last-event-id": "9999999999999999999."}),
        ("/threads/t/runs/{run}/events", {"last-event-id": "-1"}),
        ("/threads/t/runs/{run}/events", {"last-event-id": "748."}),
        ("/threads/t/runs/{run}/events", {"last-event-id": "748.1.t"}),
        ("/threads/t/runs/{run}/events", {"last-event-id": "999"}),
        ("/threads/t/runs/{run}/events", {"last-event-id": "99999999999999999999"}),
    ],
)
async def test_what_cannot_be_gone_on_from_is_refused(
    database_url: str, path: str, headers: dict[str, str]
) -> None:
    async with service(database_url, [echoes]) as served:
        run = await begun(served.client, "echoes", "t")
        refused = await served.client.get(path.format(run=run["id"]), headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        pointer = refused.json()["errors"][0]["pointer"]
        assert pointer in ("/query/types", "/header/last-event-id")


async def test_a_run_that_is_not_there_has_no_events(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        run = await begun(served.client, "echoes", "t")
        for path in (f"/threads/other/runs/{run['id']}/events", "/threads/t/runs/run_1/events"):
            assert (await served.client.get(path)).status_code == 404


def writer(writes: asyncio.Event) -> Workflow:
    """A model that says something twice, the second time when the event is set."""

    @tool
    async def wait(about: str) -> str:
        """Waits."""
        await writes.wait()
        return about

    def say(request: ModelRequest) -> Reply:
        if request.messages[-1].role == "tool":
            return reply_with("what a model writes " * 200)
        return replace(call_tool(wait, "x"), text="wait a moment")

    clerk = Agent("clerk", prompt="Write.", model=ScriptedModel(say), tools=[wait])
    return Workflow("writer", version="1", input=str, steps=[clerk])


async def test_what_a_model_writes_is_heard_without_ids_and_stored_nowhere(
    database_url: str,
) -> None:
    writes = asyncio.Event()
    async with service(database_url, [writer(writes)]) as served:
        run = await begun(served.client, "writer", "t")
        async with streaming(served.client, events_of(run)) as stream:
            await stream.until_type("tool.started")
            writes.set()
            told = await stream.rest()
        text = "".join(each["text"] for each in stream.deltas if each["turn"] == 1)
        assert text == "what a model writes " * 200
        assert {each["run_id"] for each in stream.deltas} == {run["id"]}
        assert {each.id for each in stream.told if each not in told} == {None}
        heard = max(index for index, each in enumerate(stream.types) if each == "model.delta")
        assert "model.answered" in stream.types[heard:]
        kept = await served.site.database.fetch("select data::text from events")
        assert "what a model" not in str(kept)


async def test_a_reader_that_is_slow_costs_little_and_misses_no_event(database_url: str) -> None:
    writes = asyncio.Event()
    async with service(database_url, [writer(writes)]) as served:
        run = await begun(served.client, "writer", "t")
        followers = served.site.followers
        ref = RunRef(
            tenant=DEFAULT_TENANT, thread_id=ThreadId(run["thread_id"]), run_id=RunId(run["id"])
        )
        stream = followers.of_run(ref, after=0, is_over=False)
        heard = list(await anext(stream))
        for number in range(10_000):
            piece = Delta(path="p", agent="a", turn=number, offset=0, text="x" * 100)
            followers.hear(ref.run_id, piece)
        writes.set()
        await served.client.get(events_of(run).replace("/events", ""), headers={"prefer": "wait=9"})
        async for several in stream:
            heard += several
        pieces = [each for each in heard if isinstance(each, Writing)]
        assert sum(len(each.delta.text) for each in pieces) < 20_000
        events = [each.sequence for each in heard if isinstance(each, Recorded)]
        assert events == list(range(1, len(events) + 1))


async def test_an_answer_is_heard_from_the_first_turn_on_by_whoever_starts_without_waiting(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    async with service(database_url, [talk]) as served:
        run = await begun(served.client, "talk", "counter")
        begins = tmp_path / WORDS[0]
        begins.touch()
        while begins.exists():  # noqa: ASYNC110 - the model takes it when it says it
            await asyncio.sleep(0.01)
        async with streaming(served.client, events_of(run)) as stream:
            await stream.until_type("run.started")
            for word in WORDS[1:]:
                (tmp_path / word).touch()
            await stream.rest()
    assert "".join(each["text"] for each in stream.deltas) == "".join(WORDS)
