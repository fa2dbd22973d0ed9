"""Routes of events: streams of what happens, in one run or in all of a tenant's."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.auth import Reader, is_still_let_in
from app.api.documented import Responses, answers
from app.api.ids import ID_PATTERN, RunPath, ThreadPath
from app.api.problems import pointing_into
from app.api.served import Served
from app.api.stream import EventStream, frame
from app.domain.event import EventType
from app.domain.run import RunRef
from app.errors import FieldError, Invalid
from app.lifecycle.follow import (
    Heard,
    Place,
    Position,
    Recorded,
    Stream,
    Writing,
    follow_run,
    follow_tenant,
)

router = APIRouter(tags=["events"])

_LAST: Final = "The id of the last event that was received: the stream goes on after it."
_PLACE: Final = r"^\d{1,19}\.(\d{1,18}\." + ID_PATTERN.strip("^$") + ")?$"
_AfterEvent = Annotated[
    str | None, Header(alias="Last-Event-ID", pattern=r"^\d{1,18}$", description=_LAST)
]
_AfterPlace = Annotated[
    str | None, Header(alias="Last-Event-ID", pattern=_PLACE, max_length=200, description=_LAST)
]
_Types = Annotated[
    str | None,
    Query(
        max_length=1000,
        description="Only these, separated by commas; `pause.*` are all that begin so.",
        examples=["pause.*,run.failed"],
    ),
]


def _streams(description: str, *problems: int, also: Responses | None = None) -> Responses:
    documented = answers({200: (schemas.Event, description, ())}, *problems)
    return documented | (also or {})


@router.get(
    "/threads/{thread_id}/runs/{run_id}/events",
    status_code=200,
    response_class=EventStream,
    responses=_streams(
        "The events, each as `event`, `id` and `data`, until the run has ended.",
        404,
        also={204: {"description": "The run has ended, and there is nothing more to tell of it."}},
    ),
)
async def run_events(
    request: Request,
    site: Served,
    caller: Reader,
    thread_id: ThreadPath,
    run_id: RunPath,
    last_event_id: _AfterEvent = None,
) -> Response:
    """Streams what happens in a run, from its beginning until it ends, as server-sent events."""
    run = RunRef(tenant=caller.tenant, thread_id=thread_id, run_id=run_id)
    with pointing_into("/header/last-event-id"):
        stream = await follow_run(site, run, after=int(last_event_id or 0))
    if stream is None:
        return Response(status_code=204, headers={"cache-control": "no-store"})
    return _streamed(request, stream, lambda event: str(event.sequence))


@router.get(
    "/events",
    status_code=200,
    response_class=EventStream,
    responses=_streams("The events, each as `event`, `id` and `data`, as they come."),
)
async def tenant_events(
    request: Request,
    site: Served,
    caller: Reader,
    types: _Types = None,
    last_event_id: _AfterPlace = None,
) -> Response:
    """Streams what happens in all runs, from now on, as server-sent events."""
    wanted = None if types is None else _known(types)
    after = None if last_event_id is None else _place(last_event_id)
    with pointing_into("/header/last-event-id"):
        stream = await follow_tenant(site, caller, after=after, types=wanted)
    return _streamed(request, stream, lambda event: _written(event.place))


def _known(types: str) -> list[str]:
    """The types that are meant; raises `Invalid` where one of them means none."""
    meant: set[str] = set()
    for each in types.split(","):
        name = each.strip()
        family = name[:-1] if name.endswith(".*") else None
        found = {
            one.value for one in EventType if one == name or (family and one.startswith(family))
        }
        if not found:
            known = ", ".join(EventType)
            wrong = FieldError(pointer="/query/types", message=f"known are: {known}")
            raise Invalid("There is no such type of event.", fields=[wrong])
        meant |= found
    return sorted(meant)


def _place(text: str) -> Place:
    transaction, _, rest = text.partition(".")
    sequence, _, thread_id = rest.partition(".")
    return Place(
        transaction=int(transaction), thread_id=thread_id, sequence=int(sequence) if sequence else 0
    )


def _written(place: Place) -> str:
    if not place.thread_id:
        return f"{place.transaction}."
    return f"{place.transaction}.{place.sequence}.{place.thread_id}"


def _streamed(request: Request, stream: Stream, id_of: Callable[[Recorded], str]) -> EventStream:
    return EventStream(
        _frames(stream, id_of),
        heartbeat_seconds=request.app.state.heartbeat_seconds,
        goes_on=partial(is_still_let_in, request),
    )


async def _frames(stream: Stream, id_of: Callable[[Recorded], str]) -> AsyncGenerator[bytes]:
    async with aclosing(stream) as heard:
        async for several in heard:
            yield b"".join(_frame(each, id_of) for each in several)


def _frame(heard: Heard, id_of: Callable[[Recorded], str]) -> bytes:
    match heard:
        case Recorded():
            return frame(heard.type, told(heard), id=id_of(heard))
        case Position(place=place):
            return frame("stream.position", {}, id=_written(place))
        case Writing(run=run, delta=delta):
            where = {"thread_id": run.thread_id, "run_id": run.run_id}
            return frame("model.delta", {"type": "model.delta", "data": {**where, **asdict(delta)}})


def told(event: Recorded) -> dict[str, Any]:
    """An event in the form that webhooks have, too."""
    where = {
        "event_sequence": event.sequence,
        "thread_id": event.thread_id,
        "run_id": event.run_id,
    }
    return {"type": event.type, "timestamp": event.at, "data": {**where, **event.data}}
