"""Gives the approvers of an open pause more time, or less."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.audit import Actor
from app.domain.ids import PauseId
from app.domain.principal import Principal
from app.errors import Conflict, FieldError, Invalid, SignoffError
from app.lifecycle.decide import PauseNotFound, refuse_closed
from app.lifecycle.keys import earlier
from app.lifecycle.site import Site
from app.storage import deadlines, pauses
from app.storage.runs import Key, KeyTaken


class NoDeadline(Conflict):
    """The pause waits for as long as it takes."""

    code = "no_deadline"


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A deadline that was moved, now or before under the same key."""

    is_replay: bool = False


async def extend(
    site: Site,
    principal: Principal,
    pause_id: PauseId,
    expires_at: datetime,
    *,
    via: str,
    key: Key | None = None,
) -> Extended:
    """Moves the deadline of an open pause, and with it what is told before.

    Raises `PauseNotFound`; `PauseDecided`, `PauseExpired`, `PauseCancelled`, `PauseSuperseded`,
    `NoDeadline`; `Invalid` where `expires_at` has passed; `IdempotencyMismatch`.
    """
    if await earlier(site.database, principal.tenant, key):
        return Extended(is_replay=True)
    pause = await pauses.find(site.database, principal.tenant, pause_id)
    if pause is None:
        raise PauseNotFound("There is no such pause.", pause_id=pause_id)
    try:
        actor = Actor(by=principal.name, via=via, origin=principal.origin)
        moved = await deadlines.extend(site.database, pause, expires_at, actor, key=key)
    except KeyTaken:
        await earlier(site.database, principal.tenant, key)
        return Extended(is_replay=True)
    if moved is None:
        raise await _why_not(site, principal, pause_id)
    return Extended()


async def _why_not(site: Site, principal: Principal, pause_id: PauseId) -> SignoffError:
    pause = await pauses.find(site.database, principal.tenant, pause_id)
    if pause is None:
        return PauseNotFound("There is no such pause.", pause_id=pause_id)
    try:
        refuse_closed(pause)
    except Conflict as error:
        return error
    if pause.expires_at is None:
        return NoDeadline("This pause has no deadline to be moved.", pause_id=pause_id)
    wrong = FieldError(pointer="/expires_at", message="must be later than now")
    return Invalid("The deadline cannot be moved there.", fields=[wrong])
