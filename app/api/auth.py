"""Who makes a request: the one place that says so. While the service is open, it knows nobody."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.domain.principal import Principal


async def principal(request: Request) -> Principal:  # noqa: ARG001, RUF029 - keys are looked at here
    """The caller."""
    return Principal()


Caller = Annotated[Principal, Depends(principal)]
