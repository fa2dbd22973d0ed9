"""A pause: one open question of a run. It opens once and is closed once.

open ──► decided      somebody allowed to, or the ask's own policy, answered
     ├─► expired      its deadline passed first
     ├─► cancelled    its run ended without it
     └─► superseded   a newer run took the thread
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.domain.ask import Policy
from app.domain.json import Json


class PauseKind(StrEnum):
    """What is asked."""

    APPROVAL = "approval"  # may this call be run?
    INTERACTIVE = "interactive"  # a question of a tool or of a model
    INPUT = "input"  # values that a person fills in
    EXTERNAL_RESULT = "external_result"  # what came of work that somebody else does
    CONFIRMATION = "confirmation"  # may this step begin?
    ROUTE = "route"  # which way on?
    REVIEW = "review"  # is this output good?
    ERROR = "error"  # a step failed: what now?
    UNKNOWN_OUTCOME = "unknown_outcome"  # a call may or may not have happened


class PauseLevel(StrEnum):
    """Whose question it is: a tool call's or a step's."""

    EXECUTOR = "executor"
    STEP = "step"


class PauseStatus(StrEnum):
    """Open, or how it was closed."""

    OPEN = "open"
    DECIDED = "decided"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A valid decision, in the one form that the row keeps and the engine is resumed with.

    `approved` is false for a rejection and for a declined question. `arguments` are the effective ones,
    where they were overridden; `edited` the ones sent. `output` stands for the one that was shown where
    `has_output` says so: it may be null. True values: only the engine reads this.
    """

    approved: bool
    by: str
    via: str
    shape: str  # verdict | value | action
    arguments: Json = None
    edited: Json = None
    has_output: bool = False
    output: Json = None
    value: Json = None
    action: str | None = None
    feedback: str | None = None
    digest: str | None = None

    def as_json(self) -> dict[str, Json]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Answer":
        return cls(**value)


DEADLINE = "deadline"
"""The door by which an ask's own policy decides, once nobody else did."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """An answer, and the masked decision that everybody may read."""

    answer: Answer
    shown: dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question as the engine puts it, before it is a row.

    `place` is unique in its run and stable over resumes and recoveries; asking again from the same place
    finds the row that is there. `shown` is the masked part of the pause's JSON (step, agent, call,
    position, message, options, choices, output, error, branch, allowed, response_schema). `secret` holds
    true values that a decision is checked against. `settled` is set where an automatic channel decided.
    """

    place: str
    line: str
    kind: PauseKind
    level: PauseLevel
    policy: Policy
    shown: dict[str, Json]
    secret: Json = None
    digest: str | None = None
    interrupt_id: str | None = None
    settled: Settled | None = None
