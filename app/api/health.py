"""Routes for whoever watches the process: whether it lives, whether it can take requests, what it counts."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse
from app.api.auth import Operator
from app.api.documented import Responses, answers
from app.api.problems import NotReady
from app.api.served import Served
from app.lifecycle import observe, read

router = APIRouter(tags=["health"])


_LIVES: Responses = {200: {"model": schemas.Health, "description": "The process lives."}}
_METRICS: Responses = answers({}) | {
    200: {
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "description": "The metrics, in the text format of Prometheus or as OpenMetrics.",
    }
}
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


@router.get("/metrics", response_class=Response, responses=_METRICS)
async def metrics(
    site: Served, _: Operator, accept: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Gives what this process has counted, and what waits in the database."""
    exposed = await observe.exposition(site, accept)
    return Response(exposed.body, media_type=exposed.media_type)
