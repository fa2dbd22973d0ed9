"""What a worker has to write about its run, gathered until the next statement that writes it."""

from dataclasses import dataclass

from app.domain.event import Event
from app.domain.json import Json
from app.domain.ledger import LedgerEntry
from app.domain.message import Message
from app.domain.pause import Ask
from app.domain.run import RunError, RunStatus
from app.domain.step import StepRecord


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that happened since the last write. `settled` are asks that a channel decided at once."""

    events: tuple[Event, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    settled: tuple[Ask, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """What was said in one run to and by one agent, without its prompt and what came before."""

    agent: str
    messages: list[Message]


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended. `output` is the true value, `shown_output` the masked one."""

    status: RunStatus
    output: Json = None
    shown_output: Json = None
    stop_reason: str | None = None
    error: RunError | None = None
    history: tuple[HistoryEntry, ...] = ()
