"""How much one credential may ask of this process: requests a minute, runs an hour, requests at once.

Counted in memory, so that a request costs no statement more; each process counts for itself. While the
service is open, callers are told apart by their network address.
"""

import math
import re
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.auth import principal_in
from app.api.problems import NotSignedIn, ProblemResponse
from app.domain.principal import OPEN
from app.errors import SignoffError
from app.lifecycle.rate import Rate

_STARTS_RUN: Final = re.compile(r"/threads/[^/]+/runs/?")
_RUNS: Final = "signoff.runs"
"""Where a request's scope has what counts a run, where its path does not tell whether it starts one."""


class TooManyRuns(SignoffError):
    """More runs an hour than the credential may start; `retry_after` is in seconds."""

    code = "too_many_requests"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an operator allows each credential; None: as much as it wants."""

    requests_per_minute: int | None = None
    runs_per_hour: int | None = None
    requests_at_once: int | None = None


NO_LIMITS: Final = Limits()


class Limiting:
    """Pure ASGI, so that it costs next to nothing."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._requests = _rate(limits.requests_per_minute, 60)
        self._runs = _rate(limits.runs_per_hour, 3600)
        self._at_once = limits.requests_at_once
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        who = _who(scope)
        if who is None:
            await self._app(scope, receive, send)
        elif refusal := self._refusal(who, scope):
            await refusal(scope, receive, send)
        else:
            await self._counted(who, scope, receive, send)

    def _refusal(self, who: str, scope: Scope) -> ProblemResponse | None:
        if self._runs:
            scope[_RUNS] = partial(self._runs.wait, who)
        if self._at_once and self._under_way[who] >= self._at_once:
            return _refused(f"{self._at_once} requests are under way: wait for one of them.", 1)
        if self._requests and (wait := self._requests.wait(who)):
            return _refused("That is too many requests a minute.", wait)
        if self._runs and _starts_run(scope) and (wait := self._runs.wait(who)):
            return _refused(_TOO_MANY_RUNS, wait)
        return None

    async def _counted(self, who: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way[who] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[who] -= 1
            if not self._under_way[who]:
                del self._under_way[who]


def count_run(scope: MutableMapping[str, Any]) -> None:
    """Counts a run that a request is about to start. Raises `TooManyRuns`."""
    if wait := scope[_RUNS]() if _RUNS in scope else 0.0:
        raise TooManyRuns(_TOO_MANY_RUNS, retry_after=math.ceil(wait))


_TOO_MANY_RUNS: Final = "That is too many runs an hour."


def _rate(most: int | None, seconds: float) -> Rate | None:
    return Rate(most, seconds) if most else None


def _who(scope: Scope) -> str | None:
    """Whose request it is; None for what is answered to anybody."""
    try:
        principal = principal_in(scope)
    except NotSignedIn:
        return None
    if principal.credential != OPEN:
        return f"{principal.tenant}/{principal.credential}"
    return f"{OPEN}/{principal.client}"


def _starts_run(scope: Scope) -> bool:
    return scope["method"] == "POST" and _STARTS_RUN.fullmatch(scope["path"]) is not None


def _refused(detail: str, wait: float) -> ProblemResponse:
    after = {"retry-after": str(max(1, math.ceil(wait)))}
    return ProblemResponse(429, "too_many_requests", detail, headers=after)
