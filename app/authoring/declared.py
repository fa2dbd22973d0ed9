"""Steps as a writer lists them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

from app.authoring.agent import Agent
from app.authoring.gates import Before, Choose, OnError, Review
from app.authoring.model_router import ModelRouter
from app.authoring.step import BuiltWorkflow, StepFunction

LookFunction: TypeAlias = Callable[[Any], bool | Awaitable[bool]]
SelectFunction: TypeAlias = Callable[
    [Any], str | Sequence[str] | Awaitable[str] | Awaitable[Sequence[str]]
]


@dataclass(frozen=True, kw_only=True)
class Gates:
    """What every step may say: who is asked before it, in this order, and about its output.

    `description` is what a `ModelRouter` reads; without it, an agent's own, or a function's
    docstring.
    """

    before: Before | Sequence[Before] = ()
    after: Review | None = None
    description: str = ""


@dataclass(frozen=True)
class Step(Gates):
    """A named step: an agent, a function `(context, value)`, sync or async, or a workflow.

    Where an agent or a function fails, the run does (the default), or with `on_error="skip"` the
    step is left out, or somebody is asked.
    """

    name: str
    run: Agent | BuiltWorkflow | StepFunction
    _: KW_ONLY
    on_error: OnError = "fail"


@dataclass(frozen=True)
class Steps(Gates):
    """Steps one after the other, gated as one."""

    name: str
    steps: "Sequence[StepEntry]"


@dataclass(frozen=True)
class Condition(Gates):
    """Takes `then` where `when`, a function of the value before it, is true; else `otherwise`.

    Without `when`, a `Confirm` in `before` decides.
    """

    name: str
    _: KW_ONLY
    when: LookFunction | None = None
    then: "Sequence[StepEntry]"
    otherwise: "Sequence[StepEntry]" = ()


@dataclass(frozen=True)
class Router(Gates):
    """Takes one of its choices, or several one after the other.

    `select` is a function of the value before it that returns a name or a list of names, a
    `Choose`, or a `ModelRouter`.
    """

    name: str
    _: KW_ONLY
    choices: "Sequence[StepEntry]"
    select: SelectFunction | Choose | ModelRouter


@dataclass(frozen=True)
class Loop(Gates):
    """Runs its steps on what they gave until a function of it holds, or somebody is content.

    At least once, at most `max_iterations` times.
    """

    name: str
    _: KW_ONLY
    steps: "Sequence[StepEntry]"
    until: LookFunction | None = None
    max_iterations: int
    after_each: Review | None = None


@dataclass(frozen=True)
class Parallel(Gates):
    """Runs steps side by side on the same value; gives a dict of their outputs by name."""

    name: str
    steps: "Sequence[StepEntry]"


Container: TypeAlias = Steps | Condition | Router | Loop | Parallel
StepEntry: TypeAlias = Agent | StepFunction | BuiltWorkflow | Step | Container
