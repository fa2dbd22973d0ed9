"""Decides a pause: the one door, whoever comes, and one statement that settles every race."""

from dataclasses import dataclass
from functools import partial
from typing import cast

from app.domain.audit import Actor
from app.domain.decision import MAX_BY, InvalidDecision, Parsed, Verdict, one_line, parse
from app.domain.ids import PauseId, RunId, ThreadId
from app.domain.json import Json, check_json
from app.domain.pause import PauseKind, PauseLevel, PauseStatus, Settled
from app.domain.principal import NOBODY, Origin, Principal
from app.domain.run import RunRef
from app.engine.program import OpenPause
from app.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, SignoffError
from app.lifecycle.hands import Slot, Work
from app.lifecycle.keys import earlier
from app.lifecycle.site import READY, Site, decided_hint
from app.lifecycle.start import Accepted
from app.storage import pauses
from app.storage.pauses import Decided, PauseRow
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


class AlreadyVoted(Conflict):
    """One vote is all that anybody has."""

    code = "already_voted"


class RequesterMayNotApprove(Forbidden):
    """Somebody else than who asked for the run has to agree."""

    code = "requester_may_not_approve"


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
    """Takes a decision, once; it is a vote where the quorum wants several.

    Raises `PauseNotFound`; `PauseDecided`, `PauseExpired`, `PauseCancelled`, `PauseSuperseded`,
    `AlreadyVoted`, `DigestMismatch`, `WorkflowIncompatible`; `RequesterMayNotApprove`; `InvalidDecision`,
    which leaves the pause open; `IdempotencyMismatch`. A refused attempt is recorded.
    """
    if row := await earlier(site.database, principal.tenant, key):
        return _replayed(principal, request, row.resource)
    pause = await pauses.read(site.database, principal.tenant, request.thread_id, request.pause_id)
    if pause is None:
        raise PauseNotFound("There is no such pause in this thread.", pause_id=request.pause_id)
    try:
        settled = await _settle(site, principal, pause, request)
        return await take(site, pause, settled, key=key, origin=principal.origin)
    except (KeyTaken, SignoffError) as error:
        # The same request may have come twice at once: then the other one is what closed the pause.
        if row := await earlier(site.database, principal.tenant, key):
            return _replayed(principal, request, row.resource)
        if isinstance(error, SignoffError):
            by = principal.name or _claimed(request.decision)
            actor = Actor(by=by, via=request.via, origin=principal.origin)
            await pauses.refuse(site.database, pause, actor, code=error.code)
        raise


def _replayed(principal: Principal, request: DecideRequest, run_id: str | None) -> Accepted:
    run = RunRef(tenant=principal.tenant, thread_id=request.thread_id, run_id=RunId(run_id or ""))
    return Accepted(run=run, is_replay=True)


async def _settle(
    site: Site, principal: Principal, pause: PauseRow, request: DecideRequest
) -> Settled:
    """The answer, if the decision is in time, about what is shown, and fits."""
    refuse_closed(pause)
    if request.if_match is not None and request.if_match != pause.digest:
        raise DigestMismatch(
            "The decision is about something else than what this pause shows by now.",
            digest=pause.digest,
        )
    parsed = _parsed(pause, request.decision)
    by = _decider(principal, parsed)
    _refuse_second_vote(pause, by)
    if isinstance(parsed.decision, Verdict):
        _check_verdict(pause, parsed.decision, by)
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    open_pause = OpenPause(
        kind=PauseKind(pause.kind),
        level=PauseLevel(pause.level),
        shown=pause.shown,
        secret=pause.secret,
        digest=pause.digest,
    )
    return await program.settle(open_pause, parsed.decision, by=by, via=request.via)


def refuse_closed(pause: PauseRow) -> None:
    """Raises what has become of a pause that cannot be decided any more."""
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


def _claimed(decision: Json | Parsed) -> str | None:
    """The name that a decision gives for who decides, whatever else is wrong with it."""
    if isinstance(decision, Parsed):
        return decision.by
    by = cast("dict[str, Json]", decision).get("by") if isinstance(decision, dict) else None
    named = one_line(by, MAX_BY) if isinstance(by, str) else ""
    return None if named.startswith(RESERVED) else named or None


RESERVED = "system:"


def _wrong_by(message: str) -> InvalidDecision:
    return _wrong("/by", message)


def _wrong(pointer: str, message: str) -> InvalidDecision:
    return InvalidDecision(
        f"The decision cannot be taken: {message}.",
        fields=[FieldError(pointer=pointer, message=message)],
    )


def _refuse_second_vote(pause: PauseRow, by: str) -> None:
    if any(vote["by"] == by for vote in pause.votes):
        raise AlreadyVoted(f"{by} has voted on this pause before.", pause_id=pause.id, by=by)


def _check_verdict(pause: PauseRow, verdict: Verdict, by: str) -> None:
    """Whether who decides may say so; several who agree must agree to the same."""
    if pause.policy["quorum"] > 1 and (changed := verdict.changes):
        raise _wrong(f"/{changed}", "others vote on what is shown: it cannot be changed")
    is_own = by == pause.requested_by and not pause.policy["allow_requester"]
    if verdict.approved and is_own:
        raise RequesterMayNotApprove(
            f"{by} asked for this run, so somebody else has to approve; rejecting is possible.",
            pause_id=pause.id,
        )


async def take(
    site: Site,
    pause: PauseRow,
    settled: Settled,
    *,
    key: Key | None,
    expired: bool = False,
    origin: Origin = NOBODY,
) -> Accepted:
    """Writes the answer where the pause is still open, and has its run go on if that settles it."""
    told = addressees(site, pause, pause.policy["channel"], pause.policy["escalate_to"])
    with site.hands.slot() as slot:
        write = partial(
            pauses.decide,
            site.database,
            pause,
            settled,
            expired=expired,
            as_vote=not expired and _is_vote(pause, settled),
            channels=told,
            worker=slot and slot.worker,
            lease_seconds=site.lease_seconds,
            key=key,
            origin=origin,
        )
        decided = await write()
        if decided is None:
            await _refuse_lost(site, pause, settled.answer.by)
            decided = await write()  # nothing is in the way: its deadline was moved at that moment
        if decided is None:
            raise PauseExpired("This pause's deadline was moved again.", pause_id=pause.id)
        if decided.has_settled:
            _go_on(site, pause, decided, slot)
            site.happened(pause.run)
    if told and decided.has_settled:
        site.deliveries_due.set()
    return Accepted(run=pause.run)


def _is_vote(pause: PauseRow, settled: Settled) -> bool:
    return pause.policy["quorum"] > 1 and settled.answer.shape == "verdict"


def addressees(site: Site, pause: PauseRow, *channels: str | None) -> list[str | None]:
    """Those of the channels that have to be told of a pause, and its run's callback as None."""
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    told = site.catalog.told_by(program)
    named = [each for each in dict.fromkeys(channels) if each in told]
    return [*named, None] if pause.has_callback else [*named]


def _go_on(site: Site, pause: PauseRow, decided: Decided, slot: Slot | None) -> None:
    if slot and decided.lease:
        slot.use(Work(lease=decided.lease, fingerprint=pause.fingerprint, workflow=pause.workflow))
    elif decided.is_running:
        site.hands.tell(pause.run.run_id)
        site.tell_others(decided_hint(pause.run.run_id))
    else:
        site.tell_others(READY)


async def _refuse_lost(site: Site, pause: PauseRow, by: str) -> None:
    """Raises why a pause that was open when it was read could not be decided, if that is so still."""
    now = await pauses.read(site.database, pause.run.tenant, pause.run.thread_id, pause.id)
    if now is None:
        raise PauseNotFound("There is no such pause in this thread.", pause_id=pause.id)
    refuse_closed(now)
    _refuse_second_vote(now, by)
