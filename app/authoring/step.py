"""The steps of a workflow once they fit: a tree of frozen nodes, typed from the first to the last."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, cast

from pydantic import BaseModel, TypeAdapter

from app.authoring.agent import Agent
from app.authoring.asks import Approval
from app.authoring.channel import Channel
from app.authoring.context import StepContext
from app.authoring.existing import CompiledGraph
from app.authoring.function import call
from app.authoring.gates import Before, Choose, OnError, Review
from app.authoring.guardrails import Guards
from app.authoring.limits import Limits
from app.authoring.look import Look
from app.authoring.model_router import ModelRouter
from app.authoring.shape import adapter_of
from app.authoring.text import remarks_on, text_of

StepFunction: TypeAlias = Callable[[StepContext, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Node:
    """What every step has.

    `input` reads what the step is given, `output` what it gives itself. Every ask in it names its
    channel. `skippable` says that what it is given fits what comes next, so that it can be left
    out: only then may a failed one be skipped.
    """

    name: str
    description: str = ""
    input: TypeAdapter[Any]
    output: TypeAdapter[Any]
    before: tuple[Before, ...] = ()
    after: Review | None = None
    on_error: OnError = "fail"
    skippable: bool = True

    type: ClassVar[str]

    @property
    def children(self) -> "tuple[StepNode, ...]":
        """The steps right inside it."""
        return ()


@dataclass(frozen=True, kw_only=True)
class FunctionStep(Node):
    """A step that is a function of the output before it."""

    type: ClassVar[str] = "function"

    fn: StepFunction

    async def call(self, context: StepContext, value: Any) -> Any:
        """Runs it, a sync one in a thread; raises `ValidationError` where a type does not hold."""
        taken = self.input.validate_python(value)
        return self.output.validate_python(await call(self.fn, context, taken))


@dataclass(frozen=True, kw_only=True)
class AgentStep(Node):
    """A step that is an agent. `input` is what it is given, `output` what its answer becomes."""

    type: ClassVar[str] = "agent"

    agent: Agent
    field: str | None = None  # where the answer's text is put in `output`; None: it is the output

    def read(
        self,
        value: Any,
        *,
        inputs: Sequence[BaseModel] = (),
        feedback: str | None = None,
        previous_output: Any = None,
    ) -> str:
        """The work as the agent reads it.

        That is the value before it, what people filled in, and after a rejected review the answer
        that was rejected, with the feedback.
        """
        remarks = remarks_on(inputs, feedback, previous_output)
        return "\n\n".join([text_of(value), *remarks])

    @cached_property
    def said(self) -> TypeAdapter[Any]:
        """What the agent itself says: a text, or what its `output=` declares."""
        return adapter_of(str if self.agent.output is None else self.agent.output)

    def answer(self, said: Any) -> Any:
        """What becomes of that; raises `ValidationError` where it does not fit."""
        if self.field is not None:
            return self.output.validate_python({self.field: said}, by_alias=True, by_name=True)
        return self.output.validate_python(said)


@dataclass(frozen=True, kw_only=True)
class GraphNode(Node):
    """A graph that was built with LangGraph, run as it is; `asks` are the terms of what it asks."""

    type: ClassVar[str] = "graph"

    graph: CompiledGraph
    asks: Approval


@dataclass(frozen=True, kw_only=True)
class StepsNode(Node):
    """Steps one after the other, gated as one."""

    type: ClassVar[str] = "steps"

    steps: "tuple[StepNode, ...]"

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return self.steps


@dataclass(frozen=True, kw_only=True)
class ConditionNode(Node):
    """Steps that are taken if it is so, and others if not.

    Without `when`, its confirmation decides: approved takes `then`. With both, `when` is looked at
    once it is approved; rejected with `"else"` takes `otherwise` in any case. A branch of no steps
    hands on what it was given.
    """

    type: ClassVar[str] = "condition"

    when: Look[bool] | None
    then: "tuple[StepNode, ...]"
    otherwise: "tuple[StepNode, ...]" = ()

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return (*self.then, *self.otherwise)


@dataclass(frozen=True, kw_only=True)
class RouterNode(Node):
    """Takes one of its choices, or several one after the other, each seeing the one before."""

    type: ClassVar[str] = "router"

    choices: "tuple[StepNode, ...]"
    select: Look[str | Sequence[str]] | Choose | ModelRouter

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return self.choices

    def choice(self, name: str) -> "StepNode":
        """The choice of that name; it is known to be there."""
        return next(each for each in self.choices if each.name == name)

    def chosen(self, selected: object) -> tuple[str, ...]:
        """What a function selected, as names; raises `ValueError` where it is no choice."""
        found: object = [selected] if isinstance(selected, str) else selected
        if not isinstance(found, list | tuple) or not found:
            raise ValueError(f"the router {self.name!r} needs the name of a choice, or a list")
        names = tuple(self._known(each) for each in cast("Sequence[object]", found))
        if len(set(names)) < len(names):
            raise ValueError(f"the router {self.name!r} was given a choice twice")
        return names

    def _known(self, name: object) -> str:
        for each in self.choices:
            if each.name == name:
                return each.name
        raise ValueError(f"the router {self.name!r} has no choice {name!r}")


@dataclass(frozen=True, kw_only=True)
class LoopNode(Node):
    """Runs its steps again and again on what they gave, at least once, at most `max_iterations`.

    After each iteration `until` is looked at first: where it holds, the loop ends and nobody is
    asked. Then `after_each` asks: approved ends the loop, rejected with `"retry"` runs the next
    iteration with the feedback, after the last one the run is cancelled.
    """

    type: ClassVar[str] = "loop"

    steps: "tuple[StepNode, ...]"
    until: Look[bool] | None
    max_iterations: int
    after_each: Review | None = None

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return self.steps


@dataclass(frozen=True, kw_only=True)
class ParallelNode(Node):
    """Steps side by side on the same value; its output is a dict of theirs by name.

    A branch that was left out is not in it.
    """

    type: ClassVar[str] = "parallel"

    steps: "tuple[StepNode, ...]"

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return self.steps


class BuiltWorkflow:
    """A workflow as those around it and inside it see it."""

    name: str
    version: str
    history: int
    limits: Limits
    guards: Guards
    channels: tuple[Channel, ...]
    agents: tuple[Agent, ...]
    steps: "tuple[StepNode, ...]"
    input: TypeAdapter[Any]
    output: TypeAdapter[Any]
    input_type: Any
    output_type: Any


@dataclass(frozen=True, kw_only=True)
class WorkflowNode(Node):
    """A workflow as a step: it reads what it is given as its input, and gives its output."""

    type: ClassVar[str] = "workflow"

    workflow: BuiltWorkflow

    @property
    def children(self) -> "tuple[StepNode, ...]":
        return self.workflow.steps


StepNode: TypeAlias = (
    FunctionStep
    | AgentStep
    | GraphNode
    | StepsNode
    | ConditionNode
    | RouterNode
    | LoopNode
    | ParallelNode
    | WorkflowNode
)


def walk(steps: Sequence[StepNode], within: str) -> Iterator[tuple[str, StepNode]]:
    """Every step of a tree with its path, which begins with `within`; each before those in it."""
    for step in steps:
        path = f"{within}/{step.name}"
        yield path, step
        yield from walk(step.children, path)
