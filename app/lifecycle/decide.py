"""Decides a pause: the one door, whoever comes, and one statement that settles every race."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from app.domain.audit import Actor
from app.domain.decision import MAX_BY, InvalidDecision, Parsed, one_line, parse
from app.domain.ids import PauseId, RunId, TenantId, ThreadId
from app.domain.json import Json, check_json
from app.domain.pause import Answer, PauseKind, PauseLevel, PauseStatus, Settled
from app.domain.principal import NOBODY, Origin, Principal
from app.domain.run import RunRef
from app.engine.program import OpenPause
from app.errors import Conflict, Invalid, NotFound, SignoffError
from app.lifecycle.deciders import Decider, check, claimed, decider_of, refuse_second_vote
from app.lifecycle.hands import Slot, Work
from app.lifecycle.keys import earlier
from app.lifecycle.replies import TokenOfAnotherPause
from app.lifecycle.site import READY, Site, decided_hint
from app.lifecycle.start import Accepted
from app.storage import pauses
from app.storage.pauses import Decided, PauseRow
from app.storage.runs import Key, KeyTaken

log = logging.getLogger(__name__)


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


Form: TypeAlias = Callable[[PauseKind, dict[str, Any], Json], Json]
"""Makes a decision about a pause, of a kind, as it is shown, of what came in the form of another protocol.

Raises `InvalidDecision`.
"""


@dataclass(frozen=True, kw_only=True)
class DecideRequest:
    """A decision as it came: its raw JSON, or already read; and by which door.

    `if_match` is the digest of what the decider saw, where they said so. `form` reads a decision that came by
    another protocol, and `by` is who decides where that has no place for it.
    """

    thread_id: ThreadId
    pause_id: PauseId
    decision: Json | Parsed
    via: str
    if_match: str | None = None
    form: Form | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Left:
    """A decision that is still to be taken, and the key that it is noted with."""

    pause: PauseRow
    request: DecideRequest
    key: Key | None


async def decide(
    site: Site, principal: Principal, request: DecideRequest, *, key: Key | None = None
) -> Accepted:
    """Takes a decision, once; it is a vote where the quorum wants several.

    Raises `PauseNotFound`; `PauseDecided`, `PauseExpired`, `PauseCancelled`, `PauseSuperseded`,
    `AlreadyVoted`, `DigestMismatch`, `WorkflowIncompatible`; `NotAnApprover`, `MayNotActAs`,
    `RequesterMayNotApprove`; `InvalidDecision`, which leaves the pause open; `IdempotencyMismatch`. A
    refused attempt is recorded.
    """
    return await decide_together(site, principal, [request], key=key)


async def decide_together(
    site: Site, principal: Principal, requests: Sequence[DecideRequest], *, key: Key | None = None
) -> Accepted:
    """Takes decisions about several pauses of a thread: none, where one of them cannot be taken as things are.

    Raises what `decide` does, of the first that cannot be taken: the error has its `pause_id`, and in `decided` those
    that were taken, where the race for it was lost after that. With a key, a repeat of the request goes on after what
    it has taken itself.
    """
    keys = [_own_key(key, each, is_last=each is requests[-1]) for each in requests]
    rows = [await earlier(site.database, principal.tenant, each) for each in keys]
    if row := rows[-1]:
        return _replayed(principal, requests[0], row.resource)
    asked = list(zip(requests, keys, rows, strict=True))
    taken = [request.pause_id for request, _, row in asked if row]
    left = [
        _Left(pause=await _found(site, principal, request), request=request, key=own)
        for request, own, row in asked
        if row is None
    ]
    at, ready = left[0], list[Settled]()
    try:
        for at in left:
            settled = await _settle_as_it_is(site, principal, at.pause, at.request)
            ready.append(settled)
        for at, settled in zip(left, ready, strict=True):
            await take(site, at.pause, settled, key=at.key, origin=principal.origin)
            taken.append(at.pause.id)
        return Accepted(run=at.pause.run)
    except (KeyTaken, SignoffError) as error:
        # The same request may have come twice at once: then the other one is what closed the pause.
        if await earlier(site.database, principal.tenant, at.key):
            return await decide_together(site, principal, requests, key=key)
        if isinstance(error, SignoffError):
            await _note_refused(site, principal, at.pause, at.request, error)
            if len(requests) > 1:
                error.values |= {"pause_id": at.pause.id, "decided": taken}
        raise


def _own_key(key: Key | None, request: DecideRequest, *, is_last: bool) -> Key | None:
    """The key that one of several decisions is noted with: the request's with the last, and before a part of it."""
    return key if is_last or key is None else replace(key, key=f"{key.key}/{request.pause_id}")


async def _note_refused(
    site: Site, principal: Principal, pause: PauseRow, request: DecideRequest, error: SignoffError
) -> None:
    by = claimed(principal, request.decision) or claimed(principal, {"by": request.by})
    actor = Actor(by=by, via=request.via, origin=principal.origin)
    await pauses.refuse(site.database, pause, actor, code=error.code)
    site.metrics.refused(request.via, error.code)


def _replayed(principal: Principal, request: DecideRequest, run_id: str | None) -> Accepted:
    run = RunRef(tenant=principal.tenant, thread_id=request.thread_id, run_id=RunId(run_id or ""))
    return Accepted(run=run, is_replay=True)


async def _found(site: Site, principal: Principal, request: DecideRequest) -> PauseRow:
    """The pause as this process remembers it, else as it is."""
    thread_id, pause_id = request.thread_id, request.pause_id
    pause = site.parked.pause(principal.tenant, thread_id, pause_id)
    return pause or await _read(site, principal.tenant, thread_id, pause_id)


async def _read(site: Site, tenant: TenantId, thread_id: ThreadId, pause_id: PauseId) -> PauseRow:
    pause = await pauses.read(site.database, tenant, thread_id, pause_id)
    if pause is None:
        raise PauseNotFound("There is no such pause in this thread.", pause_id=pause_id)
    return pause


async def _settle_as_it_is(
    site: Site, principal: Principal, pause: PauseRow, request: DecideRequest
) -> Settled:
    """The same; whether a pause that was remembered is closed by now is a reason that goes before any other."""
    try:
        return await _settle(site, principal, pause, request)
    except SignoffError:
        if site.parked.forget(pause.id):
            run = pause.run
            refuse_closed(await _read(site, run.tenant, run.thread_id, pause.id))
        raise


async def _settle(
    site: Site, principal: Principal, pause: PauseRow, request: DecideRequest
) -> Settled:
    """The answer, if the decision is in time, about what is shown, and fits."""
    if principal.only_pause not in (None, pause.id):
        raise TokenOfAnotherPause("This token was sent with another pause.", pause_id=pause.id)
    refuse_closed(pause)
    if request.if_match is not None and request.if_match != pause.digest:
        raise DigestMismatch(
            "The decision is about something else than what this pause shows by now.",
            digest=pause.digest,
        )
    parsed = _parsed(pause, request)
    decider = decider_of(principal, parsed)
    check(site, principal, pause, decider, parsed)
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    open_pause = OpenPause(
        kind=PauseKind(pause.kind),
        level=PauseLevel(pause.level),
        shown=pause.shown,
        secret=pause.secret,
        digest=pause.digest,
    )
    settled = await program.settle(open_pause, parsed.decision, by=decider.by, via=request.via)
    return _with_sender(settled, decider)


def _with_sender(settled: Settled, decider: Decider) -> Settled:
    if decider.sent_by is None:
        return settled
    return replace(settled, shown={**settled.shown, "sent_by": decider.sent_by})


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


def _parsed(pause: PauseRow, request: DecideRequest) -> Parsed:
    decision = request.decision
    if isinstance(decision, Parsed):
        return decision
    try:
        check_json(decision)
    except Invalid as error:
        raise InvalidDecision(error.message, fields=error.fields) from error
    kind = PauseKind(pause.kind)
    parsed = parse(kind, request.form(kind, pause.shown, decision) if request.form else decision)
    by = one_line(request.by or "", MAX_BY)
    return parsed if parsed.by or not by else replace(parsed, by=by)


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
    with site.traces.decision(
        pause.trace,
        kind=pause.kind,
        via=settled.answer.via,
        pause_id=pause.id,
        run_id=pause.run.run_id,
    ):
        return await _take(site, pause, settled, key=key, expired=expired, origin=origin)


async def _take(
    site: Site,
    pause: PauseRow,
    settled: Settled,
    *,
    key: Key | None,
    expired: bool,
    origin: Origin,
) -> Accepted:
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
            _go_on(site, pause, decided, slot, settled.answer)
            site.happened(pause.run)
            _note(site, pause, settled)
    if told and decided.has_settled:
        site.deliveries_due.set()
    return Accepted(run=pause.run)


def _note(site: Site, pause: PauseRow, settled: Settled) -> None:
    via = settled.answer.via
    site.metrics.decided(pause.workflow, pause.kind, via, pause.age)
    ids = {"pause_id": pause.id, "run_id": pause.run.run_id, "thread_id": pause.run.thread_id}
    log.info("pause closed", extra={**ids, "workflow": pause.workflow, "via": via})


def _is_vote(pause: PauseRow, settled: Settled) -> bool:
    return pause.policy["quorum"] > 1 and settled.answer.shape == "verdict"


def addressees(site: Site, pause: PauseRow, *channels: str | None) -> list[str | None]:
    """Those of the channels that have to be told of a pause, and its run's callback as None."""
    program = site.catalog.of(pause.fingerprint, workflow=pause.workflow)
    told = site.catalog.told_by(program)
    named = [each for each in dict.fromkeys(channels) if each in told]
    return [*named, None] if pause.has_callback else [*named]


def _go_on(
    site: Site, pause: PauseRow, decided: Decided, slot: Slot | None, answer: Answer
) -> None:
    if slot and decided.lease:
        loaded = site.parked.woken(
            pause.id, answer, lease=decided.lease, decisions=decided.decisions
        )
        work = Work(
            lease=decided.lease,
            fingerprint=pause.fingerprint,
            workflow=pause.workflow,
            loaded=loaded,
            trace=pause.trace,
        )
        slot.use(work)
    elif decided.is_running:
        site.hands.tell(pause.run.run_id)
        site.tell_others(decided_hint(pause.run.run_id))
    else:
        site.tell_others(READY)


async def _refuse_lost(site: Site, pause: PauseRow, by: str) -> None:
    """Raises why a pause that was open when it was read could not be decided, if that is so still."""
    site.parked.forget(pause.id)
    now = await _read(site, pause.run.tenant, pause.run.thread_id, pause.id)
    refuse_closed(now)
    refuse_second_vote(now, by)
