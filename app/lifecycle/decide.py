"""Decides a pause: the one door, whoever comes, and one statement that settles every race."""

from dataclasses import dataclass

from app.domain.decision import InvalidDecision, Parsed, parse
from app.domain.ids import PauseId, RunId, ThreadId
from app.domain.json import Json, check_json
from app.domain.pause import PauseKind, PauseLevel, PauseStatus, Settled
from app.domain.principal import Principal
from app.domain.run import RunRef
from app.engine.program import OpenPause
from app.errors import Conflict, FieldError, Invalid, NotFound, SignoffError
from app.lifecycle.hands import Work
from app.lifecycle.keys import earlier
from app.lifecycle.site import READY, Site, decided_hint
from app.lifecycle.start import Accepted
from app.storage import pauses
from app.storage.pauses import PauseRow
from app.storage.runs import Key, KeyTaken


class PauseNotFound(NotFound):
    """There is no such pause in that thread."""


class PauseDecided(Conflict):
    """Somebody decided it before."""

    code = "pause_decided"


class PauseExpired(Conflict):
    """Its deadline has passed."""

    code = "pause_expired"


class PauseCancelled(Conflict):
    """Its run ended without it."""

    code = "pause_cancelled"


class PauseSuperseded(Conflict):
    """A newer run took the thread."""

    code = "pause_superseded"


class DigestMismatch(Conflict):
    """The decision was about something else than what the pause shows."""

    code = "digest_mismatch"


_CLOSED: dict[str, tuple[type[Conflict], str]] = {
    PauseStatus.DECIDED: (PauseDecided, "This pause was decided before; nothing was changed."),
    PauseStatus.EXPIRED: (PauseExpired, "This pause expired before the decision came."),
    PauseStatus.CANCELLED: (PauseCancelled, "This pause was cancelled with its run."),
    PauseStatus.SUPERSEDED: (PauseSuperseded, "A newer run of the thread took this pause's place."),
}


@dataclass(frozen=True, kw_only=True)
class DecideRequest:
    """A decision as it came: its raw JSON, or already read; and by which door.

    `if_match` is the digest of what the decider saw, where they said so.
    """

    thread_id: ThreadId
    pause_id: PauseId
    decision: Json | Parsed
    via: str
    if_match: str | None = None


async def decide(
    site: Site, principal: Principal, request: DecideRequest, *, key: Key | None = None
) -> Accepted:
    """Takes a decision, once.

    Raises `PauseNotFound`; `PauseDecided`, `PauseExpired`, `PauseCancelled`, `PauseSuperseded`,
    `DigestMismatch`, `WorkflowIncompatible`; `InvalidDecision`, which leaves the pause open;
    `IdempotencyMismatch`. A refused attempt is recorded.
    """
    if row := await earlier(site.database, principal.tenant, key):
        return _replayed(principal, request, row.resource)
    pause = await pauses.read(site.database, principal.tenant, request.thread_id, request.pause_id)
    if pause is None:
        raise PauseNotFound("There is no such pause in this thread.", pause_id=request.pause_id)
    try:
        settled = await _settle(site, principal, pause, request)
        return await take(site, pause, settled, key=key)
    except (KeyTaken, SignoffError) as error:
        # The same request may have come twice at once: then the other one is what closed the pause.
        if row := await earlier(site.database, principal.tenant, key):
            return _replayed(principal, request, row.resource)
        if isinstance(error, SignoffError):
            await pauses.refuse(
                site.database, pause, by=principal.name, via=request.via, code=error.code
            )
        raise


def _replayed(principal: Principal, request: DecideRequest, run_id: str | None) -> Accepted:
    run = RunRef(tenant=principal.tenant, thread_id=request.thread_id, run_id=RunId(run_id or ""))
    return Accepted(run=run, is_replay=True)


async def _settle(
    site: Site, principal: Principal, pause: PauseRow, request: DecideRequest
) -> Settled:
    """The answer, if the decision is in time, about what is shown, and fits."""
    _refuse_closed(pause)
    if request.if_match is not None and request.if_match != pause.digest:
        raise DigestMismatch(
            "The decision is about something else than what this pause shows by now.",
            digest=pause.digest,
        )
    parsed = _parsed(pause, request.decision)
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    open_pause = OpenPause(
        kind=PauseKind(pause.kind),
        level=PauseLevel(pause.level),
        shown=pause.shown,
        secret=pause.secret,
        digest=pause.digest,
    )
    by = _decider(principal, parsed)
    return await program.settle(open_pause, parsed.decision, by=by, via=request.via)


def _refuse_closed(pause: PauseRow) -> None:
    if pause.status in _CLOSED:
        error, message = _CLOSED[pause.status]
        raise error(message, pause_id=pause.id)
    if pause.is_late:
        raise PauseExpired(
            "This pause expired before the decision came.",
            pause_id=pause.id,
            expires_at=pause.expires_at and pause.expires_at.isoformat(),
        )


def _parsed(pause: PauseRow, decision: Json | Parsed) -> Parsed:
    if isinstance(decision, Parsed):
        return decision
    try:
        check_json(decision)
    except Invalid as error:
        raise InvalidDecision(error.message, fields=error.fields) from error
    return parse(PauseKind(pause.kind), decision)


def _decider(principal: Principal, parsed: Parsed) -> str:
    """Who decides: the caller where the service knows them, else the name that the decision gives."""
    by = principal.name or parsed.by
    if not by:
        raise _wrong_by("who decides has to be named")
    if principal.name is None and by.startswith(RESERVED):
        raise _wrong_by(f"names that begin with {RESERVED!r} are the service's own")
    return by


RESERVED = "system:"


def _wrong_by(message: str) -> InvalidDecision:
    return InvalidDecision(
        f"The decision cannot be taken: {message}.",
        fields=[FieldError(pointer="/by", message=message)],
    )


async def take(
    site: Site, pause: PauseRow, settled: Settled, *, key: Key | None, expired: bool = False
) -> Accepted:
    """Writes the answer where the pause is still open, and makes its run go on."""
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    channel = str(pause.policy["channel"])
    told: list[str | None] = [channel] if channel in site.catalog.told_by(program) else []
    told += [None] if pause.has_callback else []
    with site.hands.slot() as slot:
        decided = await pauses.decide(
            site.database,
            pause,
            settled,
            expired=expired,
            channels=told,
            worker=slot and slot.worker,
            lease_seconds=site.lease_seconds,
            key=key,
        )
        if decided is None:
            raise await _lost(site, pause)
        if slot and decided.lease:
            slot.use(
                Work(lease=decided.lease, fingerprint=pause.fingerprint, workflow=pause.workflow)
            )
        elif decided.is_running:
            site.hands.tell(pause.run.run_id)
            site.tell_others(decided_hint(pause.run.run_id))
        else:
            site.tell_others(READY)
    if told:
        site.deliveries_due.set()
    return Accepted(run=pause.run)


async def _lost(site: Site, pause: PauseRow) -> SignoffError:
    """Why a pause that was open when it was read could not be decided."""
    now = await pauses.read(site.database, pause.run.tenant, pause.run.thread_id, pause.id)
    if now is None:
        return PauseNotFound("There is no such pause in this thread.", pause_id=pause.id)
    try:
        _refuse_closed(now)
    except Conflict as error:
        return error
    return PauseCancelled("This pause's run has ended.", pause_id=pause.id)
