"""Routes by which a browser signs in and out: a key or a token becomes a cookie that scripts cannot read."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api import cookie, schemas
from app.api.aims import Aim
from app.api.answers import JsonResponse
from app.api.auth import SESSION, SignIn, principal_in, turn_away
from app.api.documented import answers
from app.api.problems import BadCredential
from app.api.served import Served
from app.domain.principal import Principal
from app.errors import Conflict

router = APIRouter(tags=["session"])


class NobodyIsAsked(Conflict):
    """The service is open: there is nothing to sign in to."""

    code = "service_is_open"


async def _sign_in(request: Request) -> SignIn:
    return request.app.state.sign_in


Doorkeeper = Annotated[SignIn, Depends(_sign_in)]


@router.post(
    SESSION,
    status_code=201,
    responses=answers(
        {201: (schemas.Session, "Who has signed in; the cookie comes with it.", ())},
        conflicts=("service_is_open",),
        refusals=("cross_site_request",),
        takes_body=True,
    ),
)
async def begin_session(
    request: Request, site: Served, door: Doorkeeper, body: schemas.SignIn
) -> Response:
    """Signs a browser in: gives it a cookie that is good for what the key or token is good for, a week at most."""
    cookie.check_own(request.scope)
    if site.is_open:
        raise NobodyIsAsked("The service is open: nobody is asked for a key.")
    try:
        principal, session = await door.begin_session(body.credential)
    except BadCredential as error:
        await turn_away(site, request.scope, Aim(route=SESSION, ids={}), error)
        raise
    response = JsonResponse(_view(principal, is_open=False), status=201)
    cookie.give(response, session, request.scope)
    return response


@router.get(
    SESSION,
    responses=answers({200: (schemas.Session, "Who asks.", ())}, refusals=("cross_site_request",)),
    openapi_extra={"security": [{"bearer": []}]},
)
async def get_session(request: Request, site: Served) -> Response:
    """Says who asks and what they may do, whether they are known by a cookie, a key or a token."""
    return JsonResponse(_view(principal_in(request.scope), is_open=site.is_open))


@router.delete(
    SESSION,
    status_code=204,
    responses=answers({204: (None, "Signed out.", ())}, refusals=("cross_site_request",)),
)
async def end_session(request: Request, door: Doorkeeper) -> Response:
    """Signs a browser out, if it is signed in."""
    secret = cookie.session_in(request.scope)
    if secret:
        await door.end_session(secret)
    response = Response(status_code=204)
    cookie.take_back(response, request.scope)
    return response


def _view(principal: Principal, *, is_open: bool) -> dict[str, object]:
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "groups": sorted(principal.groups),
        "scopes": sorted(principal.scopes),
        "is_open": is_open,
    }
