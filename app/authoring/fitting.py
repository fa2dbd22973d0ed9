"""Whether the steps that a writer lists fit, from the first to the last."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.authoring.agent import Agent
from app.authoring.context import StepContext
from app.authoring.declared import Step
from app.authoring.function import (
    UnreadableSignature,
    hints_of,
    name_of,
    wrong_parameter,
    wrong_result,
)
from app.authoring.mistakes import Mistake, spoken_name
from app.authoring.shape import adapter_of, bare, fits, spoken_type, why_not_json
from app.authoring.step import AgentStep, FunctionStep, StepFunction, StepNode
from app.authoring.text import takes_text, text_field
from app.authoring.tool import Tool


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A step before its neighbours are known: what it takes and what it gives."""

    name: str
    run: Agent | StepFunction
    takes: Any
    gives: Any
    mistakes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"step {self.name!r}"


_TEXT = object()
"""What an agent without `output=` gives: a text, or what has room for one."""


def draft(steps: Sequence[object]) -> list[Draft]:
    """What a writer listed as steps, read one by one."""
    return [_draft(each) for each in steps]


def misfits(drafts: Sequence[Draft], first: Any, last: Any) -> Iterator[Mistake]:
    """What is wrong with the steps and between them, from the type `first` to `last`."""
    for each in drafts:
        yield from (Mistake(place=each.place, message=wrong) for wrong in each.mistakes)
    for each in drafts[:1]:
        if not fits(first, each.takes):
            wanted, given = spoken_type(each.takes), spoken_type(first)
            message = f"wants {wanted}, and the workflow's input is {given}"
            yield Mistake(place=each.place, message=message)
    followers = [*(f"{each.place} wants" for each in drafts[1:]), "the workflow's output is"]
    for each, wanted, follower in zip(drafts, _wanted(drafts, last), followers, strict=False):
        message = _misfit(each.gives, wanted)
        if message:
            message = message.format(f"{follower} {spoken_type(wanted)}")
            yield Mistake(place=each.place, message=message)


def build(drafts: Sequence[Draft], first: Any, last: Any) -> Iterator[StepNode]:
    """The steps, where nothing is wrong with them."""
    given = first
    for each, wanted in zip(drafts, _wanted(drafts, last), strict=True):
        if isinstance(each.run, Agent):
            field = text_field(wanted) if each.gives is _TEXT else None
            gives = _given_by_agent(each.gives, wanted, field)
            yield AgentStep(
                name=each.name,
                agent=each.run,
                input=adapter_of(given),
                output=adapter_of(gives),
                field=field,
            )
        else:
            gives = each.gives
            takes = adapter_of(each.takes)
            yield FunctionStep(name=each.name, fn=each.run, input=takes, output=adapter_of(gives))
        given = gives


def _wanted(drafts: Sequence[Draft], last: Any) -> list[Any]:
    """What is expected of each step: what the next one takes, and at last the output."""
    return [*(each.takes for each in drafts[1:]), Any if last is None else last]


def _given_by_agent(gives: Any, wanted: Any, field: str | None) -> Any:
    if gives is not _TEXT:
        return gives
    return wanted if field else str


def _misfit(gives: Any, wanted: Any) -> str | None:
    if gives is _TEXT:
        if takes_text(wanted) or text_field(wanted):
            return None
        return "answers in words, and {}: give the agent output="
    if fits(gives, wanted):
        return None
    return f"gives {spoken_type(gives)}, and {{}}"


def entry_name(entry: object) -> str:
    """The name of what a writer lists as a step: its own, the agent's or the function's."""
    match entry:
        case Step() | Agent():
            return entry.name
        case _:
            return name_of(entry) if callable(entry) else repr(entry)


def _draft(entry: object) -> Draft:
    name, run = entry_name(entry), entry.run if isinstance(entry, Step) else entry
    if isinstance(run, Agent):
        gives = _TEXT if run.output is None else run.output
        return Draft(name=name, run=run, takes=Any, gives=gives, mistakes=_wrong_name(name))
    if isinstance(run, Tool) or not callable(run):
        wrong = f"{run!r} is not a step: it is an Agent, a function, or Step(name, …)"
        return Draft(name=name, run=_nothing, takes=Any, gives=Any, mistakes=(wrong,))
    takes, gives, wrong = _read_function(run)
    return Draft(
        name=name, run=run, takes=takes, gives=gives, mistakes=(*_wrong_name(name), *wrong)
    )


def _nothing(context: StepContext, value: Any) -> None: ...


def _wrong_name(name: object) -> tuple[str, ...]:
    if name == "<lambda>":
        return ("a lambda has no name: write Step(name, …)",)
    wrong = spoken_name(name)
    return (wrong,) if wrong else ()


def _read_function(fn: Callable[..., Any]) -> tuple[Any, Any, list[str]]:
    """What a step function takes and gives, and what is wrong with it."""
    try:
        hints = hints_of(fn)
        parameters = list(inspect.signature(fn).parameters.values())
    except (UnreadableSignature, TypeError, ValueError) as error:
        return Any, Any, [str(error)]
    wrong = wrong_result(fn, hints) or _unstorable("result", hints["return"])
    gives = hints.get("return", Any)
    match parameters:
        case [context, value]:
            if bare(hints.get(context.name, StepContext)) is not StepContext:
                wrong.append(f"the first parameter, {context.name!r}, must be a StepContext")
            wrong += wrong_parameter(value, hints)
            takes = hints.get(value.name, Any)
        case _:
            wrong.append(f"it takes {len(parameters)} parameters; a step takes (context, value)")
            takes = Any
    wrong += _unstorable("input", takes)
    return takes, gives, wrong


def _unstorable(what: str, annotation: Any) -> list[str]:
    why = why_not_json(annotation)
    return [f"its {what} cannot be stored as JSON: {why}"] if why else []
