"""Workflows: a named, versioned list of steps, checked as a whole when it is built."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, cast

from app.authoring.agent import Agent
from app.authoring.asking import mistakes_of_asking, same_channel
from app.authoring.asks import Approval
from app.authoring.building import Builder
from app.authoring.channel import Channel
from app.authoring.checking import mistakes_of, wrong_steps
from app.authoring.declared import StepEntry
from app.authoring.describe import (
    describe_agent,
    describe_budget,
    describe_ends,
    describe_steps,
    stops_of,
)
from app.authoring.diagram import mermaid
from app.authoring.draft import Draft, all_drafts, drafts_of
from app.authoring.existing import ExistingGraph
from app.authoring.fingerprint import fingerprint_of
from app.authoring.fitting import Wish, Wishes, given_by, misfits, wishes
from app.authoring.guardrails import NO_GUARDS, Guards
from app.authoring.kinds import fits
from app.authoring.limits import DEFAULT_LIMITS, Limits
from app.authoring.mistakes import (
    Mistake,
    WorkflowMistakes,
    as_list,
    channel_name,
    public_name,
    repeated,
    version_number,
    wrong_count,
)
from app.authoring.shape import adapter_of, load, schema_of, spoken_type, why_not_json
from app.authoring.step import BuiltWorkflow, GraphNode, WorkflowNode, walk
from app.domain.json import Json

ANYBODY = Approval()
"""Terms that name nobody and no time."""


class Workflow(BuiltWorkflow):
    """A list of steps that turns an `input` into an `output`.

    Raises `AuthoringError` with every mistake in it and in its parts, each with its place.

    Args:
        name: Its name, as callers start it by.
        version: As in `"1.0.0"`; several versions may be served side by side.
        input: The type of what a run is given.
        output: The type of what a run gives; without it, that of the last step.
        steps: Agents, functions `(context, value)`, workflows, `Step(name, …)`, and `Steps`,
            `Condition`, `Router`, `Loop` and `Parallel` of them, run in this order.
        channels: Everybody who may be asked in it, beside those of the workflows in it. An ask of a
            step that names no channel asks the first.
        history: How many finished runs of the thread an agent remembers.
        limits: What a run may cost, `Limits(run_cost=…)`; the smallest of it and of the workflows in
            it.
        guards: Functions that look at the input and at the output.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        input: Any,
        output: Any = None,
        steps: Sequence[StepEntry],
        channels: Sequence[Channel] = (),
        history: int = 0,
        limits: Limits = DEFAULT_LIMITS,
        guards: Guards = NO_GUARDS,
    ) -> None:
        self.name = name
        self.version = version
        self.history = history
        self.limits = limits
        self.guards = guards
        drafts = drafts_of(steps)
        each_step = list(all_drafts(drafts))
        own = _channels_among(channels)
        self.agents = tuple(dict.fromkeys(_agents_of(each_step)))
        self.channels = (*own, *_channels_inside(each_step, own))
        wanted = (
            [] if output is None else [Wish(place="the workflow's output", verb="is", type=output)]
        )
        mistakes = [
            *_mistakes_of_workflow(name, version, history),
            *(_here(wrong) for wrong in _mistakes_of_limits(limits)),
            *(_here(wrong) for wrong in _mistakes_of_guards(guards)),
            *_mistakes_of_type("input", input),
            *(_mistakes_of_type("output", output) if output is not None else ()),
            *(_here(wrong) for wrong in wrong_steps("steps", steps)),
            *_mistakes_of_names(self.agents),
            *_mistakes_of_channels(channels, self.channels),
            *mistakes_of(drafts),
            *_mistakes_of_types(drafts, input, wanted),
            *(wrong for agent in self.agents for wrong in agent.mistakes()),
            *mistakes_of_asking(each_step, self.agents, self.channels),
            *_mistakes_of_graphs(each_step),
        ]
        if mistakes:
            raise WorkflowMistakes(name, mistakes)
        builder = Builder(channel=next(iter(self.channels), None))
        self.steps = builder.sequence(drafts, input, wanted)
        self.input_type = input
        self.output_type = given_by(drafts, input, wanted) if output is None else output
        self.input = adapter_of(self.input_type)
        self.output = adapter_of(self.output_type)

    @classmethod
    def from_graph(
        cls,
        name: str,
        graph: object,
        *,
        version: str,
        channels: Sequence[Channel],
        asks: Approval = ANYBODY,
        input: Any = None,
        output: Any = None,
    ) -> "Workflow":
        """A workflow that is a compiled graph of LangGraph, run as it is.

        What its nodes, tools and middleware ask by `interrupt()` are pauses. Raises
        `AuthoringError`.

        Args:
            name: Its name, as callers start it by.
            graph: The compiled graph; a checkpointer it has is not used.
            version: As in `"1.0.0"`.
            channels: Everybody who may be asked.
            asks: The terms of all its pauses; without a channel, the first is asked.
            input: What a run is given, if not what the graph itself takes: a model with fields of
                its state, or `str`, which becomes a message.
            output: What a run gives, if not all that the graph gives: a model with fields of its
                state, or `str`, the text of the last message.
        """
        existing = ExistingGraph(graph=graph, asks=asks, input=input, output=output)
        return cls(
            name,
            version=version,
            input=existing.takes,
            output=existing.gives,
            steps=[cast("Any", existing)],
            channels=channels,
        )

    def __repr__(self) -> str:
        return f"Workflow({self.name!r}, version={self.version!r})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of its shape: a paused run goes on only where the shape is the same."""
        return fingerprint_of(self)

    @cached_property
    def budget(self) -> Decimal | None:
        """What a run may cost, in US dollars; None where nothing is said."""
        inner = [
            each.workflow for _, each in walk(self.steps, "") if isinstance(each, WorkflowNode)
        ]
        costs = [each.limits.run_cost for each in (self, *inner)]
        return min((each for each in costs if each is not None), default=None)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return schema_of(self.input)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.output)

    def read_input(self, value: Json) -> Any:
        """The typed input; raises pydantic's `ValidationError`, also for unknown members."""
        return load(self.input, value, closed=True)

    def channel(self, name: str) -> Channel | None:
        """The channel of that name, if it has one."""
        return next((each for each in self.channels if each.name == name), None)

    def description(self) -> Json:
        """All that may be known about it, as JSON: steps, agents, tools, asks, a graph."""
        return {
            "name": self.name,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "history": self.history,
            "limits": describe_budget(self.budget),
            "guards": describe_ends(self),
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "steps": describe_steps(self.steps, self.name),
            "stops": list(stops_of(self.steps, self.name)),
            "agents": [describe_agent(agent) for agent in self.agents],
            "channels": [
                {"name": each.name, "type": type(each).__name__} for each in self.channels
            ],
            "graph": mermaid(self.steps),
        }


def _here(message: str) -> Mistake:
    return Mistake(place="workflow", message=message)


def _channels_among(channels: object) -> tuple[Channel, ...]:
    return tuple(each for each in as_list(channels) or [] if isinstance(each, Channel))


def _agents_of(steps: Sequence[Draft]) -> Iterator[Agent]:
    for step in steps:
        match step.run:
            case Agent() as agent:
                yield agent
            case BuiltWorkflow() as inner:
                yield from inner.agents
            case _:
                pass


def _channels_inside(steps: Sequence[Draft], own: Sequence[Channel]) -> tuple[Channel, ...]:
    """Those of the workflows in it that it has not named itself."""
    found: list[Channel] = []
    for inner in (step.run for step in steps if isinstance(step.run, BuiltWorkflow)):
        for channel in inner.channels:
            if not any(same_channel(channel, each) for each in (*own, *found)):
                found.append(channel)
    return tuple(found)


def _mistakes_of_workflow(name: object, version: object, history: object) -> Iterator[Mistake]:
    for wrong in (public_name(name), version_number(version)):
        if wrong:
            yield _here(wrong)
    for wrong in wrong_count("history", history):
        yield _here(wrong)


def _mistakes_of_limits(limits: object) -> Iterator[str]:
    if isinstance(limits, Limits):
        yield from limits.mistakes_of_workflow()
    else:
        yield "limits= must be Limits(...)"


def _mistakes_of_guards(guards: object) -> Iterator[str]:
    if isinstance(guards, Guards):
        yield from guards.mistakes()
    else:
        yield "guards= must be Guards(...)"


def _mistakes_of_type(what: str, annotation: Any) -> Iterator[Mistake]:
    why = why_not_json(annotation)
    if why:
        yield _here(f"{what}= cannot be read from JSON: {why}")


def _mistakes_of_names(agents: Sequence[Agent]) -> Iterator[Mistake]:
    for name in repeated(agent.name for agent in agents):
        yield _here(f"two agents have the name {name!r}")


def _mistakes_of_types(steps: Sequence[Draft], given: Any, after: Wishes) -> Iterator[Mistake]:
    for wish in wishes(steps, after):
        if not fits(given, wish.type):
            message = f"{wish.demand}, and the workflow's input is {spoken_type(given)}"
            yield Mistake(place=wish.place, message=message)
    yield from misfits(steps, given, after)


def _mistakes_of_graphs(steps: Sequence[Draft]) -> Iterator[Mistake]:
    for step in steps:
        match step.run:
            case BuiltWorkflow(steps=[GraphNode()]):
                message = "is a graph, which is a workflow of its own and no step of another yet"
                yield Mistake(place=step.place, message=message)
            case _:
                pass


def _mistakes_of_channels(channels: object, found: Sequence[Channel]) -> Iterator[Mistake]:
    listed = as_list(channels)
    if listed is None:
        yield _here("channels= must be a list")
    for each in listed or []:
        if not isinstance(each, Channel):
            yield _here(f"channels= has {each!r}, which is not a channel")
    for each in found:
        wrong = channel_name(each.name)
        if wrong:
            yield Mistake(place=f"channel {each.name!r}", message=wrong)
    for name in repeated(str(each.name).lower().replace("-", "_") for each in found):
        yield _here(f"two channels have the name {name!r}")
