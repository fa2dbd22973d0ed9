"""What is at the root: the way to the inbox for a browser, and where things are for everybody else."""

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import RedirectResponse, Response

from app.api.answers import JsonResponse

router = APIRouter(include_in_schema=False)

_WHERE = {
    "service": "signoff",
    "inbox": "inbox",
    "openapi": "openapi.json",
    "workflows": "workflows",
    "pauses": "pauses?status=open",
}
"""Relative to where it is read, so that a prefix before the service does not matter."""


@router.api_route("/", methods=["GET", "HEAD"])
async def root(accept: Annotated[str, Header()] = "") -> Response:
    """Sends a browser to the inbox, and tells anybody else where things are."""
    if "text/html" in accept:
        return RedirectResponse("inbox", status_code=307)
    return JsonResponse(_WHERE)
