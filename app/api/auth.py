"""Who makes a request: the one place that says so. While the service is open, it knows nobody."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.api.access import REQUEST_ID
from app.domain.principal import Principal

MAX_CLIENT = 64
"""Characters of an address; a proxy may pass anything on."""


async def principal(request: Request) -> Principal:
    """The caller."""
    return Principal(
        client=request.client and request.client.host[:MAX_CLIENT],
        request_id=request.scope.get(REQUEST_ID),
    )


Caller = Annotated[Principal, Depends(principal)]
