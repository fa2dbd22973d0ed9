"""The site that the routes of an application work with."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.lifecycle.site import Site


async def site(request: Request) -> Site:
    """The process's place in the service, as it was given to `application`."""
    return request.app.state.site


Served = Annotated[Site, Depends(site)]
