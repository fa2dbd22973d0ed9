"""Every ask at every depth: in each container, in each container within another, and deeper."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    AskError,
    AskInput,
    Choose,
    Condition,
    Confirm,
    Loop,
    Review,
    Router,
    Step,
    StepContext,
    Steps,
    Workflow,
)
from app.authoring.declared import StepEntry
from app.domain.decision import Action, Decision, Decline, Value, Verdict
from app.domain.json import Json
from tests.engine_runs import EngineRun, approvers, run
from tests.step_trees import CONTAINERS, Ran, line_of, mark, path_in, publisher

YES = Verdict(approved=True)
NO = Verdict(approved=False, feedback="no")


class Word(BaseModel):
    word: str


Ask = tuple[Callable[[str, Ran], StepEntry], list[Decision], str]
"""A step of a name that asks, the decisions of its questions, and what it adds to the text."""


def _confirmed(name: str, ran: Ran) -> StepEntry:
    return mark(name, ran, before=Confirm("Begin?", channel=approvers, on_reject="skip"))


def _filled(name: str, ran: Ran) -> StepEntry:
    def fill(context: StepContext, text: str) -> str:
        return f"{text}>{context.input(Word).word}"

    ask = AskInput("Which word?", Word, channel=approvers, on_reject="skip")
    return Step(name, fill, before=ask)


def _chosen(name: str, ran: Ran) -> StepEntry:
    choose = Choose("Which ways?", channel=approvers, multiple=True, on_reject="skip")
    return Router(name, choices=[mark("left", ran), mark("right", ran)], select=choose)


def _reviewed(name: str, ran: Ran) -> StepEntry:
    return mark(name, ran, after=Review("Good?", channel=approvers))


def _dropped(name: str, ran: Ran) -> StepEntry:
    return mark(name, ran, after=Review("Good?", channel=approvers, on_reject="skip"))


def _looped(name: str, ran: Ran) -> StepEntry:
    review = Review("Good?", channel=approvers)
    return Loop(name, steps=[mark("again", ran)], max_iterations=3, after_each=review)


def _failing(name: str, ran: Ran) -> StepEntry:
    tried: list[str] = []

    def risky(context: StepContext, text: str) -> str:
        tried.append(context.run_id)
        if tried.count(context.run_id) == 1:
            raise RuntimeError("no luck")
        return f"{text}>{name}"

    return Step(name, risky, on_error=AskError("What now?", channel=approvers))


def _branching(name: str, ran: Ran) -> StepEntry:
    gate = Confirm("Shall we?", channel=approvers, on_reject="else")
    return Condition(name, then=[mark("then", ran)], otherwise=[mark("else", ran)], before=gate)


def _approved(name: str, ran: Ran) -> StepEntry:
    return Step(name, publisher(ran, name))


ASKS: dict[str, Ask] = {
    "confirm": (_confirmed, [YES], ">confirm"),
    "confirm-no": (_confirmed, [NO], ""),
    "input": (_filled, [Value(value={"word": "hello"})], ">hello"),
    "input-no": (_filled, [Decline()], ""),
    "route": (_chosen, [Value(value=["right", "left"])], ">right>left"),
    "route-no": (_chosen, [Decline()], ""),
    "review": (_reviewed, [NO, YES], ">review"),
    "review-drop": (_dropped, [NO], ""),
    "each": (_looped, [NO, YES], ">again>again"),
    "error": (_failing, [Action(action="retry")], ">error"),
    "error-skip": (_failing, [Action(action="skip")], ""),
    "branch": (_branching, [YES], ">then"),
    "branch-no": (_branching, [NO], ">else"),
    "approval": (_approved, [YES], ">approval"),
}
DECISIONS = [decision for _, decisions, _ in ASKS.values() for decision in decisions]


def nested(names: Iterable[str], ran: Ran, *kinds: str) -> Workflow:
    """Asking steps one after the other, within containers named by what they are; the first is outermost."""
    inside: list[StepEntry] = [ASKS[name][0](name, ran) for name in names]
    inside = [mark("before", ran), *inside, mark("after", ran)]
    for depth, kind in reversed(list(enumerate(kinds))):
        wrapped = CONTAINERS[kind](inside, ran, f"{kind}-{depth}")
        inside = [mark(f"before-{depth}", ran), wrapped, mark(f"after-{depth}", ran)]
    return line_of(*inside)


def expected(names: Iterable[str], *kinds: str) -> Json:
    before = "".join(f">before-{depth}" for depth in range(len(kinds)))
    after = "".join(f">after-{depth}" for depth in reversed(range(len(kinds))))
    return f"work{before}>before" + "".join(ASKS[name][2] for name in names) + f">after{after}"


@pytest.mark.parametrize("kind", CONTAINERS)
async def test_every_ask_works_in_every_container_over_a_restart(kind: str) -> None:
    ran: Ran = []
    engine = await run(nested(ASKS, ran, kind))
    for decision in DECISIONS:
        await engine.restarted().decide(decision)
    assert engine.output == expected(ASKS, kind)
    assert "never" not in ran
    assert ran.count("before") == ran.count("after") == 1
    assert len(engine.asks) == len(DECISIONS)


@pytest.mark.parametrize(
    "kinds",
    [
        *product(("then", "router", "loop", "workflow", "branch"), repeat=2),
        ("loop", "branch", "workflow", "then"),
        ("branch", "branch", "branch", "loop"),
        ("workflow", "router", "loop", "branch"),
        ("branch", "loop", "branch", "router"),
    ],
    ids="-".join,
)
async def test_all_asks_in_a_row_work_at_every_depth(kinds: tuple[str, ...]) -> None:
    ran: Ran = []
    engine = await run(nested(ASKS, ran, *kinds))
    for decision in DECISIONS:
        await engine.decide(decision)
    assert engine.output == expected(ASKS, *kinds)
    assert "never" not in ran
    assert len(engine.asks) == len(DECISIONS)


async def test_a_place_is_the_path_with_every_index_written_out() -> None:
    kinds = ("loop", "router", "branch", "workflow")
    engine = await run(nested(["confirm"], [], *kinds))
    path = "/".join(path_in(kind, f"{kind}-{depth}") for depth, kind in enumerate(kinds))
    assert engine.ask.place == f"work/{path}/confirm#before0"
    assert engine.ask.shown["step"]["path"] == f"work/{path}/confirm"


@pytest.mark.parametrize("kind", CONTAINERS)
async def test_a_rejection_in_a_container_ends_the_run_where_the_ask_says_so(kind: str) -> None:
    for on_reject in ("cancel", "fail"):
        ran: Ran = []
        gate = Confirm("Begin?", channel=approvers, on_reject=on_reject)
        wrapped = CONTAINERS[kind]([mark("it", ran, before=gate)], ran, "box")
        engine = await run(line_of(wrapped, mark("after", ran)))
        await engine.restarted().reject()
        if on_reject == "cancel":
            assert engine.stop_reason == "rejected by alice"
        else:
            assert engine.error.code == "rejected"
            assert engine.error.step == f"work/{path_in(kind, 'box')}/it"
        assert "it" not in ran
        assert "after" not in ran


@pytest.mark.parametrize("kind", CONTAINERS)
async def test_a_gated_container_runs_nothing_of_itself_before_its_approval(kind: str) -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject="skip")

    async def gated_run() -> EngineRun:
        ran.clear()
        inner = CONTAINERS[kind]([mark("it", ran)], ran, "inner")
        return await run(line_of(Steps("box", [inner], before=gate), mark("after", ran)))

    approved = await gated_run()
    assert ran == []
    await approved.restarted().approve()
    assert approved.output == "work>it>after"
    rejected = await gated_run()
    await rejected.restarted().reject()
    assert rejected.output == "work>after"
    assert ran == ["after"]


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind != "branch"])
async def test_a_reviewed_container_can_be_overridden_and_run_again(kind: str) -> None:
    ran: Ran = []

    def reviewed() -> Workflow:
        inner: Any = CONTAINERS[kind]([mark("it", ran)], ran, "inner")
        box = Steps("box", [inner], after=Review("Good?", channel=approvers))
        return line_of(box, mark("after", ran))

    overridden = await run(reviewed())
    await overridden.restarted().approve(override_output="mine")
    assert overridden.output == "mine>after"
    again = await run(reviewed())
    await again.restarted().reject()
    await again.restarted().approve()
    assert again.output == "work>it>after"
