"""Routes of threads and of their states."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app.api.answers import JsonResponse, replayed
from app.api.auth import LANGGRAPH, Reader, Starter
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import CheckpointPath, ThreadPath, is_id
from app.api.langgraph import answered, sent
from app.api.langgraph.shapes import THREAD_STATUSES, empty_state, picked, state_of, thread_of
from app.api.served import Served
from app.api.waiting import whole
from app.domain.ids import RunId, ThreadId
from app.domain.principal import Principal
from app.lifecycle import read, threads
from app.lifecycle.read import Page, Position, ThreadFilter, View
from app.lifecycle.site import Site
from app.lifecycle.threads import ThreadExists, ThreadRequest

router = APIRouter(prefix=LANGGRAPH, tags=["langgraph"])

_THREAD = {200: (answered.LangGraphThread, "The thread.", ())}
_STATE = {200: (answered.LangGraphState, "The state.", ())}
_Select = Annotated[list[str] | None, Field(max_length=100)]


class ThreadQuery(BaseModel):
    """How a thread is wanted."""

    model_config = ConfigDict(extra="forbid")

    include: str | None = Field(default=None, pattern="^(ttl)?$", description="There is no `ttl`.")


class StateQuery(BaseModel):
    """How a state is wanted."""

    model_config = ConfigDict(extra="forbid")

    subgraphs: bool = Field(default=False, description="There are none to be seen.")
    select: _Select = None


@router.post(
    "/threads",
    responses=answers(
        {200: (answered.LangGraphThread, "The thread.", ("Idempotency-Replayed",))},
        404,
        conflicts=("thread_exists",),
        takes_body=True,
    ),
)
async def langgraph_create_thread(
    site: Served, caller: Starter, key: OnceOnly, body: sent.LangGraphNewThread
) -> Response:
    """Makes a thread, or gives the one of that id, where that will do."""
    id = ThreadId(body.thread_id) if body.thread_id else None
    request = ThreadRequest(id=id, metadata=body.metadata or {})
    try:
        made = await whole(threads.create(site, caller, request, key=key))
    except ThreadExists:
        if id is None or body.if_exists != "do_nothing":
            raise
        return await _thread(site, caller, id)
    shown = thread_of({**made.thread, "run": None})
    return JsonResponse(shown, headers=replayed(made.is_replay))


@router.get("/threads/{thread_id}", responses=answers(_THREAD, 404))
async def langgraph_get_thread(
    site: Served, caller: Reader, thread_id: ThreadPath, query: Annotated[ThreadQuery, Query()]
) -> Response:
    """Gives one thread, with the state of its newest run."""
    return await _thread(site, caller, thread_id)


@router.patch(
    "/threads/{thread_id}",
    responses=answers({**_THREAD, 204: (None, "It is done.", ())}, 404, takes_body=True),
)
async def langgraph_update_thread(
    site: Served,
    caller: Starter,
    thread_id: ThreadPath,
    body: sent.LangGraphThreadPatch,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Adds to the metadata of a thread; a key that is there gets the new value."""
    await whole(threads.add_metadata(site, caller, thread_id, body.metadata))
    if "return=minimal" in prefer.replace(" ", ""):
        return Response(status_code=204)
    return await _thread(site, caller, thread_id)


@router.delete(
    "/threads/{thread_id}",
    status_code=204,
    responses=answers(
        {204: (None, "It is gone, with all its runs.", ())},
        404,
        conflicts=("thread_busy", "thread_paused"),
    ),
)
async def langgraph_delete_thread(site: Served, caller: Starter, thread_id: ThreadPath) -> Response:
    """Deletes a thread with all its runs; one with an unfinished run stays."""
    await whole(threads.delete(site, caller, thread_id))
    return Response(status_code=204)


@router.post(
    "/threads/search",
    responses=answers({200: (answered.LangGraphThreads, "Those found.", ())}, takes_body=True),
)
async def langgraph_search_threads(
    site: Served, caller: Reader, body: sent.LangGraphThreadSearch
) -> Response:
    """Looks for threads, the newest first where nothing else is said."""
    found = await read.find_threads(site, caller, _filter(body))
    return JsonResponse([picked(thread_of(each), body.select) for each in found])


@router.post(
    "/threads/count",
    responses=answers({200: (answered.LangGraphCount, "The number.", ())}, takes_body=True),
)
async def langgraph_count_threads(
    site: Served, caller: Reader, body: sent.LangGraphThreadCount
) -> Response:
    """Counts threads."""
    metadata, last = body.metadata or {}, _last(body.status)
    return JsonResponse(await read.count_threads(site, caller, metadata=metadata, last=last))


@router.get("/threads/{thread_id}/state", responses=answers(_STATE, 404))
async def langgraph_get_state(
    site: Served, caller: Reader, thread_id: ThreadPath, query: Annotated[StateQuery, Query()]
) -> Response:
    """Gives the state of a thread: that of its newest run."""
    return JsonResponse(picked(await _newest_state(site, caller, thread_id), query.select))


@router.get("/threads/{thread_id}/state/{checkpoint_id}", responses=answers(_STATE, 404))
async def langgraph_get_state_at(
    site: Served,
    caller: Reader,
    thread_id: ThreadPath,
    checkpoint_id: CheckpointPath,
    query: Annotated[StateQuery, Query()],
) -> Response:
    """Gives the state of a run, by the run's id."""
    run = await read.run(site, caller, thread_id, checkpoint_id)
    return JsonResponse(picked(state_of(run), query.select))


@router.post(
    "/threads/{thread_id}/state/checkpoint", responses=answers(_STATE, 404, takes_body=True)
)
async def langgraph_get_state_of_checkpoint(
    site: Served, caller: Reader, thread_id: ThreadPath, body: sent.LangGraphStateRequest
) -> Response:
    """Gives the state that a checkpoint names, which has the id of its run."""
    id = body.checkpoint.checkpoint_id
    if id is None:
        return JsonResponse(picked(await _newest_state(site, caller, thread_id), body.select))
    run = await read.run(site, caller, thread_id, _run_id(id))
    return JsonResponse(picked(state_of(run), body.select))


@router.post(
    "/threads/{thread_id}/history",
    responses=answers({200: (answered.LangGraphStates, "The states.", ())}, 404, takes_body=True),
)
async def langgraph_get_history(
    site: Served, caller: Reader, thread_id: ThreadPath, body: sent.LangGraphHistoryRequest
) -> Response:
    """Lists the states of a thread, newest first: one for each run, as it is or was left."""
    before = (
        body.before.checkpoint_id
        if isinstance(body.before, sent.LangGraphCheckpoint)
        else body.before
    )
    after = await _place(site, caller, thread_id, before) if before else None
    page = Page(limit=body.limit, after=after)
    listed = await read.list_runs(site, caller, thread_id, page)
    return JsonResponse([picked(state_of(run), body.select) for run in listed.items])


async def _thread(site: Site, caller: Principal, thread_id: ThreadId) -> JsonResponse:
    return JsonResponse(thread_of(await read.thread_and_run(site, caller, thread_id)))


async def _newest_state(site: Site, caller: Principal, thread_id: ThreadId) -> View:
    found = await read.thread_and_run(site, caller, thread_id)
    return state_of(found["run"]) if found["run"] else empty_state(found)


async def _place(site: Site, caller: Principal, thread_id: ThreadId, id: str) -> Position:
    """Where in the list of runs one of them is."""
    run = await read.run(site, caller, thread_id, _run_id(id))
    return Position(at=datetime.fromisoformat(run["created_at"]), id=run["id"])


def _run_id(id: str) -> RunId:
    if not is_id(id):
        raise read.RunNotFound("There is no such run in this thread.")
    return RunId(id)


def _filter(wanted: sent.LangGraphThreadSearch) -> ThreadFilter:
    return ThreadFilter(
        limit=wanted.limit,
        offset=wanted.offset,
        ids=wanted.ids,
        metadata=wanted.metadata or {},
        last=_last(wanted.status),
        order={"thread_id": "id", "created_at": "created_at"}.get(wanted.sort_by, "updated_at"),
        newest_first=wanted.sort_order == "desc",
    )


def _last(status: str | None) -> list[str | None] | None:
    """The statuses of a newest run with which a thread has such a status."""
    if status is None:
        return None
    return [ours for ours, theirs in THREAD_STATUSES.items() if theirs == status]
