"""Answers once a run is settled, as long as the caller likes to wait (`Prefer`, RFC 7240)."""

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header

from app.api.answers import JsonResponse, replayed
from app.domain.principal import Principal
from app.domain.run import SETTLED, RunRef
from app.lifecycle import read
from app.lifecycle.read import View
from app.lifecycle.site import Site
from app.lifecycle.start import Accepted
from app.watching import logs

DEFAULT_SECONDS: Final = 3
"""Under every client's own time-out."""

MOST_SECONDS: Final = 60
RETRY_AFTER_SECONDS: Final = 1

_Header = Annotated[
    str | None,
    Header(
        description=(
            "`wait=N` waits up to N seconds (at most 60) until the run is settled; `respond-async` answers at "
            "once. What was obeyed stands in `Preference-Applied`."
        ),
        examples=["wait=10"],
    ),
]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a caller waits, and what of `Prefer` says so. No `seconds`: nothing was said."""

    seconds: int | None = None
    applied: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Preference-Applied": self.applied} if self.applied else {}


async def patience(prefer: _Header = None) -> Patience:
    """The caller's preference. What is unknown or malformed in it is passed over, as RFC 7240 says."""
    if prefer is None:
        return Patience()
    told = [each.strip().lower() for each in re.split("[,;]", prefer)]
    for each in told:
        if match := _WAIT.fullmatch(each):
            seconds = min(int(match[1]), MOST_SECONDS)
            return Patience(seconds=seconds, applied=f"wait={seconds}")
    if "respond-async" in told:
        return Patience(seconds=0, applied="respond-async")
    return Patience()


_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,9})"?')

Waiting = Annotated[Patience, Depends(patience)]


async def accepted(
    site: Site,
    caller: Principal,
    work: Coroutine[Any, Any, Accepted],
    patience: Patience,
    *,
    status: int,
) -> JsonResponse:
    """Does the work, waits for its run, and answers with it: `status` if it is settled, else 202.

    The work is done whole although the client may hang up; only the waiting ends with it.
    """
    done = await whole(work)
    logs.belongs_to(thread_id=done.run.thread_id, run_id=done.run.run_id)
    seconds = DEFAULT_SECONDS if patience.seconds is None else patience.seconds
    if not seconds:
        # Whoever does not wait may follow instead, and would miss how the first answer begins.
        site.followers.expect(done.run.run_id)
    view = await _settled(site, caller, done.run, seconds)
    headers = patience.headers | replayed(done.is_replay)
    if view["status"] in SETTLED:
        location = {"Location": path_of(view)} if status == 201 else {}
        return JsonResponse(view, status=status, headers=headers | location)
    return _pending(view, headers)


async def looked_at(site: Site, caller: Principal, run: RunRef, patience: Patience) -> JsonResponse:
    """A run as it is, or, for a caller who says how long to wait, once it is settled."""
    if not patience.seconds:
        return JsonResponse(await _settled(site, caller, run, 0), headers=patience.headers)
    view = await _settled(site, caller, run, patience.seconds)
    if view["status"] in SETTLED:
        return JsonResponse(view, headers=patience.headers)
    return _pending(view, patience.headers)


def _pending(view: View, headers: dict[str, str]) -> JsonResponse:
    where = {"Location": path_of(view), "Retry-After": str(RETRY_AFTER_SECONDS)}
    return JsonResponse(view, status=202, headers=headers | where)


def path_of(view: View) -> str:
    """The path of a run."""
    return f"/threads/{view['thread_id']}/runs/{view['id']}"


async def _settled(site: Site, caller: Principal, run: RunRef, seconds: float) -> View:
    with site.waiters.expecting(run.run_id) as woken:
        return await read.settled_run(site, caller, run, woken, seconds=seconds)


async def whole(work: Coroutine[Any, Any, _T]) -> _T:
    """What the work gives. It goes on to its end although the request that asked for it may be cancelled."""
    task = asyncio.create_task(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return await asyncio.shield(task)


_under_way: set[asyncio.Task[Any]] = set()
"""The loop itself would let a task go that nobody holds."""
