"""The steps of a workflow: as a writer lists them, and as they are once their types are known to fit."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from app.authoring.agent import Agent
from app.authoring.context import StepContext
from app.authoring.function import (
    UnreadableSignature,
    call,
    hints_of,
    name_of,
    wrong_parameter,
    wrong_result,
)
from app.authoring.mistakes import Mistake, spoken_name
from app.authoring.shape import adapter_of, bare, fits, schema_of, spoken_type
from app.authoring.text import takes_text, text_field, text_of
from app.authoring.tool import Tool

StepFunction: TypeAlias = Callable[[StepContext, Any], Any]


@dataclass(frozen=True)
class Step:
    """A named step: an agent, or a function `(context, value)`, sync or async."""

    name: str
    run: Agent | StepFunction


@dataclass(frozen=True, kw_only=True)
class FunctionStep:
    """A step that is a function of the output before it."""

    name: str
    fn: StepFunction
    input: TypeAdapter[Any]
    output: TypeAdapter[Any]

    async def call(self, context: StepContext, value: Any) -> Any:
        """Runs it, in a thread if it is not async; raises `ValidationError` where a type does not hold."""
        taken = self.input.validate_python(value)
        return self.output.validate_python(await call(self.fn, context, taken))


@dataclass(frozen=True, kw_only=True)
class AgentStep:
    """A step that is an agent. `input` is what it is given, `output` what its answer becomes."""

    name: str
    agent: Agent
    input: TypeAdapter[Any]
    output: TypeAdapter[Any]
    field: str | None = None  # where the answer's text is put in `output`; None: it is the output

    def read(self, value: Any) -> str:
        """The value before it, as the agent reads it."""
        return text_of(value)

    def answer(self, text: str) -> Any:
        """What the agent's answer becomes; raises `ValidationError` where it does not fit."""
        if self.agent.output is not None:
            return self.output.validate_json(text)
        if self.field is not None:
            return self.output.validate_python({self.field: text}, by_alias=True, by_name=True)
        return self.output.validate_python(text)


StepNode: TypeAlias = FunctionStep | AgentStep


@dataclass(frozen=True, kw_only=True)
class _Draft:
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


def connect(
    steps: Sequence[object], first: Any, last: Any
) -> tuple[tuple[StepNode, ...], list[Mistake]]:
    """The steps in sequence, from a value of type `first` to one of type `last` (None: whatever comes).

    Gives no nodes where anything is wrong with them.
    """
    drafts = [_draft(each) for each in steps]
    wanted = [(each.takes, f"{each.place} wants") for each in drafts[1:]]
    wanted.append((Any if last is None else last, "the workflow's output is"))
    mistakes = [
        Mistake(place=each.place, message=wrong) for each in drafts for wrong in each.mistakes
    ]
    if drafts and not fits(first, drafts[0].takes):
        message = f"wants {spoken_type(drafts[0].takes)}, and the workflow's input is {spoken_type(first)}"
        mistakes.append(Mistake(place=drafts[0].place, message=message))
    for draft, (expected, who) in zip(drafts, wanted, strict=True):
        mistakes += _misfit(draft, expected, who)
    if mistakes:
        return (), mistakes
    return tuple(_nodes(drafts, first, [expected for expected, _ in wanted])), []


def entry_name(entry: object) -> str:
    """The name of what a writer lists as a step: its own, the agent's or the function's."""
    match entry:
        case Step() | Agent():
            return entry.name
        case _:
            return name_of(entry) if callable(entry) else repr(entry)


def _draft(entry: object) -> _Draft:
    name, run = entry_name(entry), entry.run if isinstance(entry, Step) else entry
    if isinstance(run, Agent):
        gives = _TEXT if run.output is None else run.output
        return _Draft(name=name, run=run, takes=Any, gives=gives, mistakes=_wrong_name(name))
    if isinstance(run, Tool) or not callable(run):
        wrong = f"{run!r} is not a step: it is an Agent, a function, or Step(name, …)"
        return _Draft(name=name, run=_nothing, takes=Any, gives=Any, mistakes=(wrong,))
    takes, gives, wrong = _read_function(run)
    return _Draft(
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
    wrong = wrong_result(fn, hints)
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
    wrong += _unstorable("input", takes) + _unstorable("result", gives)
    return takes, gives, wrong


def _unstorable(what: str, annotation: Any) -> list[str]:
    try:
        schema_of(adapter_of(annotation))
    except Exception as error:  # noqa: BLE001 - a type's own schema code can raise anything
        return [f"its {what} cannot be stored as JSON: {error}"]
    return []


def _misfit(draft: _Draft, expected: Any, who: str) -> list[Mistake]:
    if draft.gives is _TEXT:
        if takes_text(expected) or text_field(expected):
            return []
        message = f"answers in words, and {who} {spoken_type(expected)}: give the agent output="
    elif fits(draft.gives, expected):
        return []
    else:
        message = f"gives {spoken_type(draft.gives)}, and {who} {spoken_type(expected)}"
    return [Mistake(place=draft.place, message=message)]


def _nodes(drafts: list[_Draft], first: Any, expected: list[Any]) -> Iterator[StepNode]:
    given = first
    for draft, wanted in zip(drafts, expected, strict=True):
        if isinstance(draft.run, Agent):
            field = text_field(wanted) if draft.gives is _TEXT else None
            gives = draft.gives if draft.gives is not _TEXT else wanted if field else str
            yield AgentStep(
                name=draft.name,
                agent=draft.run,
                input=adapter_of(given),
                output=adapter_of(gives),
                field=field,
            )
        else:
            gives = draft.gives
            yield FunctionStep(
                name=draft.name,
                fn=draft.run,
                input=adapter_of(draft.takes),
                output=adapter_of(gives),
            )
        given = gives
