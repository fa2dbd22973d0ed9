"""What model calls and tool calls cost."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class LedgerKind(StrEnum):
    """What the cost was for."""

    MODEL = "model"
    TOOL = "tool"


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One call's cost. `place` is unique in its run: the same entry written twice counts once."""

    place: str
    kind: LedgerKind
    agent: str
    name: str  # the model's or the tool's
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost: Decimal = Decimal(0)
    """In US dollars."""
