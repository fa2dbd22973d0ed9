"""Branches side by side: each asks for itself, and none waits for another's decision."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from pydantic import BaseModel

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    Choose,
    Confirm,
    Loop,
    ModelRequest,
    Parallel,
    Question,
    Reply,
    Review,
    Router,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.domain.decision import Action, Decision, Value, Verdict
from app.domain.pause import Answer
from app.domain.step import StepStatus
from app.engine.drive import Waiting
from tests.engine_runs import EngineRun, Store, approvers, run
from tests.step_trees import Ran, flat, gathers, line_of, mark, publisher

SOON = timedelta(hours=1)
YES = Verdict(approved=True)
NO = Verdict(approved=False)
GATE = Confirm("Begin?", channel=approvers, on_reject="skip")


class Filled(BaseModel):
    word: str


def fork(*branches: Any, **gates: Any) -> Parallel:
    return Parallel("fork", list(branches), **gates)


async def decided(paused: EngineRun, **decisions: Decision) -> EngineRun:
    """The run after decisions about the open questions of branches, each by a process of its own."""
    for name, decision in decisions.items():
        (ask,) = [each for each in paused.waiting if f"/{name}" in each.place]
        await paused.restarted().answer(ask, decision)
        await paused.go()
    return paused


@asynccontextmanager
async def under_way(engine: EngineRun) -> AsyncGenerator[asyncio.Task[EngineRun]]:
    """The run while it is driven."""
    task = asyncio.create_task(engine.go())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked(engine: EngineRun, count: int) -> None:
    """Returns once so many questions are open."""
    async with asyncio.timeout(10):
        while len(engine.asks) < count:  # noqa: ASYNC110 - the engine tells nobody but its desk
            await asyncio.sleep(0.005)


# ── What branches are given, and give ────────────────────────────────────────────────────────────


async def test_branches_get_the_same_value_and_give_a_dict_by_name() -> None:
    ended = await run(line_of(mark("a", []), fork(mark("x", []), mark("y", []))))
    assert ended.output == {"x": "work>a>x", "y": "work>a>y"}
    assert ended.steps["work/fork"].output == ended.output


async def test_outputs_stand_in_the_order_of_the_branches_whoever_ends_first() -> None:
    async def slow(context: StepContext, text: str) -> str:
        await asyncio.sleep(0.02)
        return "slow"

    ended = await run(line_of(fork(Step("slow", slow), mark("fast", []))))
    assert flat(ended.output) == "(slow=slow|fast=work>fast)"


async def test_branches_run_side_by_side() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(context: StepContext, text: str) -> str:
        async with asyncio.timeout(5):
            await meeting.wait()
        return text

    ended = await run(line_of(fork(*(Step(name, meet) for name in "abc"))))
    assert ended.output == dict.fromkeys("abc", "work")


async def test_a_branch_sees_the_outputs_before_the_fork_and_not_its_siblings() -> None:
    async def names(context: StepContext, text: str) -> str:
        await asyncio.sleep(0.01)
        return " ".join(f"{name}={context.outputs[name]}" for name in sorted(context.outputs))

    inner = Steps("x", [mark("own", []), Step("names", names)])
    sibling = Steps("y", [mark("other", []), mark("own", [])])
    ended = await run(line_of(mark("a", []), fork(inner, sibling), gathers([])))
    assert ended.steps["work/fork/x/names"].output == "a=work>a own=work>a>own"


async def test_what_stands_behind_the_branches_sees_the_outputs_of_all() -> None:
    def names(context: StepContext, value: dict[str, str]) -> list[str]:
        return [context.outputs["a"], context.outputs["x"], context.outputs["y"]]

    gate = mark("y", [], before=GATE)
    paused = await run(line_of(mark("a", []), fork(mark("x", []), gate), Step("names", names)))
    await paused.restarted().approve()
    assert paused.output == ["work>a", "work>a>x", "work>a>y"]


# ── Pauses ───────────────────────────────────────────────────────────────────────────────────────


def three(ran: Ran) -> Workflow:
    return line_of(
        fork(mark("x", ran, before=GATE), mark("y", ran, before=GATE), mark("z", ran, before=GATE)),
        gathers(ran),
    )


@pytest.mark.parametrize("order", ["xyz", "zyx", "yxz"])
async def test_pauses_of_branches_are_open_at_once_and_decided_in_any_order(order: str) -> None:
    ran: Ran = []
    paused = await run(three(ran))
    assert {ask.place for ask in paused.waiting} == {f"work/fork/{name}#before0" for name in "xyz"}
    decisions = {name: NO if name == "y" else YES for name in order}
    await decided(paused, **decisions)
    assert paused.output == "(x=work>x|z=work>z)>last"
    assert ran == [*(name for name in order if name != "y"), "last"]
    assert len(paused.asks) == 3


async def test_branches_decided_together_go_on_together() -> None:
    ran: Ran = []
    paused = await run(three(ran))
    for ask in paused.waiting:
        await paused.answer(ask, YES)
    await paused.restarted().go()
    assert paused.output == "(x=work>x|y=work>y|z=work>z)>last"


async def test_answers_of_branches_are_never_swapped() -> None:
    ways = [mark("left", []), mark("right", [])]
    choose = Choose("Which way?", channel=approvers)
    routers = [Router(name, choices=ways, select=choose) for name in "abcd"]
    paused = await run(line_of(fork(*routers)))
    sides = {"a": "left", "b": "right", "c": "right", "d": "left"}
    await decided(paused, **{name: Value(value=[sides[name]]) for name in "dbca"})
    assert paused.output == {name: f"work>{side}" for name, side in sides.items()}


async def test_what_has_ended_in_one_branch_is_not_repeated_by_the_decision_of_another() -> None:
    ran: Ran = []
    served = line_of(
        fork(
            Steps("x", [mark("one", ran), mark("two", ran, before=GATE)]),
            Step("publisher", publisher(ran)),
            mark("z", ran),
        ),
        gathers(ran),
    )
    paused = await run(served)
    assert sorted(ran) == ["one", "z"]
    await decided(paused, publisher=YES, two=YES)
    assert sorted(ran) == ["last", "one", "publisher.publish", "two", "z"]
    assert len(paused.ledger) == 3, "two turns of the model and one call"


class _CountingStore(Store):
    """Counts how often the state of each line is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self.reads[str(config.get("configurable", {})["thread_id"])] += 1
        return await super().aget_tuple(config)


async def test_a_decision_in_one_branch_runs_no_other_whether_it_waits_or_has_ended() -> None:
    names = [f"branch{number}" for number in range(8)]
    engine = EngineRun(line_of(fork(*(mark(name, [], before=GATE) for name in names))))
    store = engine.saver = _CountingStore()
    await engine.go()
    for name in names[:-1]:
        store.reads.clear()
        await decided(engine, **{name: YES})
        # Running a line reads it again. The root says anew what it forks into.
        ran = {line for line, reads in store.reads.items() if reads > 1}
        assert {line.rpartition("/")[2] for line in ran} == {"root", name}
    await decided(engine, **{names[-1]: YES})
    assert engine.output == {name: f"work>{name}" for name in names}


async def test_two_gates_in_a_row_in_each_branch() -> None:
    ran: Ran = []
    branches = [
        Steps(name, [mark(f"{name}{n}", ran, before=GATE) for n in range(2)]) for name in "xy"
    ]
    paused = await run(line_of(fork(*branches), gathers(ran)))
    await decided(paused, x=NO, y=YES)
    await decided(paused, y=NO, x=YES)
    assert paused.output == "(x=work>x1|y=work>y0)>last"


async def test_a_branch_that_is_left_out_is_not_in_the_output() -> None:
    review = Review("Good?", channel=approvers, on_reject="skip")

    def broken(context: StepContext, text: str) -> str:
        raise RuntimeError("broken")

    paused = await run(
        line_of(
            fork(
                mark("x", [], before=GATE),
                mark("y", [], after=review),
                Step("z", broken, on_error="skip"),
                mark("w", []),
            )
        )
    )
    await decided(paused, x=NO, y=NO)
    assert paused.output == {"w": "work>w"}
    assert {paused.steps[f"work/fork/{name}"].status for name in "xyz"} == {StepStatus.SKIPPED}


async def test_a_gated_fork_is_left_out_as_a_whole() -> None:
    ran: Ran = []
    paused = await run(line_of(mark("a", ran), fork(mark("x", ran), before=GATE), gathers(ran)))
    await paused.restarted().reject()
    assert paused.output == "work>a>last"
    assert ran == ["a", "last"]


async def test_a_rejected_fork_runs_all_its_branches_again() -> None:
    ran: Ran = []
    review = Review("Good?", channel=approvers)
    paused = await run(
        line_of(fork(mark("x", ran, before=GATE), mark("y", ran), after=review), gathers(ran))
    )
    await decided(paused, x=YES)
    assert paused.ask.shown["output"] == {"x": "work>x", "y": "work>y"}
    await paused.restarted().reject()
    await decided(paused, x=NO)
    await paused.restarted().approve()
    assert paused.output == "(y=work>y)>last"
    assert sorted(ran) == ["last", "x", "y", "y"]
    assert paused.places == [
        "work/fork/x#before0",
        "work/fork#review",
        "work/fork~1/x#before0",
        "work/fork~1#review",
    ]


async def test_a_fork_in_a_loop_forks_anew_in_every_iteration() -> None:
    ran: Ran = []

    def join(context: StepContext, value: dict[str, str]) -> str:
        return value["x"]

    loop = Loop(
        "loop",
        steps=[fork(mark("x", ran, before=GATE), mark("y", ran)), Step("join", join)],
        max_iterations=2,
    )
    paused = await run(line_of(loop))
    await decided(paused, x=YES)
    await decided(paused, x=YES)
    assert paused.output == "work>x>x"
    assert ran.count("y") == 2
    assert paused.places == [f"work/loop[{n}]/fork/x#before0" for n in range(2)]


async def test_forks_in_forks_ask_side_by_side_and_go_on_one_by_one() -> None:
    ran: Ran = []
    inner = Parallel("inner", [mark("p", ran, before=GATE), mark("q", ran, before=GATE)])
    paused = await run(
        line_of(fork(Steps("x", [inner, gathers(ran, "join")]), mark("y", ran, before=GATE)))
    )
    assert len(paused.waiting) == 3
    await decided(paused, q=YES, y=YES)
    assert isinstance(paused.outcome, Waiting)
    await decided(paused, p=YES)
    assert paused.output == {"x": "(p=work>p|q=work>q)>join", "y": "work>y"}
    assert ran == ["q", "y", "p", "join"]


# ── While others work ────────────────────────────────────────────────────────────────────────────


async def test_a_question_is_put_while_a_sibling_still_works_and_its_answer_taken_at_once() -> None:
    ran: Ran = []
    finish = asyncio.Event()

    async def slow(context: StepContext, text: str) -> str:
        await finish.wait()
        return "slow"

    engine = EngineRun(line_of(fork(mark("x", ran, before=GATE), Step("slow", slow)), gathers(ran)))
    async with under_way(engine) as task:
        await asked(engine, 1)
        await engine.answer(engine.asks[0], YES)
        async with asyncio.timeout(10):
            while "x" not in ran:  # noqa: ASYNC110 - a list tells nobody
                await asyncio.sleep(0.005)
        assert not task.done()
        finish.set()
        await task
    assert engine.output == "(x=work>x|slow=slow)>last"


async def test_several_questions_of_one_branch_are_answered_while_a_sibling_works() -> None:
    finish = asyncio.Event()
    counted: list[str] = []

    async def slow(context: StepContext, text: str) -> str:
        await finish.wait()
        return "slow"

    @tool
    async def enquire(context: ToolContext) -> str:
        """Asks twice, and does something once in between."""
        first = await context.pause(Question("First?", answer=str, channel=approvers))
        await context.step("noted", lambda: counted.append(first))
        second = await context.pause(Question("Second?", answer=str, channel=approvers))
        return f"{first} {second}"

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return reply_with(last.text) if last.role == "tool" else call_tool(enquire)

    clerk = Agent("clerk", prompt="", model=ScriptedModel(answer), tools=[enquire])
    engine = EngineRun(line_of(fork(clerk, Step("slow", slow))))
    async with under_way(engine) as task:
        for number in range(2):
            await asked(engine, number + 1)
            await engine.answer(engine.asks[number], Value(value=f"v{number}"))
        await asyncio.sleep(0.05)
        finish.set()
        await task
    assert engine.output == {"clerk": "v0 v1", "slow": "slow"}
    assert counted == ["v0"], "a stored step is not run again by a later answer"


async def test_an_answer_that_comes_while_the_run_is_taken_up_again_is_not_missed() -> None:
    ran: Ran = []
    paused = await run(three(ran))
    first, second, third = paused.waiting
    await paused.answer(first, YES)
    paused.news.clear()
    # The run begins with one answer; the others come at once, before its lines have found out that they wait.
    async with under_way(paused.restarted()) as task:
        await asyncio.sleep(0)
        await paused.answer(second, YES)
        await paused.answer(third, YES)
        await task
    assert paused.output == "(x=work>x|y=work>y|z=work>z)>last"


class Deaf(EngineRun):
    """A run whose worker cannot hear of decisions."""

    async def decided(self) -> Mapping[str, Answer]:
        raise ConnectionError("the store is gone")


async def test_a_run_whose_worker_cannot_hear_of_decisions_is_given_up_at_once() -> None:
    async def never(context: StepContext, text: str) -> str:
        await asyncio.Event().wait()
        return text

    engine = Deaf(line_of(fork(mark("x", [], before=GATE), Step("never", never))))
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(5):
            await engine.go()


# ── Failures and endings ─────────────────────────────────────────────────────────────────────────


async def test_when_one_branch_fails_calls_in_flight_end_and_nothing_new_starts() -> None:
    ran: Ran = []
    begun, finish = asyncio.Event(), asyncio.Event()

    async def fails(context: StepContext, text: str) -> str:
        await begun.wait()
        finish.set()
        raise RuntimeError("broken")

    async def works(context: StepContext, text: str) -> str:
        begun.set()
        await finish.wait()
        await asyncio.sleep(0.02)
        ran.append("works")
        return text

    served = line_of(
        fork(
            Step("fails", fails),
            Steps("x", [Step("works", works), mark("next", ran)]),
            mark("y", ran, before=GATE),
        ),
        gathers(ran),
    )
    failed = await run(served)
    assert (failed.error.code, failed.error.step) == ("step_failed", "work/fork/fails")
    assert ran == ["works"]
    assert failed.steps["work/fork/fails"].status is StepStatus.FAILED


@pytest.mark.parametrize(
    ("on_reject", "how"), [("cancel", "reject"), ("fail", "reject"), ("cancel", "expire")]
)
async def test_a_rejection_in_one_branch_ends_the_whole_run(on_reject: Any, how: str) -> None:
    ran: Ran = []
    gate = Confirm("Begin?", channel=approvers, on_reject=on_reject, expires_after=SOON)
    served = line_of(
        fork(mark("x", ran, before=gate), Step("publisher", publisher(ran))), gathers(ran)
    )
    paused = await run(served)
    ask = paused.asked_at("work/fork/x#before0")
    if how == "expire":
        paused.outcome = Waiting(asks=(ask,))
        paused.asks = [ask]
        await paused.restarted().expire()
    else:
        await paused.restarted().answer(ask, NO)
        await paused.go()
    if on_reject == "fail":
        assert (paused.error.code, paused.error.step) == ("rejected", "work/fork/x")
    else:
        by = "system:deadline" if how == "expire" else "alice"
        assert paused.stop_reason == f"rejected by {by}"
    assert ran == []


async def test_every_ask_works_in_a_branch_beside_all_the_others() -> None:
    ran: Ran = []
    tries: list[int] = []

    def risky(context: StepContext, text: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("no luck")
        return f"{text}>risky"

    def fills(context: StepContext, text: str) -> str:
        return f"{text}>{context.input(Filled).word}"

    ways = [mark("left", ran), mark("right", ran)]
    served = line_of(
        fork(
            mark("confirm", ran, before=GATE),
            Step("input", fills, before=AskInput("Word?", Filled, channel=approvers)),
            Router("route", choices=ways, select=Choose("Way?", channel=approvers)),
            mark("review", ran, after=Review("Good?", channel=approvers)),
            Step("error", risky, on_error=AskError("What now?", channel=approvers)),
            Loop(
                "loop",
                steps=[mark("again", ran)],
                max_iterations=2,
                after_each=Review("Enough?", channel=approvers),
            ),
            Step("agent", publisher(ran)),
        )
    )
    paused = await run(served)
    assert len(paused.waiting) == 7
    await decided(
        paused,
        agent=YES,
        loop=NO,
        error=Action(action="retry"),
        review=NO,
        route=Value(value=["right"]),
        input=Value(value={"word": "hello"}),
        confirm=YES,
    )
    await decided(paused, loop=YES, review=YES)
    assert paused.output == {
        "confirm": "work>confirm",
        "input": "work>hello",
        "route": "work>right",
        "review": "work>review",
        "error": "work>risky",
        "loop": "work>again>again",
        "agent": "work>publisher",
    }
