"""Follows a run, or everything of a tenant, as it happens."""

from collections.abc import AsyncGenerator, Sequence

from app.domain.principal import Principal
from app.domain.run import RunRef
from app.engine.audience import Delta as Delta
from app.errors import FieldError, Invalid
from app.lifecycle.cancel import RunNotFound
from app.lifecycle.following import Heard as Heard
from app.lifecycle.following import Position as Position  # for whoever reads what is heard
from app.lifecycle.following import Writing as Writing
from app.lifecycle.site import Site
from app.storage import events
from app.storage.events import Left as Left
from app.storage.events import Place as Place
from app.storage.events import Recorded as Recorded

Stream = AsyncGenerator[Sequence[Heard]]


async def follow_run(site: Site, run: RunRef, *, after: int) -> Stream | None:
    """The events of a run after a number, and what comes, until it ends; None if nothing is left to come.

    Raises `RunNotFound`; `Invalid` for a number that is still to come in its thread.
    """
    left = await left_of(site, run, after=after)
    if after > left.newest:
        raise _never_told()
    if left.is_over and not left.has_more:
        return None
    return site.followers.of_run(run, after=after, is_over=left.is_over)


async def left_of(site: Site, run: RunRef, *, after: int) -> Left:
    """How a run stands, and what of it is left to tell after a number. Raises `RunNotFound`."""
    left = await events.left(site.database, run, after=after)
    if left is None:
        raise RunNotFound("There is no such run in this thread.", run_id=run.run_id)
    return left


async def follow_tenant(
    site: Site, principal: Principal, *, after: Place | None, types: Sequence[str] | None
) -> Stream:
    """The events of all runs that the principal may see, after a place, else from now on.

    Raises `Invalid` for a place that is still to come: another database gave it.
    """
    now = await events.now(site.database)
    if after and after.transaction > now.transaction:
        raise _never_told()
    return site.followers.of_tenant(principal.tenant, after=after or now, types=types)


def _never_told() -> Invalid:
    wrong = FieldError(pointer="", message="is of no event of this stream")
    return Invalid("There is no such event to go on after.", fields=[wrong])
