"""Books what an agent's model and tools do: events for those who watch, ledger entries for those who pay.

Every model call, every tool call and every cost that a tool reports stands in the ledger once; a call does
when it has its result.
"""

from collections.abc import Mapping
from decimal import Decimal

from app.domain.event import Event, EventType
from app.domain.json import Json
from app.domain.ledger import LedgerEntry, LedgerKind
from app.engine.calls import Turn
from app.engine.drive import Drive
from app.engine.models import ModelAnswer, Usage
from app.engine.served import Seat
from app.engine.state import OpenCall


def model_answered(drive: Drive, seat: Seat, turn: Turn, answer: ModelAnswer) -> None:
    """A model has answered."""
    model_used(drive, turn.place, seat.agent.name, answer.model, answer.usage)
    data: dict[str, Json] = {
        "path": turn.path,
        "agent": seat.agent.name,
        "turn": turn.turn,
        "calls": len(answer.calls),
    }
    drive.journal.note(Event(type=EventType.MODEL_ANSWERED, data=data))


def model_used(drive: Drive, place: str, agent: str, name: str, usage: Usage) -> None:
    """A model was asked at a place; what it answered cost what it cost, whether it can be used or not."""
    entry = LedgerEntry(
        place=place,
        kind=LedgerKind.MODEL,
        agent=agent,
        name=name,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        cost=usage.cost or Decimal(0),
    )
    drive.journal.book(entry)


def call_started(drive: Drive, seat: Seat, call: OpenCall) -> None:
    """A call is about to be run, maybe not for the first time."""
    drive.journal.note(Event(type=EventType.TOOL_STARTED, data=_names(seat, call)))


def call_finished(drive: Drive, seat: Seat, call: OpenCall, *, failed: bool) -> None:
    """A call that was run has its result."""
    data = _names(seat, call) | {"failed": failed}
    drive.journal.note(Event(type=EventType.TOOL_FINISHED, data=data))
    call_settled(drive, seat, call)


def call_settled(drive: Drive, seat: Seat, call: OpenCall) -> None:
    """A call has its result, whether it was run or not."""
    _book_tool(drive, seat, call, LedgerKind.TOOL, call["place"], Decimal(0))


def costs_reported(drive: Drive, seat: Seat, call: OpenCall, costs: Mapping[str, Decimal]) -> None:
    """A call has reported what it cost, by places that stay the same when it is run again."""
    for place, cost in costs.items():
        _book_tool(drive, seat, call, LedgerKind.REPORT, place, cost)


def _book_tool(
    drive: Drive, seat: Seat, call: OpenCall, kind: LedgerKind, place: str, cost: Decimal
) -> None:
    entry = LedgerEntry(place=place, kind=kind, agent=seat.agent.name, name=call["tool"], cost=cost)
    drive.journal.book(entry)


def _names(seat: Seat, call: OpenCall) -> dict[str, Json]:
    return {
        "path": seat.place.path,
        "agent": seat.agent.name,
        "call_id": call["id"],
        "tool": call["tool"],
    }
