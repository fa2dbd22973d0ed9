"""One advance of one line: what it starts with, what it ends with, and what its nodes share meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from time import monotonic
from typing import TypeAlias

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime

from app.domain.facts import HistoryEntry
from app.domain.ids import CallId
from app.domain.json import Json
from app.domain.message import Message
from app.domain.pause import Answer, Ask
from app.domain.run import RunError, RunRef
from app.engine.audience import Audience
from app.engine.journal import Journal, in_task
from app.engine.models import ModelError

ROOT = "root"
"""The name of the line that is the workflow itself."""

SaveStepResult: TypeAlias = Callable[[CallId, str, Json], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class LineStart:
    """What an advance of a line starts from. All values are true ones.

    `fresh` says that the line has surely no checkpoint yet. `history` has, for each agent by name, what was
    said to and by it in earlier runs. `answers` are the decisions taken so far, by interrupt id;
    `step_results` what `context.step` has stored, by call and name; `save_step_result` stores one more,
    and has stored it when it returns. `outputs` are those of the steps that are completed, by place.
    `branches` are the places of the branches that the line is in, itself last; none of the root. `open` are the interrupts whose questions are open,
    `joined` has what a fork's branches gave, by its interrupt. `audience` hears what models are writing.
    """

    run: RunRef
    line: str = ROOT
    branches: tuple[str, ...] = ()
    input: Json
    fresh: bool = False
    history: Mapping[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    metadata: dict[str, Json] = field(default_factory=dict[str, Json])
    requested_by: str | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])
    step_results: Mapping[tuple[CallId, str], Json] = field(
        default_factory=dict[tuple[CallId, str], Json]
    )
    outputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    open: frozenset[str] = frozenset()
    joined: Mapping[str, Json] = field(default_factory=dict[str, Json])
    audience: Audience | None = None
    save_step_result: SaveStepResult


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The line waits for a decision."""

    ask: Ask


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The line has its output. `shown_output` is the masked one."""

    output: Json
    shown_output: Json
    stop_reason: str | None = None
    history: tuple[HistoryEntry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The line cannot go on, by its own fault. `cause` is what was raised, if something was."""

    error: RunError
    cause: BaseException | None = None


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    """Somebody turned down what the run needed to go on."""

    stop_reason: str


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """No line of the run can go on without a decision. `asks` are not opened yet."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, kw_only=True)
class Held:
    """The line waits for the decision of a question that is open already."""

    interrupt_id: str


@dataclass(frozen=True, kw_only=True)
class Forked:
    """The line waits for its branches: their names by their lines, and what each begins with."""

    interrupt_id: str
    branches: Mapping[str, str]
    given: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True)
class BranchEnded:
    """A branch has its output, unless it was left out."""

    output: Json
    left_out: bool
    said: Mapping[str, Json]
    secrets: Mapping[str, list[str]]
    decided: bool
    stop_reason: str | None = None


LineOutcome: TypeAlias = Asked | Held | Forked | BranchEnded | Ended | Failed | Cancelled
Outcome: TypeAlias = Waiting | Ended | Failed | Cancelled


@dataclass(frozen=True, kw_only=True)
class Fork:
    """What a line wants to be forked into, and the state that each branch begins with."""

    branches: Mapping[str, str]
    given: Mapping[str, Json]


class LineCancelled(Exception):
    """Raised in a node to end the run as cancelled."""


class Stopped(Exception):
    """Raised in a node of a line that may begin nothing new, since another line has ended the run."""


def step_outside() -> None:
    """Hides the graph from what the current task calls next.

    A tool or a model that runs a LangGraph or a LangChain runnable of its own would else become a part
    of the run's graph, with its checkpoints and its interrupts.
    """
    var_child_runnable_config.set(None)


class LineFailed(Exception):
    """Raised in a node to end the line by its own fault.

    `is_noted` says that the step stands as failed already.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        step: str | None = None,
        details: Json = None,
        is_noted: bool = False,
    ) -> None:
        super().__init__(message)
        self.error = RunError(code=code, message=message, step=step, details=details)
        self.is_noted = is_noted


def model_failed(error: ModelError, step: str) -> LineFailed:
    """A model gave no usable answer."""
    return LineFailed(error.code, error.message, step=step, details=error.details)


def expired(step: str) -> LineFailed:
    """Nobody decided in time, and the ask says that this fails the run."""
    return LineFailed("pause_expired", "Nobody decided before the deadline.", step=step)


def over_budget(budget: Decimal | None, step: str) -> LineFailed:
    """The run has cost what it may."""
    return LineFailed(
        "limit_exceeded",
        f"The run has spent its budget of {budget} US dollars.",
        step=step,
        details={"key": "limits.run_cost"},
    )


@dataclass(kw_only=True)
class Drive:
    """What the nodes of a line share during one advance. Nothing in it outlives the advance.

    All lines of a run have the same journal, results and outputs. `root` is the name of the workflow.
    """

    start: LineStart
    root: str
    journal: Journal
    secrets: frozenset[str] = frozenset()
    """The sensitive values of the run's input."""
    asking: Callable[[], Ask] | None = None
    """Builds the question that the line stopped with."""
    forking: Fork | None = None
    """What the line stopped to be forked into."""
    halt: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once another line has ended the run."""
    ran: set[str] = field(default_factory=set[str])
    """The places of the calls that were run in this advance."""
    step_results: dict[tuple[CallId, str], Json]
    outputs: dict[str, Json]
    budget: Decimal | None = None
    """What the run may cost, in US dollars."""
    _lapped_at: float = field(default_factory=monotonic)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of the run's budget."""
        return self.budget is not None and self.journal.spent >= self.budget

    def check_budget(self, step: str) -> None:
        """Raises `LineFailed` where nothing is left of it."""
        if self.is_spent:
            raise over_budget(self.budget, step)

    def lap(self) -> float:
        """Seconds since the last time, or since the line was begun or resumed."""
        before, self._lapped_at = self._lapped_at, monotonic()
        return self._lapped_at - before

    @property
    def base(self) -> str:
        """The place at which the line begins."""
        return self.start.branches[-1] if self.start.branches else self.root

    @property
    def is_followed(self) -> bool:
        """Whether anybody follows the run at this moment."""
        return self.start.audience is not None and self.start.audience.listens

    def of_line(self, start: LineStart) -> "Drive":
        """The same for another line of the run."""
        return replace(self, start=start, asking=None, forking=None, _lapped_at=monotonic())

    def check(self) -> None:
        """Raises `Stopped` where nothing new may begin."""
        if self.halt.is_set():
            raise Stopped


def drive_of(runtime: Runtime[Drive]) -> Drive:
    """What a node shares with the others of its line; what it notes from here on is its task's."""
    if runtime.execution_info is not None:
        in_task(runtime.execution_info.task_id)
    return runtime.context
