"""The one statement by which a worker writes about its run.

Whatever the phase (go on, park, end, hand back), it locks the thread, checks the fence and the lease by the
database's clock, and writes everything that belongs together: facts, notices, checkpoints, and the move.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from app.domain.audit import AuditAction, data_text
from app.domain.event import TOLD, Event, EventType
from app.domain.facts import Facts, RunEnd
from app.domain.ids import PauseId, RunId, new_delivery_id, new_pause_id
from app.domain.json import Json
from app.domain.ledger import LedgerEntry
from app.domain.pause import Ask, PauseStatus
from app.domain.run import Lease, RunStatus
from app.domain.step import StepRecord
from app.storage.checkpoints import Unsaved
from app.storage.database import Database
from app.storage.progress_sql import (
    CHECKPOINTS,
    CLOSING,
    END,
    HAND_BACK,
    PARK,
    RESULTS,
    STAY,
    statement,
)
from app.storage.runs import LeaseLost
from app.storage.sealing import Vault

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Leavings:
    """What a run that ends may leave behind beside its checkpoints."""

    open_pauses: bool
    step_results: bool


class Wrote(Enum):
    """What became of a write."""

    DONE = "done"
    DECIDED_MEANWHILE = (
        "decided meanwhile"  # a decision came that this worker has not seen: not parked
    )


@dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a write, and the pauses that it opened."""

    wrote: Wrote
    opened: Sequence[PauseId]


@dataclass(frozen=True, kw_only=True)
class Addressees:
    """Who hears of a run: the channels that have to be told, and whether the run has a callback."""

    channels: frozenset[str]
    callback: bool


async def save(
    database: Database,
    lease: Lease,
    facts: Facts,
    unsaved: Unsaved,
    addressees: Addressees,
    *,
    asks: Sequence[Ask] = (),
) -> None:
    """Writes what is unwritten and opens pauses, if any; the run goes on. Raises `LeaseLost`."""
    document = _document(database.vault, lease, facts, addressees, asks=asks)
    await _write(database, STAY, lease, document, seen=None, unsaved=unsaved)


async def park(
    database: Database,
    lease: Lease,
    facts: Facts,
    unsaved: Unsaved,
    addressees: Addressees,
    *,
    asks: Sequence[Ask],
    seen: int,
) -> Written:
    """Opens the pauses and gives the run up as paused, unless a decision came that is not among `seen`."""
    last = [Event(type=EventType.RUN_PAUSED)]
    document = _document(database.vault, lease, facts, addressees, asks=asks, last=last)
    return await _write(database, PARK, lease, document, seen=seen, unsaved=unsaved)


async def end(
    database: Database,
    lease: Lease,
    facts: Facts,
    addressees: Addressees,
    *,
    end: RunEnd,
    leaves: Leavings,
) -> None:
    """Ends the run; what it leaves behind goes or is closed. Raises `LeaseLost`."""
    vault, run_id = database.vault, lease.run.run_id
    last = [Event(type=_END_EVENTS[end.status], data=_end_data(end))]
    document = _document(vault, lease, facts, addressees, last=last)
    document["end"] = {
        "status": end.status,
        "output": vault.seal(end.output, "runs.output", run_id),
        "shown_output": end.shown_output,
        "stop_reason": end.stop_reason,
        "error": end.error and end.error.as_json(),
    }
    document["addressees"] = [*addressees.channels, *([None] if addressees.callback else [])]
    document["history"] = [
        {
            "agent": said.agent,
            "messages": vault.seal(said.messages, "history.messages", run_id, said.agent),
        }
        for said in end.history
    ]
    extra = {CLOSING: leaves.open_pauses, RESULTS: leaves.step_results}
    await _write(
        database,
        END,
        lease,
        document,
        seen=None,
        unsaved=None,
        extra=frozenset(part for part, is_there in extra.items() if is_there),
    )


async def hand_back(
    database: Database, lease: Lease, facts: Facts, unsaved: Unsaved, addressees: Addressees
) -> None:
    """Writes what is unwritten and queues the run for another worker. Raises `LeaseLost`."""
    last = [Event(type=EventType.RUN_QUEUED)]
    document = _document(database.vault, lease, facts, addressees, last=last)
    await _write(database, HAND_BACK, lease, document, seen=None, unsaved=unsaved)


_END_EVENTS = {
    RunStatus.COMPLETED: EventType.RUN_COMPLETED,
    RunStatus.FAILED: EventType.RUN_FAILED,
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
}


def _end_data(end: RunEnd) -> dict[str, Json]:
    return {"error": end.error.as_json()} if end.error else {}


async def _write(
    database: Database,
    move: str,
    lease: Lease,
    document: dict[str, Any],
    *,
    seen: int | None,
    unsaved: Unsaved | None,
    extra: frozenset[str] = frozenset(),
) -> Written:
    run = lease.run
    parts = extra | {part for part, listed in document.items() if listed}
    if unsaved:
        parts |= {CHECKPOINTS}
    arguments = unsaved.arguments(database.vault) if unsaved else ()
    row = await database.fetch_row(
        statement(move, parts),
        run.thread_id,
        run.tenant,
        run.run_id,
        lease.fence,
        seen,
        document,
        *arguments,
    )
    if row is None or not row["held"]:
        raise LeaseLost(run.run_id)
    opened: list[PauseId] = (row["opened"] or []) if document["pauses"] else []
    if opened:
        log.info("pauses opened", extra={"pause_ids": opened})
    return Written(wrote=Wrote.DONE if row["done"] else Wrote.DECIDED_MEANWHILE, opened=opened)


def _document(
    vault: Vault,
    lease: Lease,
    facts: Facts,
    addressees: Addressees,
    *,
    asks: Sequence[Ask] = (),
    last: Sequence[Event] = (),
) -> dict[str, Any]:
    """Facts as the statement reads them: lists of flat records, notices naming their event by its place."""
    pauses = [(new_pause_id(), ask) for ask in (*facts.settled, *asks)]
    events: list[dict[str, Json]] = [
        {"type": each.type, "data": each.data} for each in facts.events
    ]
    channels: list[str | None] = [None] * len(events)
    for pause_id, ask in pauses:
        for event in _pause_events(pause_id, ask):
            events.append(event)
            channels.append(None if ask.settled else ask.policy.channel)
    events += [{"type": each.type, "data": each.data} for each in last]
    channels += [None] * len(last)
    return {
        "pauses": [_pause(vault, lease.run.run_id, pause_id, ask) for pause_id, ask in pauses],
        "events": events,
        "notices": _notices(events, channels, addressees),
        "ledger": [_entry(entry) for entry in facts.ledger],
        "steps": [_step(vault, lease.run.run_id, step) for step in facts.steps],
        "audit": [_watched(pause_id, ask) for pause_id, ask in pauses if ask.settled],
    }


def _pause_events(pause_id: PauseId, ask: Ask) -> list[dict[str, Json]]:
    opened = _pause_event(EventType.PAUSE_OPENED, pause_id, ask)
    if ask.settled is None:
        return [opened]
    decided = _pause_event(EventType.PAUSE_DECIDED, pause_id, ask)
    return [opened, decided | {"data": {"pause_id": pause_id, "decision": ask.settled.shown}}]


def _pause_event(event: EventType, pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    data = {"pause_id": pause_id, "kind": ask.kind, "channel": ask.policy.channel}
    return {"type": event, "pause_id": pause_id, "data": data}


def _notices(
    events: Sequence[dict[str, Json]], channels: Sequence[str | None], addressees: Addressees
) -> list[dict[str, Json]]:
    """One notice an address: the pause's channel where it has to be told, and the run's callback."""
    notices: list[dict[str, Json]] = []
    for number, (event, channel) in enumerate(zip(events, channels, strict=True), start=1):
        if event["type"] not in TOLD:
            continue
        if channel in addressees.channels:
            notices.append({"id": new_delivery_id(), "event": number, "channel": channel})
        if addressees.callback:
            notices.append({"id": new_delivery_id(), "event": number, "channel": None})
    return notices


def _pause(vault: Vault, run_id: RunId, pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    policy, answer = ask.policy, ask.settled and ask.settled.answer.as_json()
    return {
        "id": pause_id,
        "line": ask.line,
        "place": ask.place,
        "interrupt_id": ask.interrupt_id,
        "kind": ask.kind,
        "level": ask.level,
        "status": PauseStatus.DECIDED if ask.settled else PauseStatus.OPEN,
        "channel": policy.channel,
        "shown": ask.shown,
        "secret": vault.seal(ask.secret, "pauses.secret", run_id, pause_id),
        "policy": policy.as_json(),
        "digest": ask.digest,
        "expires_after": _seconds(policy.expires_after),
        "remind_after": _seconds(policy.remind_after),
        "escalate_after": _seconds(policy.escalate_after),
        "decision": ask.settled and ask.settled.shown,
        "answer": vault.seal(answer, "pauses.answer", run_id, pause_id),
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _entry(entry: LedgerEntry) -> dict[str, Json]:
    return {
        "place": entry.place,
        "kind": entry.kind,
        "agent": entry.agent,
        "name": entry.name,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "cached_input_tokens": entry.cached_input_tokens,
        "cost": str(entry.cost),
    }


def _step(vault: Vault, run_id: RunId, step: StepRecord) -> dict[str, Json]:
    return {
        "path": step.path,
        "name": step.name,
        "type": step.type,
        "status": step.status,
        "attempts": step.attempts,
        "output": vault.seal(step.output, "steps.output", run_id, step.path),
        "shown_output": step.shown_output,
    }


def _watched(pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    settled = ask.settled
    return {
        "pause_id": pause_id,
        "action": AuditAction.DECIDED,
        "by": settled and settled.answer.by,
        "via": settled and settled.answer.via,
        "digest": ask.digest,
        "data": data_text(
            {
                "decision": settled and settled.shown,
                "effective_digest": settled and settled.answer.digest,
            }
        ),
    }
