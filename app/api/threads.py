"""Routes of threads."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse, replayed
from app.api.auth import Reader, Starter
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import ThreadPath
from app.api.paging import PageQuery, listing
from app.api.served import Served
from app.api.waiting import whole
from app.domain.ids import ThreadId
from app.lifecycle import read, threads
from app.lifecycle.threads import ThreadRequest

router = APIRouter(tags=["threads"])


@router.post(
    "/threads",
    status_code=201,
    responses=answers(
        {201: (schemas.Thread, "The thread.", ("Location", "Idempotency-Replayed"))},
        404,
        conflicts=("thread_exists",),
        takes_body=True,
    ),
)
async def create_thread(
    site: Served, caller: Starter, key: OnceOnly, body: schemas.NewThread | None = None
) -> Response:
    """Makes a thread."""
    asked = body or schemas.NewThread()
    request = ThreadRequest(
        id=ThreadId(asked.id) if asked.id else None,
        workflow=asked.workflow,
        metadata=asked.metadata,
    )
    made = await whole(threads.create(site, caller, request, key=key))
    location = {"Location": f"/threads/{made.thread['id']}"}
    return JsonResponse(made.thread, status=201, headers=location | replayed(made.is_replay))


@router.get(
    "/threads",
    responses=answers({200: (schemas.ThreadList, "A page of threads.", ("Link",))}),
)
async def list_threads(
    request: Request, site: Served, caller: Reader, query: Annotated[PageQuery, Query()]
) -> Response:
    """Lists threads, newest first."""
    return listing(request, await read.list_threads(site, caller, query.page()))


@router.get(
    "/threads/{thread_id}", responses=answers({200: (schemas.Thread, "The thread.", ())}, 404)
)
async def get_thread(site: Served, caller: Reader, thread_id: ThreadPath) -> Response:
    """Gives one thread."""
    return JsonResponse(read.thread_view(await read.thread(site, caller, thread_id)))


@router.delete(
    "/threads/{thread_id}",
    status_code=204,
    responses=answers(
        {204: (None, "It is gone, with all its runs.", ())},
        404,
        conflicts=("thread_busy", "thread_paused"),
    ),
)
async def delete_thread(site: Served, caller: Starter, thread_id: ThreadPath) -> Response:
    """Deletes a thread with all its runs; one with an unfinished run stays."""
    await whole(threads.delete(site, caller, thread_id))
    return Response(status_code=204)
