"""Workflows: a named, versioned list of steps, checked as a whole when it is built."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from app.authoring.agent import Agent
from app.authoring.channel import Channel
from app.authoring.declared import Step, StepEntry
from app.authoring.describe import describe_agent, describe_step, fingerprint_of, mermaid
from app.authoring.fitting import build, draft, entry_name, misfits
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
from app.authoring.shape import adapter_of, load, schema_of, why_not_json
from app.authoring.step import BuiltWorkflow, StepNode
from app.domain.json import Json


class Workflow(BuiltWorkflow):
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
        self.channels = _channels_among(channels)
        entries = as_list(steps) or []
        self.agents = tuple(dict.fromkeys(_agents_among(entries)))
        drafts = draft(entries)
        mistakes = [
            *_mistakes_of_workflow(name, version, history),
            *_mistakes_of_type("input", input),
            *(_mistakes_of_type("output", output) if output is not None else ()),
            *_mistakes_of_steps(steps, self.agents),
            *_mistakes_of_channels(channels),
            *misfits(drafts, input, output),
            *(wrong for agent in self.agents for wrong in agent.mistakes()),
            *self._mistakes_of_asking(),
        ]
        if mistakes:
            raise WorkflowMistakes(name, mistakes)
        self.steps: tuple[StepNode, ...] = tuple(build(drafts, input, output))
        self.input_type, self.output_type = input, output
        self.input: TypeAdapter[Any] = adapter_of(input)
        self.output: TypeAdapter[Any] = (
            self.steps[-1].output if output is None else adapter_of(output)
        )

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
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "steps": [describe_step(self.name, at, step) for at, step in enumerate(self.steps)],
            "agents": [describe_agent(agent) for agent in self.agents],
            "channels": [
                {"name": each.name, "type": type(each).__name__} for each in self.channels
            ],
            "graph": mermaid(self.steps),
        }

    def _mistakes_of_asking(self) -> Iterator[Mistake]:
        for agent in self.agents:
            for place, channel in agent.channels():
                wrong = _unknown_channel(channel, self.channels)
                if wrong:
                    yield Mistake(place=f"agent {agent.name!r}, {place}", message=wrong)


def _here(message: str) -> Mistake:
    return Mistake(place="workflow", message=message)


def _channels_among(channels: object) -> tuple[Channel, ...]:
    return tuple(each for each in as_list(channels) or [] if isinstance(each, Channel))


def _agents_among(entries: Sequence[object]) -> Iterator[Agent]:
    for entry in entries:
        run = entry.run if isinstance(entry, Step) else entry
        if isinstance(run, Agent):
            yield run


def _mistakes_of_workflow(name: object, version: object, history: object) -> Iterator[Mistake]:
    for wrong in (public_name(name), version_number(version)):
        if wrong:
            yield _here(wrong)
    for wrong in wrong_count("history", history):
        yield _here(wrong)


def _mistakes_of_type(what: str, annotation: Any) -> Iterator[Mistake]:
    why = why_not_json(annotation)
    if why:
        yield _here(f"{what}= cannot be read from JSON: {why}")


def _mistakes_of_steps(steps: object, agents: Sequence[Agent]) -> Iterator[Mistake]:
    entries = as_list(steps)
    if not entries:
        yield _here("steps= must be a list with at least one step")
    for name in repeated(entry_name(entry) for entry in entries or []):
        yield _here(f"two steps have the name {name!r}")
    for name in repeated(agent.name for agent in agents):
        yield _here(f"two agents have the name {name!r}")


def _mistakes_of_channels(channels: object) -> Iterator[Mistake]:
    listed = as_list(channels)
    if listed is None:
        yield _here("channels= must be a list")
    for each in listed or []:
        if not isinstance(each, Channel):
            yield _here(f"channels= has {each!r}, which is not a channel")
    found = _channels_among(channels)
    for each in found:
        wrong = channel_name(each.name)
        if wrong:
            yield Mistake(place=f"channel {each.name!r}", message=wrong)
    for name in repeated(str(each.name).lower().replace("-", "_") for each in found):
        yield _here(f"two channels have the name {name!r}")


def _unknown_channel(channel: Channel, known: Sequence[Channel]) -> str | None:
    if any(type(each) is type(channel) and vars(each) == vars(channel) for each in known):
        return None
    namesake = next((each for each in known if each.name == channel.name), None)
    if namesake is None:
        return f"asks the channel {channel.name!r}, which is not in channels="
    return f"asks {channel!r}, and channels= has another {namesake!r}"
