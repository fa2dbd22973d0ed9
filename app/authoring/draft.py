"""Steps as they were listed, read one by one: what each takes and gives, before its neighbours count."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from app.authoring.agent import Agent
from app.authoring.context import StepContext
from app.authoring.declared import Condition, Container, Gates, Loop, Parallel, Router, Step, Steps
from app.authoring.existing import ExistingGraph
from app.authoring.function import (
    UnreadableSignature,
    hints_of,
    name_of,
    wrong_parameter,
    wrong_result,
)
from app.authoring.gates import AskError, AskInput, Before, Choose, Confirm, Gate, Review
from app.authoring.look import LookDraft, read_look
from app.authoring.mistakes import as_list
from app.authoring.model_router import ModelRouter
from app.authoring.shape import bare, why_not_json
from app.authoring.step import BuiltWorkflow, StepFunction
from app.authoring.tool import Tool

TEXT = object()
"""What an agent without `output=` gives: a text, or what has room for one."""

Run: TypeAlias = Agent | ExistingGraph | BuiltWorkflow | StepFunction | Container


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """A step as it was listed. `path` names it below its workflow.

    `takes` and `gives` are the types of a step that is no container; `branches` are the ways through
    one that is: those of a router and of a parallel are of one step each.
    """

    name: str
    path: str
    run: Run
    gates: Gates = field(default_factory=Gates)
    takes: Any = Any
    gives: Any = Any
    branches: "tuple[tuple[Draft, ...], ...]" = ()
    look: LookDraft | None = None
    is_step: bool = True
    mistakes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"step {self.path!r}"

    @cached_property
    def before(self) -> tuple[Before, ...]:
        """What is asked before it, as far as it can be."""
        return tuple(each for each in self.listed_before if isinstance(each, Confirm | AskInput))

    @cached_property
    def listed_before(self) -> Sequence[object]:
        """What stands in `before=`."""
        found: object = self.gates.before
        listed = as_list(found)
        return [found] if listed is None else listed

    @property
    def after(self) -> Review | None:
        return self.gates.after if isinstance(self.gates.after, Review) else None

    @property
    def on_error(self) -> object:
        """What becomes of its failure, as it was listed."""
        return self.gates.on_error if isinstance(self.gates, Step) else "fail"

    @property
    def choose(self) -> Choose | None:
        """How a router has a person choose, if it does."""
        match self.run:
            case Router(select=Choose() as choose):
                return choose
            case _:
                return None

    @property
    def after_each(self) -> Review | None:
        """What is asked after each iteration of a loop, if anything is."""
        match self.run:
            case Loop(after_each=Review() as review):
                return review
            case _:
                return None

    @property
    def asks(self) -> list[tuple[str, Gate]]:
        """Every ask of the step itself, with where it stands, in the order in which they come."""
        found: list[tuple[str, object]] = [
            *(("before", each) for each in self.before),
            ("select", self.choose),
            ("after_each", self.after_each),
            ("after", self.after),
            ("on_error", self.on_error),
        ]
        return [(where, ask) for where, ask in found if isinstance(ask, Gate)]

    @property
    def is_left_out(self) -> bool:
        """Whether what the writer declares may leave it out, so that it hands on what it is given."""
        rejected = [*self.before, self.choose, self.after]
        skips = [each.on_reject == "skip" for each in rejected if each is not None]
        error = self.on_error
        expired = isinstance(error, AskError) and error.on_expire == "skip"
        return any(skips) or expired or error == "skip"

    @property
    def description(self) -> str:
        """What a model reads of it."""
        if self.gates.description:
            return self.gates.description
        match self.run:
            case Agent():
                return self.run.description
            case ExistingGraph() | BuiltWorkflow():
                return ""
            case Steps() | Condition() | Router() | Loop() | Parallel():
                return ""
            case fn:
                return inspect.getdoc(fn) or "" if inspect.isroutine(fn) else ""


def drafts_of(entries: object, within: str = "") -> tuple[Draft, ...]:
    """What stands in a list of steps, read one by one. Where there is no list, nothing does."""
    return tuple(_draft(each, within) for each in as_list(entries) or [])


def all_drafts(steps: Sequence[Draft]) -> Iterator[Draft]:
    """Every step, each before those in it; those of a workflow among them are its own."""
    for step in steps:
        yield step
        for branch in step.branches:
            yield from all_drafts(branch)


def entry_name(entry: object) -> str:
    """The name of what a writer lists as a step: its own, the agent's or the function's."""
    match entry:
        case Step() | Agent() | ExistingGraph() | BuiltWorkflow():
            return entry.name
        case Steps() | Condition() | Router() | Loop() | Parallel():
            return entry.name
        case _:
            return name_of(entry) if callable(entry) else repr(entry)


def _draft(entry: object, within: str) -> Draft:
    name = entry_name(entry)
    path = f"{within}{name}" if within else name
    match entry:
        case Step():
            return _leaf(name, path, entry.run, entry)
        case Steps() | Condition() | Router() | Loop() | Parallel():
            branches = _branches(entry, f"{path}/")
            look = _look(entry)
            return Draft(name=name, path=path, run=entry, gates=entry, branches=branches, look=look)
        case _:
            return _leaf(name, path, entry, Gates())


def _branches(entry: Container, within: str) -> tuple[tuple[Draft, ...], ...]:
    match entry:
        case Steps() | Loop():
            return (drafts_of(entry.steps, within),)
        case Condition():
            return (drafts_of(entry.then, within), drafts_of(entry.otherwise, within))
        case Router():
            return tuple((each,) for each in drafts_of(entry.choices, within))
        case Parallel():
            return tuple((each,) for each in drafts_of(entry.steps, within))


def _look(entry: Container) -> LookDraft | None:
    match entry:
        case Condition(when=fn):
            name = "when"
        case Loop(until=fn):
            name = "until"
        case Router(select=fn) if not isinstance(fn, Choose | ModelRouter):
            name = "select"
        case _:
            return None
    return None if fn is None else read_look(name, fn)


def _leaf(name: str, path: str, run: object, gates: Gates) -> Draft:
    match run:
        case Agent():
            gives = TEXT if run.output is None else run.output
            return Draft(name=name, path=path, run=run, gates=gates, gives=gives)
        case ExistingGraph():
            wrong = tuple(run.mistakes())
            return Draft(
                name=name, path=path, run=run, gates=gates, gives=run.gives, mistakes=wrong
            )
        case BuiltWorkflow():
            takes, gives = run.input_type, run.output_type
            return Draft(name=name, path=path, run=run, gates=gates, takes=takes, gives=gives)
        case _:
            return _function(name, path, run, gates)


def _function(name: str, path: str, run: object, gates: Gates) -> Draft:
    if isinstance(run, Tool | Steps | Condition | Router | Loop | Parallel) or not callable(run):
        wrong = f"{run!r} is not a step: it is an Agent, a function, a Workflow, or Step(name, …)"
        return Draft(name=name, path=path, run=_nothing, is_step=False, mistakes=(wrong,))
    takes, gives, mistakes = _read_function(run)
    return Draft(
        name=name, path=path, run=run, gates=gates, takes=takes, gives=gives,
        mistakes=tuple(mistakes),
    )  # fmt: skip


def _nothing(context: StepContext, value: Any) -> None: ...


def _read_function(fn: Callable[..., Any]) -> tuple[Any, Any, list[str]]:
    """What a step function takes and gives, and what is wrong with it."""
    try:
        hints = hints_of(fn)
        parameters = list(inspect.signature(fn).parameters.values())
    except (UnreadableSignature, TypeError, ValueError) as error:
        return Any, Any, [str(error)]
    wrong = wrong_result(fn, hints) or _unstorable("result", hints["return"])
    gives = Any if wrong else hints["return"]
    takes, wrong_input = _read_parameters(parameters, hints)
    return takes, gives, wrong + wrong_input


def _read_parameters(
    parameters: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> tuple[Any, list[str]]:
    match parameters:
        case [context, value]:
            wrong: list[str] = []
            if bare(hints.get(context.name, StepContext)) is not StepContext:
                wrong.append(f"the first parameter, {context.name!r}, must be a StepContext")
            wrong += wrong_parameter(value, hints)
            unstorable = _unstorable("input", hints.get(value.name, Any))
            return (Any if unstorable else hints.get(value.name, Any)), wrong + unstorable
        case _:
            taken = len(parameters)
            return Any, [f"it takes {taken} parameters; a step takes (context, value)"]


def _unstorable(what: str, annotation: Any) -> list[str]:
    why = why_not_json(annotation)
    return [f"its {what} cannot be stored as JSON: {why}"] if why else []
