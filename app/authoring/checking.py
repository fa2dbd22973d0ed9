"""What is wrong with the steps of a workflow, taken one by one: names, functions, and gates."""

from collections.abc import Iterator, Sequence

from app.authoring.agent import wrong_model
from app.authoring.declared import Condition, Loop, Parallel, Router, Steps
from app.authoring.draft import Draft, entry_name
from app.authoring.fitting import is_container
from app.authoring.gates import AskError, AskInput, Choose, Confirm, Gate, Review
from app.authoring.mistakes import (
    Mistake,
    as_list,
    repeated,
    spoken_name,
    wrong_count,
    wrong_duration,
    wrong_text,
)
from app.authoring.model_router import ModelRouter
from app.authoring.step import BuiltWorkflow


def wrong_steps(what: str, entries: object, *, optional: bool = False) -> Iterator[str]:
    """What is wrong with a list of steps."""
    listed = as_list(entries)
    if listed is None or not (listed or optional):
        yield f"{what}= must be a list with at least one step"
    elif not optional or listed:
        yield from wrong_names(listed)


def wrong_names(entries: Sequence[object]) -> Iterator[str]:
    """Names that stand there more than once."""
    for name in repeated(entry_name(entry) for entry in entries):
        yield f"two steps have the name {name!r}"


def mistakes_of(steps: Sequence[Draft]) -> Iterator[Mistake]:
    """All that is wrong with steps and the steps in them."""
    for step in steps:
        for wrong in (*_wrong_name(step), *step.mistakes, *_wrong_container(step)):
            yield Mistake(place=step.place, message=wrong)
        for wrong in _wrong_gates(step):
            yield Mistake(place=step.place, message=wrong)
        for branch in step.branches:
            yield from mistakes_of(branch)


def _wrong_name(step: Draft) -> Iterator[str]:
    wrong = spoken_name(step.name)
    if step.name == "<lambda>":
        yield "a lambda has no name: write Step(name, …)"
    elif wrong and step.is_step:
        yield wrong


# ── Containers ───────────────────────────────────────────────────────────────────────────────────


def _wrong_container(step: Draft) -> Iterator[str]:
    yield from wrong_text("description", step.gates.description)
    if step.look is not None:
        yield from step.look.mistakes
    match step.run:
        case Steps(steps=steps) | Parallel(steps=steps):
            yield from wrong_steps("steps", steps)
        case Condition() as condition:
            yield from _wrong_condition(step, condition)
        case Router() as router:
            yield from _wrong_router(step, router)
        case Loop() as loop:
            yield from _wrong_loop(loop)
        case _:
            return


def _wrong_condition(step: Draft, condition: Condition) -> Iterator[str]:
    then, otherwise = as_list(condition.then), as_list(condition.otherwise)
    if not then:
        yield "then= must be a list with at least one step"
    if otherwise is None:
        yield "otherwise= must be a list"
    yield from wrong_names([*(then or []), *(otherwise or [])])
    if condition.when is not None:
        return
    confirms = [each for each in step.before if isinstance(each, Confirm)]
    if not confirms:
        yield "nothing decides: it needs when=, or a Confirm in before="
    elif otherwise and all(each.on_reject != "else" for each in confirms):
        yield "otherwise= could never run: it needs when=, or on_reject='else' of a Confirm"


def _wrong_router(step: Draft, router: Router) -> Iterator[str]:
    yield from wrong_steps("choices", router.choices)
    names = [branch.name for (branch,) in step.branches]
    match router.select:
        case Choose() as choose:
            yield from (f"select=Choose(…): {wrong}" for wrong in choose.mistakes())
        case ModelRouter() as model:
            yield from (
                f"select=ModelRouter(…): {wrong}" for wrong in _wrong_router_model(model, names)
            )
        case _:
            yield from _wrong_selection(step, names)


def _wrong_selection(step: Draft, names: Sequence[str]) -> Iterator[str]:
    listed = None if step.look is None else step.look.names
    if listed is None:
        return
    for name in sorted(map(str, listed.difference(names))):
        yield f"select= returns {name!r}, which is not a choice"
    for name in names:
        if name not in listed:
            yield f"the choice {name!r} could never be taken: select= does not return it"


def _wrong_router_model(router: ModelRouter, names: Sequence[str]) -> Iterator[str]:
    yield from wrong_model(router.model)
    yield from wrong_text("prompt", router.prompt)
    yield from wrong_duration("timeout", router.timeout, optional=False)
    yield from wrong_count("retries", router.retries)
    if router.after_decision is not None and router.after_decision not in names:
        yield f"after_decision={router.after_decision!r} is not a choice"


def _wrong_loop(loop: Loop) -> Iterator[str]:
    yield from wrong_steps("steps", loop.steps)
    yield from wrong_count("max_iterations", loop.max_iterations, 1)
    yield from _wrong_after_each(loop.after_each)


def _wrong_after_each(review: object) -> Iterator[str]:
    if not isinstance(review, Review):
        if review is not None:
            yield f"after_each= takes a Review, not {_spoken(review)}"
        return
    yield from (f"after_each=Review(…): {wrong}" for wrong in review.mistakes(of_loop=True))
    if review.max_retries != Review.max_retries:
        yield "after_each=Review(…): max_retries= could never matter: max_iterations= ends the loop"


# ── Gates ────────────────────────────────────────────────────────────────────────────────────────


def _wrong_gates(step: Draft) -> Iterator[str]:
    for ask in step.listed_before:
        yield from _wrong_before(step, ask)
    models = [each.model for each in step.before if isinstance(each, AskInput)]
    for model in repeated(models):
        yield f"two AskInput fill in {_spoken(model)}: context.input would find the first alone"
    yield from _wrong_after(step.gates.after)
    yield from _wrong_on_error(step)


def _wrong_after(review: object) -> Iterator[str]:
    match review:
        case None:
            return
        case Review():
            yield from (f"after=Review(…): {wrong}" for wrong in review.mistakes())
        case _:
            yield f"after= takes a Review, not {_spoken(review)}"


def _wrong_before(step: Draft, ask: object) -> Iterator[str]:
    if not isinstance(ask, Confirm | AskInput):
        yield f"before= takes Confirm and AskInput, not {_spoken(ask)}"
        return
    place = f"before={type(ask).__name__}(…)"
    yield from (f"{place}: {wrong}" for wrong in ask.mistakes())
    if isinstance(ask, AskInput) and (is_container(step) or isinstance(step.run, BuiltWorkflow)):
        yield f"{place}: nobody could read it here: it belongs before a function or an agent"
    if isinstance(ask, Confirm) and ask.on_reject == "else":
        match step.run:
            case Condition(otherwise=otherwise) if as_list(otherwise):
                return
            case Condition():
                yield f"{place}: on_reject='else' needs otherwise="
            case _:
                yield f"{place}: on_reject='else' is of a Condition alone: it is one of cancel, skip, fail"


def _wrong_on_error(step: Draft) -> Iterator[str]:
    match step.on_error:
        case "fail":
            return
        case AskError() as ask:
            yield from (f"on_error=AskError(…): {wrong}" for wrong in ask.mistakes())
        case "skip":
            pass
        case other:
            yield f"on_error= is 'fail', 'skip' or AskError(…), not {_spoken(other)}"
            return
    if isinstance(step.run, BuiltWorkflow):
        yield "on_error= could never matter here: it belongs to the steps of the workflow"


def _spoken(found: object) -> str:
    match found:
        case type():
            return found.__name__
        case Gate():
            return f"{type(found).__name__}(…)"
        case _:
            return repr(found)
