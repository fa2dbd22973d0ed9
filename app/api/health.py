"""Routes for whoever watches the process: whether it lives, and whether it can take requests."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse
from app.api.documented import Responses
from app.api.problems import NotReady
from app.api.served import Served
from app.lifecycle import read

router = APIRouter(tags=["health"])


_LIVES: Responses = {200: {"model": schemas.Health, "description": "The process lives."}}
_READY: Responses = {
    200: {"model": schemas.Health, "description": "It can take requests."},
    503: {"model": schemas.Problem, "description": "It cannot: `not_ready`; `detail` says why."},
}


@router.get("/livez", responses=_LIVES)
async def livez() -> Response:
    """Says that the process lives, whatever the database does."""
    return JsonResponse({"status": "alive"})


@router.get("/readyz", responses=_READY)
async def readyz(site: Served) -> Response:
    """Says whether Postgres can be reached and has the tables."""
    if reason := await read.why_not_ready(site):
        raise NotReady(f"This process can take no requests: {reason}.")
    return JsonResponse({"status": "ready"})
