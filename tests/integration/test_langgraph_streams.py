"""Runs as LangGraph's own clients listen to them: what is told, in which mode, and after a lost line."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from app.authoring import Approval, Workflow
from examples.errands import errands
from tests.langgraph_clients import APPROVE, BY, REJECT, resume, sdk, url_of, waiting
from tests.serving import service
from tests.streams import streaming
from tests.workflows.councils import Council
from tests.workflows.movers import desk, several
from tests.workflows.papers import breaks, waiting_for

ALL = ["values", "updates", "messages-tuple", "custom"]
ERRAND = {"text": "a day off"}


async def parts(stream: AsyncIterator[Any]) -> list[tuple[str, Any]]:
    return [(part.event, part.data) async for part in stream]


def named(told: list[tuple[str, Any]], *names: str) -> list[Any]:
    return [data for name, data in told if name in names]


async def test_a_run_is_streamed_to_its_interrupt_and_from_there_to_its_end(
    database_url: str,
) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        first = await parts(client.runs.stream(id, "council", input="a wall", stream_mode=ALL))
        (about,) = named(first, "metadata")
        begun, waits = named(first, "values")
        (interrupt,) = waits["__interrupt__"]
        assert begun == {"input": "a wall"}
        assert named(first, "updates") == [{"__interrupt__": [interrupt]}]
        assert first[-1] == ("end", None)
        assert named(first, "custom")[-1]["type"] == "run.paused"
        command = resume({interrupt["id"]: APPROVE})
        then = await parts(
            client.runs.stream(id, "council", command=command, metadata=BY, stream_mode=ALL)
        )
        assert named(then, "metadata") == [about]
        assert named(then, "values") == [{"output": "built a wall"}]
        assert named(then, "updates") == [{"clerk": {"output": "built a wall"}}]
        types = [each["type"] for each in named(then, "custom")]
        assert (types[0], types[-1]) == ("pause.decided", "run.completed")
        pieces = named(then, "messages")
        assert "".join(chunk["content"] for chunk, _ in pieces) == "built a wall"
        assert len({chunk["id"] for chunk, _ in pieces}) == 1
        assert {where["langgraph_node"] for _, where in pieces} == {"clerk"}


async def test_what_is_asked_side_by_side_is_told_and_a_vote_that_settles_nothing_ends_the_stream(
    database_url: str,
) -> None:
    asking = Workflow.from_graph("asking", several(), version="1", channels=[desk])
    council = Council(Approval(quorum=2)).workflow
    async with service(database_url, [asking, council]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        given = {"names": ["ann", "bob"]}
        told = await parts(client.runs.stream(id, "asking", input=given, stream_mode="updates"))
        asked = [each for update in named(told, "updates") for each in update["__interrupt__"]]
        assert len({each["id"] for each in asked}) == 2
        answer = {asked[0]["id"]: {"street": "Elm", "number": 1}}
        told = await parts(client.runs.stream(id, "asking", command=resume(answer), metadata=BY))
        (left,) = named(told, "values")
        assert [each["id"] for each in left["__interrupt__"]] == [asked[1]["id"]]
        id, (interrupt,) = await waiting(client, "council", "a wall")
        command = resume({interrupt["id"]: APPROVE})
        told = await parts(client.runs.stream(id, "council", command=command, metadata=BY))
        (open_still,) = named(told, "values")[0]["__interrupt__"]
        assert [vote["by"] for vote in open_still["value"]["signoff"]["votes"]] == ["maria"]


async def test_a_run_that_fails_ends_its_stream_with_the_error(database_url: str) -> None:
    async with service(database_url, [breaks]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        told = await parts(client.runs.stream(id, "breaks", input="x"))
        assert [name for name, _ in told] == ["metadata", "values", "error", "end"]
        assert named(told, "error")[0]["error"] == "step_failed"


async def test_modes_in_which_nothing_true_can_be_told_are_refused(database_url: str) -> None:
    async with service(database_url, [errands]) as served, sdk(served) as client:
        id, _ = await waiting(client, "errands", ERRAND)
        (run,) = await client.runs.list(id)
        for mode in ("events", "debug", "tasks", "checkpoints", "messages", ["values", "events"]):
            for stream in (
                client.runs.stream(id, "errands", input=ERRAND, stream_mode=mode),
                client.runs.join_stream(id, run["run_id"], stream_mode=mode),
            ):
                with pytest.raises(UnprocessableEntityError) as refused:
                    await parts(stream)
                body: Any = refused.value.body
                (wrong,) = body["errors"]
                assert wrong["pointer"] in ("/stream_mode", "/query/stream_mode")
                assert "values, updates, messages-tuple, custom" in wrong["message"]


async def test_a_stream_goes_on_after_the_part_that_was_heard_last(database_url: str) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "council", "a wall")
        (run,) = await client.runs.list(id)
        whole = [
            part async for part in client.runs.join_stream(id, run["run_id"], stream_mode="custom")
        ]
        middle = whole[len(whole) // 2]
        rest = [
            part
            async for part in client.runs.join_stream(
                id, run["run_id"], stream_mode="custom", last_event_id=middle.id
            )
        ]
        heard = [part.data for part in whole if part.event == "custom"]
        again = [part.data for part in rest if part.event == "custom"]
        assert again == heard[heard.index(middle.data) + 1 :]
        assert 0 < len(again) < len(heard)
        await client.runs.wait(
            id, "council", command=resume({interrupt["id"]: REJECT}), metadata=BY
        )
        late = await parts(client.runs.join_stream(id, run["run_id"], last_event_id=whole[-1].id))
        done = (await client.threads.get_state(id))["values"]
        assert named(late, "values") == [done]
        over = await parts(client.runs.join_stream(id, run["run_id"], last_event_id="-1"))
        assert [name for name, _ in over] == ["metadata", "values", "values", "end"]
        with pytest.raises(UnprocessableEntityError):
            await parts(client.runs.join_stream(id, run["run_id"], last_event_id="999999"))


async def test_a_process_that_takes_leave_sends_its_listeners_on_without_an_end(
    database_url: str,
) -> None:
    event = asyncio.Event()
    async with (
        service(database_url, [waiting_for(event)], heartbeat_seconds=0.1) as served,
        sdk(served) as client,
    ):
        id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(id, "waits", input="x")
        path = f"{url_of(served)}/threads/{id}/runs/{run['run_id']}"
        async with streaming(served.client, f"{path}/stream?stream_mode=values") as stream:
            assert stream.response.headers["location"] == (
                f"/threads/{id}/runs/{run['run_id']}/stream?stream_mode=values"
            )
            await stream.until_type("values")
            await stream.until(lambda stream: stream.comments > 0)
            joining = asyncio.create_task(served.client.get(f"{path}/join"))
            await asyncio.sleep(0.2)
            served.site.followers.close()
            told = await stream.rest()
            assert [each.type for each in told] == ["metadata", "values"]
            with pytest.raises(httpx.RemoteProtocolError):
                await joining
        served.site.followers.is_closed = False
        event.set()
        assert await client.runs.join(id, run["run_id"]) == {"output": "waited with x"}
