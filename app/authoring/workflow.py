"""Workflows: a named, versioned list of steps, checked as a whole when it is built."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from app.authoring.agent import Agent
from app.authoring.channel import Channel
from app.authoring.describe import describe_agent, describe_step, fingerprint_of, mermaid
from app.authoring.mistakes import (
    Mistake,
    WorkflowMistakes,
    public_name,
    repeated,
    version_number,
)
from app.authoring.shape import adapter_of, load, schema_of
from app.authoring.step import Step, StepFunction, StepNode, connect, entry_name
from app.domain.json import Json

StepEntry: TypeAlias = Agent | Step | StepFunction


class Workflow:
    """A list of steps that turns an `input` into an `output`.

    Raises `AuthoringError` with every mistake in it and in its parts, each with its place.

    Args:
        name: Its name, as callers start it by.
        version: As in `"1.0.0"`; several versions may be served side by side.
        input: The type of what a run is given.
        output: The type of what a run gives; without it, that of the last step.
        steps: Agents, functions `(context, value)` and `Step(name, …)`, run in this order.
        channels: Everybody who may be asked in it.
        history: How many finished runs of the thread an agent remembers.
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
    ) -> None:
        self.name = name
        self.version = version
        self.history = history
        self.channels = tuple(channels)
        nodes, misfits = connect(steps, input, output)
        agents = [each for each in (_agent_in(entry) for entry in steps) if each is not None]
        self.agents = tuple(dict.fromkeys(agents))
        mistakes = [
            *self._own_mistakes(input, output, steps),
            *self._mistakes_of_channels(),
            *misfits,
        ]
        mistakes += [wrong for agent in self.agents for wrong in agent.mistakes()]
        if mistakes:
            raise WorkflowMistakes(name, mistakes)
        self.steps: tuple[StepNode, ...] = nodes
        self.input: TypeAdapter[Any] = adapter_of(input)
        self.output: TypeAdapter[Any] = nodes[-1].output if output is None else adapter_of(output)

    def __repr__(self) -> str:
        return f"Workflow({self.name!r}, version={self.version!r})"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of its shape: a paused run goes on only where the shape is the same."""
        return fingerprint_of(self.name, self.steps)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return schema_of(self.input)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.output)

    def read_input(self, value: Json) -> Any:
        """The typed input; raises pydantic's `ValidationError`, also for members it does not name."""
        return load(self.input, value, closed=True)

    def channel(self, name: str) -> Channel | None:
        """The channel of that name, if it has one."""
        return next((each for each in self.channels if each.name == name), None)

    def description(self) -> Json:
        """All that may be known about it, as JSON: steps, agents, tools, whom they ask, schemas, a graph."""
        return {
            "name": self.name,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "history": self.history,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "steps": [describe_step(self.name, at, step) for at, step in enumerate(self.steps)],
            "agents": [describe_agent(agent) for agent in self.agents],
            "channels": [
                {"name": each.name, "type": type(each).__name__} for each in self.channels
            ],
            "graph": mermaid(self.steps),
        }

    def _own_mistakes(self, input: Any, output: Any, steps: Sequence[object]) -> Iterator[Mistake]:
        wrong = [public_name(self.name), version_number(self.version)]
        yield from (_here(each) for each in wrong if each)
        if type(self.history) is not int or self.history < 0:
            yield _here(f"history={self.history!r} must be a whole number from 0")
        if not steps:
            yield _here("it has no steps")
        for name in repeated(entry_name(entry) for entry in steps):
            yield _here(f"two steps have the name {name!r}")
        for name in repeated(agent.name for agent in self.agents):
            yield _here(f"two agents have the name {name!r}")
        yield from _mistakes_of_type("input", input)
        if output is not None:
            yield from _mistakes_of_type("output", output)

    def _mistakes_of_channels(self) -> Iterator[Mistake]:
        channels = [each for each in self.channels if isinstance(each, Channel)]
        if len(channels) < len(self.channels):
            yield _here("channels= has something that is not a channel")
        yield from _mistakes_of_channel_names(channels)
        for agent in self.agents:
            for place, channel in agent.channels():
                wrong = _unknown_channel(channel, channels)
                if wrong:
                    yield Mistake(place=f"agent {agent.name!r}, {place}", message=wrong)


def _here(message: str) -> Mistake:
    return Mistake(place="workflow", message=message)


def _agent_in(entry: object) -> Agent | None:
    run = entry.run if isinstance(entry, Step) else entry
    return run if isinstance(run, Agent) else None


def _mistakes_of_type(what: str, annotation: Any) -> Iterator[Mistake]:
    try:
        schema_of(adapter_of(annotation))
    except Exception as error:  # noqa: BLE001 - a type's own schema code can raise anything
        yield _here(f"{what}= cannot be read from JSON: {error}")


def _mistakes_of_channel_names(channels: Sequence[Channel]) -> Iterator[Mistake]:
    for each in channels:
        wrong = public_name(each.name)
        if wrong:
            yield Mistake(place=f"channel {each.name!r}", message=wrong)
        elif "__" in each.name:
            message = "its name must not have '__', which divides the names of settings"
            yield Mistake(place=f"channel {each.name!r}", message=message)
    for name in repeated(
        str(each.name).lower().replace("-", "_") for each in dict.fromkeys(channels)
    ):
        yield _here(f"two channels have the name {name!r}")


def _unknown_channel(channel: object, known: Sequence[Channel]) -> str | None:
    if not isinstance(channel, Channel) or channel in known:
        return None
    namesake = next((each for each in known if each.name == channel.name), None)
    if namesake is None:
        return f"asks the channel {channel.name!r}, which is not in channels="
    return f"asks {channel!r}, and channels= has {namesake!r} by that name"
