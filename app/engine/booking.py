"""Books what an agent's model and tools do: events for those who watch, ledger entries for those who pay.

Every model call and every tool call stands in the ledger once; a call does when it has its result.
"""

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
    _book_model(drive, seat, turn, answer.model, answer.usage)
    data: dict[str, Json] = {
        "path": turn.path,
        "agent": seat.agent.name,
        "turn": turn.turn,
        "calls": len(answer.calls),
    }
    drive.journal.note(Event(type=EventType.MODEL_ANSWERED, data=data))


def model_failed(drive: Drive, seat: Seat, turn: Turn, usage: Usage) -> None:
    """A model has given an answer that cannot be used; it cost what it cost."""
    _book_model(drive, seat, turn, str(seat.agent.model), usage)


def _book_model(drive: Drive, seat: Seat, turn: Turn, name: str, usage: Usage) -> None:
    entry = LedgerEntry(
        place=turn.place,
        kind=LedgerKind.MODEL,
        agent=seat.agent.name,
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


def call_finished(drive: Drive, seat: Seat, call: OpenCall, *, failed: bool, cost: Decimal) -> None:
    """A call that was run has its result."""
    data = _names(seat, call) | {"failed": failed}
    drive.journal.note(Event(type=EventType.TOOL_FINISHED, data=data))
    call_settled(drive, seat, call, cost)


def call_settled(drive: Drive, seat: Seat, call: OpenCall, cost: Decimal = Decimal(0)) -> None:
    """A call has its result, whether it was run or not."""
    entry = LedgerEntry(
        place=call["place"],
        kind=LedgerKind.TOOL,
        agent=seat.agent.name,
        name=call["tool"],
        cost=cost,
    )
    drive.journal.book(entry)


def _names(seat: Seat, call: OpenCall) -> dict[str, Json]:
    return {
        "path": seat.place.path,
        "agent": seat.agent.name,
        "call_id": call["id"],
        "tool": call["tool"],
    }
