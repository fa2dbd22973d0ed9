"""Who makes a request, and whether they may: the one place that says so, for every route.

    Authorization: Bearer … ─► Authentication: 401, or the principal; before anything else of the request is read
    a session's cookie      ─► the same, for requests of the inbox's own page alone
    caller: Reader          ─► the scope that the route needs: 403, or the principal

Whoever is let in sees the rows of their tenant alone: every use case takes the principal.
"""

import time
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Final, NoReturn

from fastapi import Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asgi

from app.api.access import REQUEST_ID
from app.api.aims import Aim, Aims, ids_in
from app.api.cookie import session_in
from app.api.problems import PRINCIPAL, BadCredential, NotSignedIn, problem_of
from app.api.tokens import Tokens, is_token
from app.domain.json import Json
from app.domain.principal import Flaw, Holder, Lapsed, Principal, Scope
from app.errors import Forbidden, SignoffError
from app.lifecycle import api_keys, sessions
from app.lifecycle.refusals import Denied
from app.lifecycle.replies import is_reply_token
from app.lifecycle.sessions import BegunSession
from app.lifecycle.site import Site
from app.watching import logs

REMEMBERED_SECONDS: Final = 5.0
"""How long a credential is taken for good without looking: within this time a revoked one is refused."""

_REMEMBERED_AT_MOST: Final = 10_000
_LONGEST: Final = 16 * 1024
_PUBLIC: Final = {"/", "/livez", "/readyz", "/openapi.json", "/inbox"}
"""What is answered to anybody: nothing of any tenant."""


SESSION: Final = "/session"
"""Where one signs in and out."""

LANGGRAPH: Final = "/langgraph"
"""Where LangGraph's clients come, who send a key in a header of their own."""

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

    async def principal_of(self, scope: Asgi) -> Principal:
        """Who the header of a request says it is, else who the cookie says.

        Raises `NotSignedIn`, `BadCredential`, `CrossSite`.
        """
        authorization = _authorization(scope)
        if self._site.is_open and not _shows_reply_token(authorization):
            return Principal()
        if authorization is None and (secret := session_in(scope)):
            return await self._known_by(secret)
        return await self._known_by(_bearer(authorization))

    async def begin_session(self, credential: str) -> tuple[Principal, BegunSession]:
        """Begins a session of whoever holds a key or a token. Raises `BadCredential`."""
        is_lasting = api_keys.is_key(credential) or is_token(credential)
        holder = _good(await self._holder_of(credential) if is_lasting else None)
        return holder.principal, await sessions.begin(self._site.database, holder)

    async def end_session(self, secret: str) -> None:
        """Ends a session: here at once, in other processes within `REMEMBERED_SECONDS`."""
        await sessions.end(self._site.database, secret)
        self._known.pop(_digest(secret), None)

    async def _known_by(self, credential: str) -> Principal:
        digest = _digest(credential)
        known = self._known.get(digest)
        if known and time.monotonic() < known.until:
            return known.principal
        self._known.pop(digest, None)
        holder = _good(await self._holder_of(credential))
        self._remember(digest, holder)
        return holder.principal

    async def _holder_of(self, credential: str) -> Holder | Lapsed | None:
        """The one place where credentials are told apart, by their form."""
        if sessions.is_session(credential):
            return await sessions.holder_of(self._site.database, credential)
        if api_keys.is_key(credential):
            return await api_keys.holder_of(self._site.database, credential)
        if is_reply_token(credential):
            return await self._site.replies.holder_of(self._site.database, credential)
        if self._tokens and is_token(credential):
            return await self._tokens.holder_of(credential)
        return None

    def _remember(self, digest: bytes, holder: Holder) -> None:
        if len(self._known) >= _REMEMBERED_AT_MOST:
            self._known.clear()
        left = REMEMBERED_SECONDS if holder.seconds_left is None else holder.seconds_left
        until = time.monotonic() + min(REMEMBERED_SECONDS, left)
        self._known[digest] = _Known(principal=holder.principal, until=until)


_NOT_GOOD: Final = "The credential is not known here, or not good any more."


def _good(found: Holder | Lapsed | None) -> Holder:
    match found:
        case Holder():
            return found
        case Lapsed(principal=principal, flaw=flaw):
            raise BadCredential(_NOT_GOOD, flaw=flaw, holder=principal)
        case None:
            raise BadCredential(_NOT_GOOD, flaw=Flaw.UNKNOWN)


def _digest(credential: str) -> bytes:
    return sha256(credential.encode()).digest()


def _shows_reply_token(authorization: str | None) -> bool:
    """While the service is open everything else is ignored: whoever has such a token wants to use it."""
    _, _, credential = (authorization or "").strip().partition(" ")
    return is_reply_token(credential.strip())


def _bearer(authorization: str | None) -> str:
    if authorization is None:
        raise NotSignedIn("Say who you are: send a key, as Authorization: Bearer.")
    kind, _, credential = authorization.strip().partition(" ")
    credential = credential.strip()
    if kind.lower() != "bearer" or not credential or len(credential) > _LONGEST:
        raise BadCredential(
            "The Authorization header has no credential of the kind Bearer.", flaw=Flaw.MALFORMED
        )
    if sessions.is_session(credential):
        raise BadCredential("A session is good in its cookie alone.", flaw=Flaw.MALFORMED)
    return credential


class Unasked:
    """For a port that only those who watch can reach: whoever comes there may do everything that is there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        scope[PRINCIPAL] = Principal()
        await self._app(scope, receive, send)


class Authentication:
    """Pure ASGI, so that it costs next to nothing."""

    def __init__(self, app: ASGIApp, *, site: Site, sign_in: SignIn, aims: Aims) -> None:
        self._app = app
        self._site = site
        self._sign_in = sign_in
        self._aims = aims

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_public(scope):
            try:
                principal = await self._sign_in.principal_of(scope)
                scope[PRINCIPAL] = _coming_by(principal, scope)
            except SignoffError as error:
                if isinstance(error, BadCredential):
                    await turn_away(self._site, scope, self._aims.of(scope["path"]), error)
                await problem_of(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def turn_away(site: Site, scope: Asgi, aim: Aim, error: BadCredential) -> None:
    """Logs, counts and records whom one cannot let in; of strangers there is no record."""
    logs.belongs_to(why=error.flaw)
    site.metrics.turned_away(error.code, error.flaw)
    if error.holder:
        logs.belongs_to(by=error.holder.name, credential=error.holder.credential)
        holder = _coming_by(error.holder, scope)
        await _deny(site, holder, scope, aim, error, {"why": error.flaw})


async def _deny(
    site: Site,
    principal: Principal,
    scope: Asgi,
    aim: Aim,
    error: SignoffError,
    why: dict[str, Json],
) -> None:
    """Records what a known credential was not good for."""
    denied = Denied(code=error.code, why=why, method=scope["method"], route=aim.route, ids=aim.ids)
    await site.refusals.note(site.database, principal, denied)


def _coming_by(principal: Principal, scope: Asgi) -> Principal:
    """The principal, with where this request of theirs comes from."""
    client = scope.get("client")
    return replace(
        principal,
        client=client and client[0][:MAX_CLIENT],
        request_id=scope.get(REQUEST_ID),
    )


def _is_public(scope: Asgi) -> bool:
    path: str = scope["path"]
    if path == SESSION:  # whoever signs in or out is not known yet, or not any more
        return scope["method"] in ("POST", "DELETE")
    return path in _PUBLIC or path.startswith("/inbox/")


def _authorization(scope: Asgi) -> str | None:
    """The header; several of them are no credential of anybody."""
    found = _headers(scope, b"authorization")
    if not found and scope["path"].startswith(f"{LANGGRAPH}/"):
        found = [f"Bearer {key}" for key in _headers(scope, b"x-api-key")]
    return ",".join(found) if found else None


def _headers(scope: Asgi, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def principal_in(scope: Asgi) -> Principal:
    """Who makes a request. Raises `NotSignedIn` where nobody was asked who they are."""
    principal = scope.get(PRINCIPAL)
    if not isinstance(principal, Principal):
        raise NotSignedIn("Say who you are: send a key, as Authorization: Bearer.")
    return principal


async def is_still_let_in(request: Request) -> bool:
    """Whether who makes a request that takes long is known by the same credential still, as far as can be told."""
    sign_in: SignIn = request.app.state.sign_in
    try:
        await sign_in.principal_of(request.scope)
    except (BadCredential, NotSignedIn):
        return False
    except SignoffError:
        return True
    return True


class Needs(SecurityBase):
    """A dependency that gives the caller, if their credential has a scope. Raises `MissingScope`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.scheme_name = "bearer"
        self.model = HTTPBearer(
            description=(
                "An API key, or a JWT of the issuer that is set up. Below `/langgraph` it may be sent as `X-Api-Key`."
            )
        )

    async def __call__(self, request: Request) -> Principal:
        principal = principal_in(request.scope)
        if not principal.may(self.scope):
            await self._refuse(request, principal)
        return principal

    async def _refuse(self, request: Request, principal: Principal) -> NoReturn:
        error = MissingScope(f"This needs the scope {self.scope}.", scope=self.scope)
        site: Site = request.app.state.site
        logs.belongs_to(scope=self.scope)
        site.metrics.turned_away(error.code, self.scope)
        aim = Aim(route=request.scope["route"].path, ids=ids_in(request.path_params))
        await _deny(site, principal, request.scope, aim, error, {"scope": self.scope})
        raise error


Reader = Annotated[Principal, Security(Needs(Scope.RUNS_READ), scopes=[Scope.RUNS_READ])]
Starter = Annotated[Principal, Security(Needs(Scope.RUNS_WRITE), scopes=[Scope.RUNS_WRITE])]
Decider = Annotated[
    Principal, Security(Needs(Scope.DECISIONS_WRITE), scopes=[Scope.DECISIONS_WRITE])
]
Courier = Annotated[Principal, Security(Needs(Scope.DELIVERIES), scopes=[Scope.DELIVERIES])]
Auditor = Annotated[Principal, Security(Needs(Scope.AUDIT), scopes=[Scope.AUDIT])]
Operator = Annotated[Principal, Security(Needs(Scope.ADMIN), scopes=[Scope.ADMIN])]
