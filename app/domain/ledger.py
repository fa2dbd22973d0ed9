"""What model calls and tool calls cost."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final


class LedgerKind(StrEnum):
    """What the cost was for."""

    MODEL = "model"
    TOOL = "tool"  # a call; what it cost is in its reports
    REPORT = "report"  # what a tool has reported, each time


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


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model costs, in US dollars for a million tokens; cached ones are a part of the input."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None

    def of(self, *, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> Decimal:
        """What an answer costs."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh_tokens = input_tokens - cached_input_tokens
        full = (
            fresh_tokens * self.input + cached_input_tokens * cached + output_tokens * self.output
        )
        return full / 1_000_000


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a run has cost so far. `reports` are the places of what its tools have reported, which are in it."""

    cost: Decimal = Decimal(0)
    reports: frozenset[str] = frozenset()


NOTHING_SPENT: Final = Spent()
