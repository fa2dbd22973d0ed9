"""Whether steps fit: what each gives, and what everything that may come next wants of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from app.authoring.declared import Condition, Loop, Parallel, Router, Steps
from app.authoring.draft import TEXT, Draft
from app.authoring.gates import AskError
from app.authoring.kinds import alternatives, either, fits, member_of, members_fit, members_needed
from app.authoring.mistakes import Mistake
from app.authoring.shape import spoken_type
from app.authoring.text import takes_text, text_field


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What somebody wants of a value.

    `left_out` are the steps past which the wish reaches, `whole` is what the value is part of.
    """

    type: Any
    place: str
    verb: str = "wants"
    left_out: tuple[str, ...] = ()
    whole: Any = None

    def __str__(self) -> str:
        return f"{self.place} {self.demand}"

    @property
    def demand(self) -> str:
        """The wish without who has it."""
        case = f" where {' and '.join(self.left_out)} is left out" if self.left_out else ""
        wanted = self.type if self.whole is None else self.whole
        return f"{self.verb} {spoken_type(wanted)}{case}"

    def if_left_out(self, *places: str) -> "Wish":
        """The same wish, where it reaches past steps."""
        return replace(self, left_out=(*places, *self.left_out)) if places else self


Wishes = Sequence[Wish]


def behind_each(steps: Sequence[Draft], after: Wishes) -> list[Wishes]:
    """What is wanted of the value behind each of a sequence of steps; `after` behind the last."""
    found: list[Wishes] = []
    for step in reversed(steps):
        found.append(after)
        after = _with_passed(_own_wishes(step), _way_past(step), after)
    return found[::-1]


def wishes(steps: Sequence[Draft], after: Wishes) -> list[Wish]:
    """What is wanted of the value before a sequence of steps."""
    return _with_passed(_first_wishes(steps), _way_through(steps), after)


def _with_passed(own: Wishes, past: Sequence[str] | None, after: Wishes) -> list[Wish]:
    """What steps want, and what is wanted behind them, if there is a way past them."""
    if past is None:
        return list(own)
    known = [each.type for each in own]
    return [*own, *(each.if_left_out(*past) for each in after if each.type not in known)]


def _first_wishes(steps: Sequence[Draft]) -> list[Wish]:
    """What is wanted by the first of a sequence of steps, and by those that may come to be first."""
    found: list[Wish] = []
    past: tuple[str, ...] = ()
    for step in steps:
        found += [each.if_left_out(*past) for each in _own_wishes(step)]
        way = _way_past(step)
        if way is None:
            break
        past += way
    return found


def _way_through(steps: Sequence[Draft]) -> tuple[str, ...] | None:
    past: tuple[str, ...] = ()
    for step in steps:
        way = _way_past(step)
        if way is None:
            return None
        past += way
    return past


def _own_wishes(step: Draft) -> list[Wish]:
    """What a step, or one in it, wants of the value before it."""
    looked = [] if isinstance(step.run, Loop) else _looked_at(step)
    if not is_container(step):
        return [Wish(type=step.takes, place=step.place)]
    inner = (wish for branch in step.branches for wish in _first_wishes(branch))
    return [*looked, *inner]


def _looked_at(step: Draft) -> list[Wish]:
    look = step.look
    return [] if look is None else [Wish(type=look.takes, place=f"{look.name}= of {step.place}")]


def _way_past(step: Draft) -> tuple[str, ...] | None:
    """The steps that have to be left out for a value to come through unchanged; None: it cannot."""
    if step.is_left_out:
        return (step.place,)
    if not is_container(step) or isinstance(step.run, Parallel):
        return None
    ways = (_way_through(branch) if branch else (step.place,) for branch in step.branches)
    return next((way for way in ways if way is not None), None)


def is_container(step: Draft) -> bool:
    """Whether a step is made of others."""
    return isinstance(step.run, Steps | Condition | Router | Loop | Parallel)


def after_branch(step: Draft, branch: Sequence[Draft], after: Wishes) -> list[Wish]:
    """What is wanted of the value behind one branch of a container."""
    match step.run:
        case Parallel():
            return list(_of_member(branch[0].name, after))
        case Loop():
            again = _first_wishes(branch) if _runs_again(step.run) else []
            return [*_looked_at(step), *after, *again]
        case Router() if selects_several(step):
            others = [each for each in step.branches if each is not branch]
            return [*after, *(wish for each in others for wish in _first_wishes(each))]
        case _:
            return list(after)


def _runs_again(loop: Loop) -> bool:
    return loop.max_iterations != 1


def selects_several(step: Draft) -> bool:
    """Whether a router may take several of its choices, one after the other."""
    if step.choose is not None:
        return step.choose.multiple
    return step.look is not None and step.look.selects_several


def _of_member(name: str, after: Wishes) -> Iterator[Wish]:
    for each in after:
        for form in alternatives(each.type):
            member = member_of(form, name)
            if member is not None:
                yield replace(each, type=member[0], whole=each.whole or each.type)
                break


# ── What comes out ───────────────────────────────────────────────────────────────────────────────


def given_by(steps: Sequence[Draft], given: Any, after: Wishes) -> Any:
    """The type of the value behind a sequence of steps that gets a `given`."""
    for step, behind in zip(steps, behind_each(steps, after), strict=True):
        given = handed_on(step, output_of(step, given, behind), given, behind)
    return given


def handed_on(step: Draft, output: Any, given: Any, after: Wishes) -> Any:
    """The type of the value behind a step: its output, or what it was given where it is left out."""
    asked = isinstance(step.on_error, AskError) and may_be_left_out(given, after)
    return either(output, given) if step.is_left_out or asked else output


def may_be_left_out(given: Any, after: Wishes) -> bool:
    """Whether what comes next takes what a step was given as well."""
    return all(fits(given, each.type) for each in after)


def output_of(step: Draft, given: Any, after: Wishes) -> Any:
    """The type of what a step gives itself."""
    match step.run:
        case Parallel():
            return _dict_of(step, given, after)
        case Condition() if not step.branches[1]:
            return either(*_outputs(step, given, after)[:1], given)
        case _ if is_container(step):  # its steps hand on nothing that is not among these
            return either(*_outputs(step, given, after))
        case _:
            return answer_type(after) if step.gives is TEXT else step.gives


def _outputs(step: Draft, given: Any, after: Wishes) -> list[Any]:
    return [given_by(branch, given, after_branch(step, branch, after)) for branch in step.branches]


def given_inside(step: Draft, given: Any, after: Wishes) -> Any:
    """The type that the steps in a container get: in a loop, also what they gave themselves."""
    match step.run:
        case Loop() as loop if _runs_again(loop):
            return either(given, *_outputs(step, given, after))
        case Router() if selects_several(step):
            return either(given, *_outputs(step, given, after))
        case _:
            return given


def _dict_of(step: Draft, given: Any, after: Wishes) -> Any:
    members = {
        branch.name: _member(branch, given, list(_of_member(branch.name, after)), after)
        for (branch,) in step.branches
    }
    return cast("Any", TypedDict)(step.name, members)


def _member(branch: Draft, given: Any, behind: Wishes, after: Wishes) -> Any:
    output = output_of(branch, given, behind)
    asked = isinstance(branch.on_error, AskError) and branch_may_be_left_out(branch, after)
    return NotRequired[output] if branch.is_left_out or asked else output


def branch_may_be_left_out(branch: Draft, after: Wishes) -> bool:
    """Whether what comes after a parallel can be without one of its branches."""
    return not any(branch.name in members_needed(each.type) for each in after)


def answer_type(after: Wishes) -> Any:
    """What an agent's text becomes: a text, or the model that has room for it."""
    models = [each.type for each in after if not takes_text(each.type)]
    return models[0] if models and text_field(models[0]) else str


# ── What does not fit ────────────────────────────────────────────────────────────────────────────


def misfits(steps: Sequence[Draft], given: Any, after: Wishes) -> Iterator[Mistake]:
    """What does not fit in a sequence of steps, and between its end and what comes `after`."""
    for step, behind in zip(steps, behind_each(steps, after), strict=True):
        yield from _misfits_of(step, given, behind)
        given = handed_on(step, output_of(step, given, behind), given, behind)


def _misfits_of(step: Draft, given: Any, after: Wishes) -> Iterator[Mistake]:
    if not is_container(step):
        for wish in after:
            wrong = _misfit(step, wish, after)
            if wrong:
                yield Mistake(place=step.place, message=wrong)
        return
    if isinstance(step.run, Parallel):
        yield from _misfits_of_parallel(step, after)
    inside = given_inside(step, given, after)
    for branch in step.branches:
        yield from misfits(branch, inside, after_branch(step, branch, after))


def _misfit(step: Draft, wish: Wish, after: Wishes) -> str | None:
    if step.gives is not TEXT:
        return (
            None if fits(step.gives, wish.type) else f"gives {spoken_type(step.gives)}, and {wish}"
        )
    answer = answer_type(after)
    if fits(answer, wish.type) and (answer is str or text_field(answer)):
        return None
    return f"answers in words, and {wish}: give the agent output="


def _misfits_of_parallel(step: Draft, after: Wishes) -> Iterator[Mistake]:
    names = [branch.name for (branch,) in step.branches]
    anything = cast("Any", TypedDict)(step.name, dict.fromkeys(names, Any))
    for wish in after:
        if any(members_fit(anything, form) for form in alternatives(wish.type)):
            yield from _absent(step, wish)
        else:
            message = f"gives a dict of {', '.join(names)}, and {wish}"
            yield Mistake(place=step.place, message=message)


def _absent(step: Draft, wish: Wish) -> Iterator[Mistake]:
    for (branch,) in step.branches:
        if branch.is_left_out and branch.name in members_needed(wish.type):
            yield Mistake(place=branch.place, message=f"may be left out, and {wish}")
