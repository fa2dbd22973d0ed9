"""Events as the client tells them: typed, each once, over connections that break."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import orjson
import pytest

from signoff_client import (
    AnyEvent,
    AsyncSignoffClient,
    Event,
    ModelDelta,
    NotFound,
    PauseEvent,
    Run,
    RunEvent,
    SignoffClient,
    StepEvent,
    ToolEvent,
    Unreachable,
)
from tests.receivers import Answer, Receiver

RUN = Run.model_construct(id="r", thread_id="t")


def test_a_run_is_followed_from_its_beginning_to_its_end(client: SignoffClient) -> None:
    run = client.start_run("parcels", "ann", wait=30)
    assert run.pause
    client.approve(run.pause, wait=30)

    told = list(client.run_events(run))

    assert [type(each).__name__ for each in told if not isinstance(each, ModelDelta)] == [
        *("RunEvent", "RunEvent", "StepEvent", "ModelAnswered", "PauseEvent", "RunEvent"),
        *("PauseEvent", "RunEvent", "ToolEvent", "ToolEvent"),
        *("ModelAnswered", "StepEvent", "RunEvent"),
    ]
    opened, decided = (each for each in told if isinstance(each, PauseEvent))
    assert (opened.pause_id, opened.kind) == (run.pause.id, "approval")
    assert decided.decision
    assert decided.decision.by == "maria"
    (finished,) = (each for each in told if each.type == "tool.finished")
    assert isinstance(finished, ToolEvent)
    assert (finished.tool, finished.failed) == ("send_parcel", False)
    last = told[-1]
    assert isinstance(last, RunEvent)
    assert last.is_end


def test_why_a_run_failed_is_told(client: SignoffClient) -> None:
    run = client.start_run("errors", "ann", wait=30)
    assert run.pause
    client.act(run.pause, "fail", wait=30)
    *_, last = client.run_events(run)
    assert isinstance(last, RunEvent)
    assert last.error
    assert last.error.code == "step_failed"


def test_who_has_all_events_of_a_run_is_told_none(client: SignoffClient) -> None:
    run = client.start_run("lingers", 0, wait=30)
    *_, last = client.run_events(run)
    assert isinstance(last, Event)
    assert list(client.run_events(run, after=last.id)) == []


def test_a_run_that_never_was_is_not_followed(client: SignoffClient) -> None:
    with pytest.raises(NotFound):
        list(client.run_events(RUN))


async def test_a_run_is_followed_while_it_goes_on(async_client: AsyncSignoffClient) -> None:
    run = await async_client.start_run("confirmations", "ann", wait=0)
    told: list[str] = []
    async for event in async_client.run_events(run):
        told.append(event.type)
        if isinstance(event, PauseEvent) and event.type == "pause.opened":
            await async_client.approve(await async_client.get_pause(event.pause_id))
    assert told[-1] == "run.completed"


async def test_everything_is_followed_from_now_on_and_by_type(
    async_client: AsyncSignoffClient,
) -> None:
    events = async_client.events(types=["run.*"])
    async with asyncio.timeout(60), aclosing(events):
        following = asyncio.ensure_future(anext(events))
        while not following.done():  # until it is heard that there is something to hear
            await async_client.start_run("lingers", 0, wait=30)
            await asyncio.wait([following], timeout=0.1)
        heard = [await following]

        run = await async_client.start_run("lingers", 0, wait=30)
        while (heard[-1].run_id, heard[-1].type) != (run.id, "run.completed"):
            heard.append(await anext(events))
    assert all(isinstance(each, RunEvent) for each in heard)


# ── Streams that break ───────────────────────────────────────────────────────────────────────────────


def told(*events: tuple[str, str | None, dict[str, Any]]) -> Answer:
    frames = [
        f"event: {type}\n"
        + (f"id: {id}\n" if id else "")
        + f"data: {orjson.dumps(_body(type, data)).decode()}\n\n"
        for type, id, data in events
    ]
    return stream("".join(frames))


def _body(type: str, data: dict[str, Any]) -> dict[str, Any]:
    where = {"event_sequence": 1, "thread_id": "t", "run_id": "r"}
    return {"type": type, "timestamp": "2026-01-02T03:04:05Z", "data": {**where, **data}}


def stream(text: str) -> Answer:
    """A stream that is cut after this text."""
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    body = text.encode()
    return Answer(raw=head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")


STEP = {"path": "w/s", "name": "s", "index": 0}
END = told(("run.completed", "3", {}))


async def heard_from(
    *answers: Answer, retries: int = 4
) -> tuple[list[AnyEvent], Sequence[dict[str, str]]]:
    """What the client that waits tells of a run, and with which headers it asked."""
    async with Receiver(*answers) as server:
        with SignoffClient(f"http://127.0.0.1:{server.port}", retries=retries) as client:
            heard = await asyncio.to_thread(lambda: list(client.run_events(RUN)))
    return heard, [dict(each.headers) for each in server.received]


async def test_a_stream_that_broke_goes_on_where_it_was() -> None:
    heard, asked = await heard_from(
        told(("run.started", "1", {}), ("step.started", "2", STEP)),
        Answer(status=503, headers={"retry-after": "0"}),
        stream(":\n\n"),
        END,
    )
    assert [each.type for each in heard] == ["run.started", "step.started", "run.completed"]
    assert [each.get("last-event-id") for each in asked] == [None, "2", "2", "2"]


async def test_an_async_stream_that_broke_goes_on_too() -> None:
    async with (
        Receiver(told(("step.started", "2", STEP)), END) as server,
        AsyncSignoffClient(f"http://127.0.0.1:{server.port}") as client,
    ):
        heard = [each.type async for each in client.run_events(RUN)]
    assert heard == ["step.started", "run.completed"]
    assert [each.headers.get("last-event-id") for each in server.received] == [None, "2"]


async def test_pieces_of_text_have_no_id_and_leave_the_last_one_as_it_is() -> None:
    delta = {"path": "w/s", "agent": "a", "turn": 0, "offset": 0, "text": "well,\u2028you\x85"}
    heard, asked = await heard_from(
        told(("step.started", "2", STEP), ("model.delta", None, delta)), END
    )
    assert isinstance(heard[0], StepEvent)
    assert isinstance(heard[1], ModelDelta)
    assert heard[1].text == "well,\u2028you\x85"
    assert asked[1]["last-event-id"] == "2"


async def test_half_an_event_is_none() -> None:
    half = stream('event: step.started\nid: 2\ndata: {"type": "step.st')
    heard, asked = await heard_from(half, END)
    assert [each.type for each in heard] == ["run.completed"]
    assert "last-event-id" not in asked[1]


async def test_what_a_newer_service_tells_is_passed_on() -> None:
    heard, _ = await heard_from(told(("weather.changed", "2", {"sky": "blue"})), END)
    first = heard[0]
    assert type(first) is Event
    assert (first.type, first.model_extra) == ("weather.changed", {"sky": "blue"})


async def test_a_stream_that_never_comes_is_given_up() -> None:
    with pytest.raises(Unreachable):
        await heard_from(Answer(raw=b" "), retries=1)
