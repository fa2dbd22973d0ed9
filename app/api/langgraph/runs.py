"""Routes of runs: to start one, or go on with it; to wait for it, listen to it, look at it, and end it."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Final, Literal

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers import JsonResponse, replayed
from app.api.auth import LANGGRAPH, Reader, Starter, is_still_let_in
from app.api.documented import Responses, answers
from app.api.idempotency import OnceOnly
from app.api.ids import RunPath, ThreadPath
from app.api.langgraph import answered, sent
from app.api.langgraph.addresses import joined_at, named, streamed_at
from app.api.langgraph.beginning import SECURITY, StarterOrDecider, begin
from app.api.langgraph.listening import TEXTS, Listening
from app.api.langgraph.shapes import RUN_STATUSES, picked, result_of, run_of
from app.api.problems import pointing_into
from app.api.served import Served
from app.api.stream import EventStream, LateAnswer
from app.api.waiting import whole
from app.domain.principal import Principal
from app.domain.run import SETTLED, RunRef
from app.lifecycle import read
from app.lifecycle.cancel import cancel
from app.lifecycle.follow import follow_run
from app.lifecycle.read import Page, View
from app.lifecycle.site import Site
from app.watching import logs

router = APIRouter(prefix=LANGGRAPH, tags=["langgraph"])

_CONFLICTS: Final = (
    "thread_busy",
    "thread_paused",
    "pause_decided",
    "pause_expired",
    "pause_cancelled",
    "pause_superseded",
    "already_voted",
    "workflow_incompatible",
)
_REFUSALS: Final = (
    "requester_may_not_approve",
    "not_an_approver",
    "token_of_another_pause",
    "may_not_act_as",
)
_WHERE: Final = ("Content-Location", "Location", "Idempotency-Replayed")
_LOOK_AGAIN: Final = 1.0
"""Seconds after which whoever waits sees that the process takes leave."""


def _begins(model: type[BaseModel], words: str) -> Responses:
    """The answers of a route that starts a run, or decides."""
    return answers(
        {200: (model, words, _WHERE)},
        404,
        conflicts=_CONFLICTS,
        refusals=_REFUSALS,
        takes_body=True,
    )


class RunQuery(BaseModel):
    """Which runs are wanted."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=10, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=1_000_000)
    status: Literal["pending", "running", "error", "success", "timeout", "interrupted"] | None = (
        None
    )
    select: list[str] | None = Field(default=None, max_length=100)


class ListenQuery(BaseModel):
    """What is listened to."""

    model_config = ConfigDict(extra="forbid")

    stream_mode: sent.ModesAsked = Field(default=["values"])
    cancel_on_disconnect: str = Field(
        default="false", pattern="^([Ff]alse|0)$", description="A run goes on, whoever listens."
    )


class CancelQuery(BaseModel):
    """How a run is ended."""

    model_config = ConfigDict(extra="forbid")

    wait: bool = Field(default=False, description="It has ended when the answer comes, always.")
    action: Literal["interrupt"] = Field(
        default="interrupt", description="What happened is not undone."
    )


@router.post(
    "/threads/{thread_id}/runs",
    openapi_extra=SECURITY,
    responses=_begins(answered.LangGraphRun, "The run."),
)
async def langgraph_create_run(
    request: Request,
    site: Served,
    caller: StarterOrDecider,
    key: OnceOnly,
    thread_id: ThreadPath,
    body: sent.LangGraphNewRun,
) -> Response:
    """Starts a run, or goes on with the one that waits, and does not wait for it."""
    begun = await whole(begin(request, site, thread_id, body, key, listens=True))
    view = await _shown(site, caller, begun.run)
    return JsonResponse(run_of(view), headers=named(view) | replayed(begun.is_replay))


@router.post(
    "/threads/{thread_id}/runs/wait",
    openapi_extra=SECURITY,
    responses=_begins(answered.LangGraphResult, "What came of it."),
)
async def langgraph_wait_for_new_run(
    request: Request,
    site: Served,
    caller: StarterOrDecider,
    key: OnceOnly,
    thread_id: ThreadPath,
    body: sent.LangGraphNewRun,
) -> Response:
    """Starts a run, or goes on with the one that waits, and answers once it waits or has ended."""
    begun = await whole(begin(request, site, thread_id, body, key))
    view = await _shown(site, caller, begun.run)
    headers = joined_at(view) | replayed(begun.is_replay)
    return _late(request, site, caller, begun.run, headers)


@router.post(
    "/threads/{thread_id}/runs/stream",
    status_code=200,
    response_class=EventStream,
    openapi_extra=SECURITY,
    responses=_begins(answered.LangGraphPart, "Its parts."),
)
async def langgraph_stream_new_run(
    request: Request,
    site: Served,
    caller: StarterOrDecider,
    key: OnceOnly,
    thread_id: ThreadPath,
    body: sent.LangGraphNewRun,
) -> Response:
    """Starts a run, or goes on with the one that waits, and streams it until it waits or has ended."""
    listens = TEXTS in body.stream_mode
    begun = await whole(begin(request, site, thread_id, body, key, listens=listens))
    view = await _shown(site, caller, begun.run)
    headers = streamed_at(view, body.stream_mode) | replayed(begun.is_replay)
    listening = Listening(
        site=site, caller=caller, run=begun.run, modes=body.stream_mode, after=begun.after
    )
    return await _streamed(request, listening, headers, is_new=begun.is_new)


@router.get(
    "/threads/{thread_id}/runs",
    responses=answers({200: (answered.LangGraphRuns, "The runs.", ())}, 404),
)
async def langgraph_list_runs(
    site: Served, caller: Reader, thread_id: ThreadPath, query: Annotated[RunQuery, Query()]
) -> Response:
    """Lists the runs of a thread, newest first."""
    listed = await read.list_runs(
        site,
        caller,
        thread_id,
        Page(limit=query.limit),
        statuses=_ours(query.status),
        offset=query.offset,
    )
    return JsonResponse([picked(run_of(run), query.select) for run in listed.items])


@router.get(
    "/threads/{thread_id}/runs/{run_id}",
    responses=answers({200: (answered.LangGraphRun, "The run.", ())}, 404),
)
async def langgraph_get_run(
    site: Served, caller: Reader, thread_id: ThreadPath, run_id: RunPath
) -> Response:
    """Gives one run."""
    return JsonResponse(run_of(await read.run(site, caller, thread_id, run_id)))


@router.get(
    "/threads/{thread_id}/runs/{run_id}/join",
    responses=answers({200: (answered.LangGraphResult, "What came of it.", _WHERE)}, 404),
)
async def langgraph_join_run(
    request: Request, site: Served, caller: Reader, thread_id: ThreadPath, run_id: RunPath
) -> Response:
    """Answers once a run waits or has ended."""
    view = await read.run(site, caller, thread_id, run_id)
    run = RunRef(tenant=caller.tenant, thread_id=thread_id, run_id=run_id)
    return _late(request, site, caller, run, joined_at(view))


@router.get(
    "/threads/{thread_id}/runs/{run_id}/stream",
    status_code=200,
    response_class=EventStream,
    responses=answers({200: (answered.LangGraphPart, "Its parts.", _WHERE)}, 404),
)
async def langgraph_stream_run(
    request: Request,
    site: Served,
    caller: Reader,
    thread_id: ThreadPath,
    run_id: RunPath,
    query: Annotated[ListenQuery, Query()],
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", pattern=r"^(-1|\d{1,18})?$")] = "",
) -> Response:
    """Streams a run from its beginning, or after a part, until it waits or has ended."""
    view = await read.run(site, caller, thread_id, run_id)
    after = max(0, int(last_event_id or 0))
    run = RunRef(tenant=caller.tenant, thread_id=thread_id, run_id=run_id)
    listening = Listening(site=site, caller=caller, run=run, modes=query.stream_mode, after=after)
    headers = streamed_at(view, query.stream_mode)
    return await _streamed(request, listening, headers, is_new=not after)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/cancel",
    status_code=204,
    responses=answers(
        {204: (None, "It has ended.", ("Idempotency-Replayed",))}, 404, takes_body=True
    ),
)
async def langgraph_cancel_run(
    site: Served,
    caller: Starter,
    key: OnceOnly,
    thread_id: ThreadPath,
    run_id: RunPath,
    query: Annotated[CancelQuery, Query()],
) -> Response:
    """Ends a run, whatever it is doing; one that has ended stays as it is."""
    done = await whole(cancel(site, caller, thread_id, run_id, key=key))
    return Response(status_code=204, headers=replayed(done.is_replay))


async def _shown(site: Site, caller: Principal, run: RunRef) -> View:
    logs.belongs_to(thread_id=run.thread_id, run_id=run.run_id)
    return await read.run(site, caller, run.thread_id, run.run_id)


def _ours(status: str | None) -> list[str] | None:
    if status is None:
        return None
    return [ours for ours, theirs in RUN_STATUSES.items() if theirs == status]


def _late(
    request: Request, site: Site, caller: Principal, run: RunRef, headers: dict[str, str]
) -> Response:
    return LateAnswer(
        _result(site, caller, run),
        heartbeat_seconds=request.app.state.heartbeat_seconds,
        goes_on=partial(is_still_let_in, request),
        headers=headers,
    )


async def _result(site: Site, caller: Principal, run: RunRef) -> AsyncGenerator[bytes]:
    """What came of a run, once it waits or has ended. Breaks off where the process takes leave."""
    with site.waiters.expecting(run.run_id) as woken:
        while True:
            view = await read.settled_run(site, caller, run, woken, seconds=_LOOK_AGAIN)
            if view["status"] in SETTLED:
                yield orjson.dumps(result_of(view))
                return
            if site.followers.is_closed:
                raise ConnectionAbortedError("the process takes leave")


async def _streamed(
    request: Request, listening: Listening, headers: dict[str, str], *, is_new: bool
) -> Response:
    with pointing_into("/header/last-event-id"):
        stream = await follow_run(listening.site, listening.run, after=listening.after)
    return EventStream(
        listening.frames(stream, is_new=is_new),
        heartbeat_seconds=request.app.state.heartbeat_seconds,
        goes_on=partial(is_still_let_in, request),
        headers=headers,
    )
