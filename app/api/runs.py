"""Routes of runs."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse, replayed
from app.api.auth import Reader, Starter
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import RunPath, ThreadPath, is_id
from app.api.paging import PageQuery, listing
from app.api.problems import pointing_into
from app.api.served import Served
from app.api.waiting import Waiting, accepted, looked_at, whole
from app.domain.ids import ThreadId, new_run_id
from app.domain.json import Json
from app.domain.principal import Principal
from app.domain.run import RunRef
from app.errors import FieldError, Invalid
from app.lifecycle import read
from app.lifecycle.callback import check_callback
from app.lifecycle.cancel import cancel
from app.lifecycle.start import StartRequest, ThreadNotFound, start

router = APIRouter(tags=["runs"])

_WAITED = ("Preference-Applied", "Idempotency-Replayed")
_PENDING = (
    schemas.Run,
    "The run, which is still going on.",
    ("Location", "Retry-After", *_WAITED),
)


@router.post(
    "/threads/{thread_id}/runs",
    status_code=201,
    responses=answers(
        {
            201: (
                schemas.Run,
                "The run, settled: paused or ended, failed ones too.",
                ("Location", *_WAITED),
            ),
            202: _PENDING,
        },
        404,
        conflicts=("thread_busy", "thread_paused"),
        takes_body=True,
    ),
)
async def start_run(
    site: Served,
    caller: Starter,
    key: OnceOnly,
    patience: Waiting,
    thread_id: Annotated[ThreadId, Path(description="The thread.")],
    body: schemas.NewRun,
) -> Response:
    """Starts a run and waits until it is settled: paused or ended."""
    request = _start_request(caller, thread_id, body)
    work = start(site, caller, request, run_id=new_run_id(), key=key)
    return await accepted(site, caller, work, patience, status=201)


def _start_request(caller: Principal, thread_id: ThreadId, body: schemas.NewRun) -> StartRequest:
    creates = body.if_not_exists == "create"
    if not is_id(thread_id):
        raise _no_thread(creates=creates)
    return StartRequest(
        thread_id=thread_id,
        workflow=body.workflow,
        input=body.input,
        metadata=body.metadata,
        callback=_callback(body.callback),
        creates=creates,
        supersedes=body.if_paused == "supersede",
        requested_by=caller.name,
        origin=caller.origin,
    )


def _no_thread(*, creates: bool) -> Invalid | ThreadNotFound:
    if not creates:
        return ThreadNotFound("There is no thread of that id.")
    wrong = FieldError(
        pointer="/path/thread_id",
        message="must be 1 to 128 of the letters A to Z, digits, '_', '.', ':' and '-', none of the last four first",
    )
    return Invalid("A thread cannot have that id.", fields=[wrong])


def _callback(callback: schemas.Callback | None) -> Json:
    if callback is None:
        return None
    with pointing_into("/callback"):
        return check_callback(callback.url, callback.secret)


@router.get(
    "/threads/{thread_id}/runs",
    responses=answers({200: (schemas.RunList, "A page of runs.", ("Link",))}, 404),
)
async def list_runs(
    request: Request,
    site: Served,
    caller: Reader,
    thread_id: ThreadPath,
    query: Annotated[PageQuery, Query()],
) -> Response:
    """Lists the runs of a thread, newest first."""
    return listing(request, await read.list_runs(site, caller, thread_id, query.page()))


@router.get(
    "/threads/{thread_id}/runs/{run_id}",
    responses=answers(
        {200: (schemas.Run, "The run.", ("Preference-Applied",)), 202: _PENDING}, 404
    ),
)
async def get_run(
    site: Served, caller: Reader, thread_id: ThreadPath, run_id: RunPath, patience: Waiting
) -> Response:
    """Gives one run as it is; with `Prefer: wait=N`, once it is settled, and with 202 if it is not by then."""
    run = RunRef(tenant=caller.tenant, thread_id=thread_id, run_id=run_id)
    return await looked_at(site, caller, run, patience)


@router.post(
    "/threads/{thread_id}/runs/{run_id}/cancel",
    responses=answers(
        {200: (schemas.Run, "The run, ended.", ("Idempotency-Replayed",))}, 404, takes_body=True
    ),
)
async def cancel_run(
    site: Served,
    caller: Starter,
    key: OnceOnly,
    thread_id: ThreadPath,
    run_id: RunPath,
    body: schemas.Empty | None = None,
) -> Response:
    """Cancels a run, whatever it is doing; one that has ended is answered unchanged."""
    done = await whole(cancel(site, caller, thread_id, run_id, key=key))
    view = await read.run(site, caller, thread_id, run_id)
    return JsonResponse(view, headers=replayed(done.is_replay))
