"""Who makes a request, and whether they may: the one place that says so, for every route.

    Authorization: Bearer … ─► Authentication: 401, or the principal; before anything else of the request is read
    caller: Reader          ─► the scope that the route needs: 403, or the principal

Whoever is let in sees the rows of their tenant alone: every use case takes the principal.
"""

import time
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Final

from fastapi import Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asgi

from app.api.access import REQUEST_ID
from app.api.problems import BadCredential, NotSignedIn, problem_of
from app.api.tokens import Tokens, is_token
from app.domain.principal import Principal, Scope
from app.errors import Forbidden, SignoffError
from app.lifecycle import api_keys
from app.lifecycle.api_keys import Holder
from app.lifecycle.replies import is_reply_token
from app.lifecycle.site import Site

REMEMBERED_SECONDS: Final = 5.0
"""How long a credential is taken for good without looking: within this time a revoked one is refused."""

_REMEMBERED_AT_MOST: Final = 10_000
_LONGEST: Final = 16 * 1024
_PRINCIPAL: Final = "signoff.principal"
"""Where a request's scope has who makes it."""

_PUBLIC: Final = {"/livez", "/readyz", "/openapi.json", "/inbox"}
"""What is answered to anybody: nothing of any tenant."""


MAX_CLIENT = 64
"""Characters of an address; a proxy may pass anything on."""


class MissingScope(Forbidden):
    """The credential is good, but not for this."""

    code = "missing_scope"


@dataclass(frozen=True, kw_only=True)
class _Known:
    principal: Principal
    until: float


class SignIn:
    """Knows the holders of credentials: looks once, and remembers for a short while."""

    def __init__(self, site: Site, tokens: Tokens | None = None) -> None:
        self._site = site
        self._tokens = tokens
        self._known: dict[bytes, _Known] = {}

    async def principal_of(self, authorization: str | None) -> Principal:
        """Who sends an `Authorization` header. Raises `NotSignedIn`, `BadCredential`."""
        if self._site.is_open and not _shows_reply_token(authorization):
            return Principal()
        credential = _bearer(authorization)
        digest = sha256(credential.encode()).digest()
        known = self._known.get(digest)
        if known and time.monotonic() < known.until:
            return known.principal
        self._known.pop(digest, None)
        holder = await self._holder_of(credential)
        if holder is None:
            raise BadCredential("The credential is not known here, or not good any more.")
        self._remember(digest, holder)
        return holder.principal

    async def _holder_of(self, credential: str) -> Holder | None:
        """The one place where credentials are told apart, by their form."""
        if api_keys.is_key(credential):
            return await api_keys.holder_of(self._site.database, credential)
        if is_reply_token(credential):
            channel = await self._site.replies.holder_of(self._site.database, credential)
            return channel and Holder(principal=channel, seconds_left=None)
        if self._tokens and is_token(credential):
            return await self._tokens.holder_of(credential)
        return None

    def _remember(self, digest: bytes, holder: Holder) -> None:
        if len(self._known) >= _REMEMBERED_AT_MOST:
            self._known.clear()
        left = REMEMBERED_SECONDS if holder.seconds_left is None else holder.seconds_left
        until = time.monotonic() + min(REMEMBERED_SECONDS, left)
        self._known[digest] = _Known(principal=holder.principal, until=until)


def _shows_reply_token(authorization: str | None) -> bool:
    """While the service is open everything else is ignored: whoever has such a token wants to use it."""
    _, _, credential = (authorization or "").strip().partition(" ")
    return is_reply_token(credential.strip())


def _bearer(authorization: str | None) -> str:
    if authorization is None:
        raise NotSignedIn("Say who you are: send a key, as Authorization: Bearer.")
    kind, _, credential = authorization.strip().partition(" ")
    if kind.lower() != "bearer" or not credential.strip() or len(credential) > _LONGEST:
        raise BadCredential("The Authorization header has no credential of the kind Bearer.")
    return credential.strip()


class Unasked:
    """For a port that only those who watch can reach: whoever comes there may do everything that is there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        scope[_PRINCIPAL] = Principal()
        await self._app(scope, receive, send)


class Authentication:
    """Pure ASGI, so that it costs next to nothing."""

    def __init__(self, app: ASGIApp, *, sign_in: SignIn) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_public(scope["path"]):
            try:
                principal = await self._sign_in.principal_of(_authorization(scope))
                scope[_PRINCIPAL] = _coming_by(principal, scope)
            except SignoffError as error:
                await problem_of(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _coming_by(principal: Principal, scope: Asgi) -> Principal:
    """The principal, with where this request of theirs comes from."""
    client = scope.get("client")
    return replace(
        principal,
        client=client and client[0][:MAX_CLIENT],
        request_id=scope.get(REQUEST_ID),
    )


def _is_public(path: str) -> bool:
    return path in _PUBLIC or path.startswith("/inbox/")


def _authorization(scope: Asgi) -> str | None:
    """The header; several of them are no credential of anybody."""
    found = [
        value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"
    ]
    return ",".join(found) if found else None


def principal_in(scope: Asgi) -> Principal:
    """Who makes a request. Raises `NotSignedIn` where nobody was asked who they are."""
    principal = scope.get(_PRINCIPAL)
    if not isinstance(principal, Principal):
        raise NotSignedIn("Say who you are: send a key, as Authorization: Bearer.")
    return principal


class Needs(SecurityBase):
    """A dependency that gives the caller, if their credential has a scope. Raises `MissingScope`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.scheme_name = "bearer"
        self.model = HTTPBearer(description="An API key, or a JWT of the issuer that is set up.")

    async def __call__(self, request: Request) -> Principal:
        principal = principal_in(request.scope)
        if not principal.may(self.scope):
            raise MissingScope(f"This needs the scope {self.scope}.", scope=self.scope)
        return principal


Reader = Annotated[Principal, Security(Needs(Scope.RUNS_READ), scopes=[Scope.RUNS_READ])]
Starter = Annotated[Principal, Security(Needs(Scope.RUNS_WRITE), scopes=[Scope.RUNS_WRITE])]
Decider = Annotated[
    Principal, Security(Needs(Scope.DECISIONS_WRITE), scopes=[Scope.DECISIONS_WRITE])
]
Courier = Annotated[Principal, Security(Needs(Scope.DELIVERIES), scopes=[Scope.DELIVERIES])]
Auditor = Annotated[Principal, Security(Needs(Scope.AUDIT), scopes=[Scope.AUDIT])]
Operator = Annotated[Principal, Security(Needs(Scope.ADMIN), scopes=[Scope.ADMIN])]
