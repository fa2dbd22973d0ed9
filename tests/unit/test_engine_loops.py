"""Loops: how often their steps run, who is asked after each iteration, and what the next one reads."""

from datetime import timedelta
from typing import Any

import pytest

from app.authoring import Confirm, Loop, Review, Step, StepContext, Workflow
from app.domain.pause import PauseKind
from app.domain.step import StepStatus
from tests.engine_runs import approvers, run
from tests.step_trees import Ran, line_of, mark, no, publisher, yes

SOON = timedelta(hours=1)


def looped(ran: Ran, *, most: int = 3, seen: list[Any] | None = None, **options: Any) -> Workflow:
    """A loop of two steps, and one behind it."""

    def look(context: StepContext, text: str) -> str:
        if seen is not None:
            seen.append((context.feedback, context.previous_output))
        return text

    steps = [Step("look", look), mark("a", ran)]
    return line_of(Loop("loop", steps=steps, max_iterations=most, **options), mark("c", ran))


def good(**options: Any) -> Review:
    return Review("Good enough?", channel=approvers, **options)


async def test_a_loop_runs_as_often_as_it_may() -> None:
    ended = await run(looped([], most=3))
    assert ended.output == "work>a>a>a>c"
    assert [path for path in ended.steps if path.endswith("/a")] == [
        "work/loop[0]/a",
        "work/loop[1]/a",
        "work/loop[2]/a",
    ]


async def test_a_loop_ends_where_until_holds_but_not_before_the_first_iteration() -> None:
    def long(text: str) -> bool:
        return len(text) > 7

    assert (await run(looped([], until=long))).output == "work>a>a>c"
    assert (await run(looped([], until=yes))).output == "work>a>c"


async def test_an_accepted_iteration_ends_the_loop() -> None:
    ran: Ran = []
    paused = await run(looped(ran, after_each=good()))
    assert paused.ask.kind is PauseKind.REVIEW
    assert paused.ask.place == "work/loop[0]#each"
    assert paused.ask.shown["output"] == "work>a"
    await paused.restarted().go()
    await paused.restarted().approve()
    assert paused.output == "work>a>c"
    assert ran == ["a", "c"]


async def test_a_rejected_iteration_is_followed_by_one_that_reads_the_feedback() -> None:
    seen: list[Any] = []
    paused = await run(looped([], seen=seen, after_each=good()))
    await paused.restarted().reject("longer")
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work>a>a>a>c"
    assert seen == [(None, None), ("longer", "work>a"), (None, "work>a>a")]
    assert paused.places == ["work/loop[0]#each", "work/loop[1]#each", "work/loop[2]#each"]


async def test_the_last_iteration_is_reviewed_too_and_its_rejection_cancels_the_run() -> None:
    ran: Ran = []
    paused = await run(looped(ran, most=2, after_each=good()))
    await paused.restarted().reject()
    await paused.restarted().reject("still bad")
    assert paused.stop_reason == "rejected by alice: still bad"
    assert ran == ["a", "a"]


async def test_a_loop_of_one_iteration_is_reviewed_once() -> None:
    paused = await run(looped([], most=1, after_each=good()))
    await paused.restarted().reject()
    assert paused.stop_reason == "rejected by alice"


async def test_an_overridden_iteration_is_what_the_loop_gives() -> None:
    paused = await run(looped([], after_each=good()))
    await paused.restarted().approve(override_output="mine")
    assert paused.output == "mine>c"
    assert paused.steps["work/loop"].output == "mine"
    assert paused.steps["work/loop[0]/a"].output == "work>a"


async def test_where_until_holds_nobody_is_asked() -> None:
    ended = await run(looped([], until=yes, after_each=good()))
    assert ended.output == "work>a>c"
    assert ended.asks == []


async def test_where_until_does_not_hold_somebody_is_asked() -> None:
    paused = await run(looped([], until=no, after_each=good()))
    await paused.restarted().approve()
    assert paused.output == "work>a>c"


@pytest.mark.parametrize("on_reject", ["cancel", "fail"])
async def test_a_rejected_iteration_ends_the_run_where_the_review_says_so(on_reject: Any) -> None:
    paused = await run(looped([], after_each=good(on_reject=on_reject)))
    await paused.restarted().reject()
    if on_reject == "cancel":
        assert paused.stop_reason == "rejected by alice"
    else:
        assert (paused.error.code, paused.error.step) == ("rejected", "work/loop")


async def test_a_deadline_rejects_an_iteration() -> None:
    ran: Ran = []
    paused = await run(looped(ran, most=2, after_each=good(expires_after=SOON)))
    await paused.restarted().expire()
    assert ran == ["a", "a"]
    await paused.restarted().expire()
    assert paused.stop_reason == "rejected by system:deadline"


async def test_a_deadline_can_accept_an_iteration() -> None:
    paused = await run(looped([], after_each=good(expires_after=SOON, on_expire="approve")))
    await paused.restarted().expire()
    assert paused.output == "work>a>c"


async def test_a_deadline_can_fail_the_run_at_the_loop() -> None:
    paused = await run(looped([], after_each=good(expires_after=SOON, on_expire="fail")))
    await paused.restarted().expire()
    assert (paused.error.code, paused.error.step) == ("pause_expired", "work/loop")


async def test_an_iteration_that_needs_no_look_ends_the_loop_unasked() -> None:
    ended = await run(looped([], after_each=good(when=no)))
    assert ended.output == "work>a>c"
    assert ended.asks == []


async def test_a_gate_in_a_loop_asks_in_every_iteration() -> None:
    ran: Ran = []
    gate = Confirm("Again?", channel=approvers, on_reject="skip")
    loop = Loop("loop", steps=[mark("a", ran, before=gate), mark("b", ran)], max_iterations=3)
    paused = await run(line_of(loop))
    await paused.restarted().approve()
    await paused.restarted().reject()
    await paused.restarted().approve()
    assert paused.output == "work>a>b>b>a>b"
    assert paused.places == [f"work/loop[{n}]/a#before0" for n in range(3)]
    assert paused.steps["work/loop[1]/a"].status is StepStatus.SKIPPED


async def test_an_agent_in_a_loop_has_its_calls_asked_and_named_apart_in_every_iteration() -> None:
    ran: Ran = []
    loop = Loop("loop", steps=[publisher(ran)], max_iterations=2, after_each=good())
    paused = await run(line_of(loop))
    await paused.restarted().approve()
    await paused.restarted().reject()
    await paused.restarted().approve()
    await paused.restarted().approve()
    assert paused.output == "work>publisher>publisher"
    assert ran == ["publisher.publish"] * 2
    calls = [ask.shown["call"]["id"] for ask in paused.asks if ask.shown["call"]]
    assert len(set(calls)) == 2
    assert paused.places == [
        "work/loop[0]/publisher#0.0",
        "work/loop[0]#each",
        "work/loop[1]/publisher#0.0",
        "work/loop[1]#each",
    ]


async def test_a_loop_in_a_loop_counts_for_itself() -> None:
    ran: Ran = []
    gate = Confirm("Again?", channel=approvers, on_reject="skip")
    inner = Loop("inner", steps=[mark("a", ran, before=gate)], max_iterations=2)
    outer = Loop("outer", steps=[inner, mark("b", ran)], max_iterations=2)
    paused = await run(line_of(outer))
    for _ in range(4):
        await paused.restarted().approve()
    assert paused.output == "work>a>a>b>a>a>b"
    assert paused.places == [
        f"work/outer[{one}]/inner[{two}]/a#before0" for one in range(2) for two in range(2)
    ]


async def test_a_reviewed_loop_begins_anew_where_its_output_is_rejected() -> None:
    ran: Ran = []
    gate = Confirm("Again?", channel=approvers)
    loop = Loop(
        "loop", steps=[mark("a", ran, before=gate)], max_iterations=2, after=good(max_retries=1)
    )
    paused = await run(line_of(loop))
    for decide in ("approve", "approve", "reject", "approve", "approve", "approve"):
        await getattr(paused.restarted(), decide)()
    assert paused.output == "work>a>a"
    assert ran == ["a"] * 4
    assert paused.places == [
        "work/loop[0]/a#before0",
        "work/loop[1]/a#before0",
        "work/loop[1]#review",
        "work/loop[0]~1/a#before0",
        "work/loop[1]~1/a#before0",
        "work/loop[1]~1#review",
    ]


async def test_an_until_that_raises_fails_the_run_at_the_loop() -> None:
    def broken(text: str) -> bool:
        raise RuntimeError("no idea")

    failed = await run(looped([], until=broken))
    assert (failed.error.code, failed.error.step) == ("step_failed", "work/loop")


async def test_a_loop_of_a_thousand_iterations_ends() -> None:
    count = 1_100  # more than Python lets functions call each other

    def add(context: StepContext, number: int) -> int:
        return number + 1

    loop = Loop("loop", steps=[Step("add", add)], max_iterations=count)
    ended = await run(Workflow("work", version="1", input=int, steps=[loop]), 0)
    assert ended.output == count
