"""Routes of pauses: the inbox, across all runs."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse, replayed
from app.api.auth import Operator, Reader
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import ID_PATTERN, PausePath
from app.api.paging import PageQuery, listing
from app.api.served import Served
from app.api.waiting import whole
from app.domain.audit import API
from app.domain.pause import PauseKind, PauseLevel, PauseStatus
from app.lifecycle import read
from app.lifecycle.extend import extend

router = APIRouter(tags=["pauses"])


class PauseQuery(PageQuery):
    """Which pauses are wanted: those that have all of these."""

    status: PauseStatus | None = None
    kind: PauseKind | None = None
    level: PauseLevel | None = None
    workflow: str | None = Field(default=None, pattern=ID_PATTERN)
    channel: str | None = Field(default=None, pattern=ID_PATTERN)
    thread_id: str | None = Field(default=None, pattern=ID_PATTERN)
    run_id: str | None = Field(default=None, pattern=ID_PATTERN)


@router.get(
    "/pauses", responses=answers({200: (schemas.PauseList, "A page of pauses.", ("Link",))})
)
async def list_pauses(
    request: Request, site: Served, caller: Reader, query: Annotated[PauseQuery, Query()]
) -> Response:
    """Lists pauses over all runs, the longest waiting first."""
    filters = query.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    return listing(request, await read.list_pauses(site, caller, filters, query.page()))


@router.get("/pauses/{pause_id}", responses=answers({200: (schemas.Pause, "The pause.", ())}, 404))
async def get_pause(site: Served, caller: Reader, pause_id: PausePath) -> Response:
    """Gives one pause. Looking at it decides nothing."""
    return JsonResponse(await read.pause(site, caller, pause_id))


@router.post(
    "/pauses/{pause_id}/extend",
    responses=answers(
        {200: (schemas.Pause, "The pause with its new deadline.", ("Idempotency-Replayed",))},
        404,
        conflicts=(
            "pause_decided",
            "pause_expired",
            "pause_cancelled",
            "pause_superseded",
            "no_deadline",
        ),
        takes_body=True,
    ),
)
async def extend_pause(
    site: Served, caller: Operator, key: OnceOnly, pause_id: PausePath, body: schemas.Extension
) -> Response:
    """Moves the deadline of an open pause, with the reminder and the escalation before it."""
    work = extend(site, caller, pause_id, body.expires_at, via=API, key=key)
    done = await whole(work)
    pause = await read.pause(site, caller, pause_id)
    return JsonResponse(pause, headers=replayed(done.is_replay))
