"""A line goes on from its checkpoint: after every crash, and only with the decision of its own question."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.errors import UnknownInterruptError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from langsmith.utils import get_env_var
from pydantic import Field

from app.authoring import (
    Agent,
    ModelRequest,
    Question,
    Reply,
    ScriptedModel,
    Step,
    StepContext,
    ToolContext,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.domain.decision import Action, Decision, InvalidDecision, Value, Verdict
from app.domain.pause import PauseKind
from app.engine.drive import Ended, Waiting
from app.engine.program import Program
from app.engine.running_line import STRICT_RESUME
from tests.engine_runs import EngineRun, Store, approvers, run, script, workflow


async def test_langgraph_still_refuses_an_answer_to_a_question_that_is_not_pending() -> None:
    """The engine relies on a key that LangGraph does not document."""

    async def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"heard": interrupt("?")}

    graph: Any = StateGraph(cast("Any", dict))
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile(checkpointer=Store())
    config: RunnableConfig = {"configurable": {"thread_id": "t", STRICT_RESUME: True}}
    asked = await compiled.ainvoke({}, config)
    (pending,) = asked["__interrupt__"]
    with pytest.raises(UnknownInterruptError):
        await compiled.ainvoke(Command(resume={"0" * 32: {"value": 1}}), config)
    await compiled.ainvoke(Command(resume={pending.id: {"value": 1}}), config)
    with pytest.raises(UnknownInterruptError):
        await compiled.ainvoke(Command(resume={pending.id: {"value": 1}}), config)


ran: list[str] = []


@tool(channel=approvers)
async def pay(context: ToolContext, to: str) -> str:
    ran.append(f"pay {to} {context.call_id}")
    account = await context.pause(Question("From where?", answer=str))
    ran.append(f"paid {to} {context.call_id}")
    return f"paid {to} from {account}"


@tool
async def look(context: ToolContext) -> str:
    ran.append(f"look {context.call_id}")
    return "seen"


async def prepare(context: StepContext, text: str) -> str:
    ran.append("prepare")
    return f"prepared {text}"


async def finish(context: StepContext, text: str) -> str:
    ran.append("finish")
    return f"{text}, finished"


def cashier() -> Agent:
    def answer(request: ModelRequest) -> Reply:
        ran.append(f"model {request.turn}")
        if request.turn == 0:
            return call_tools(call_tool(pay, to="bob"), call_tool(look), call_tool(pay, to="eve"))
        return reply_with("; ".join(each.text for each in request.messages if each.role == "tool"))

    return Agent("cashier", prompt="", model=ScriptedModel(answer), tools=[pay, look])


ALONE = [cashier()]
AMONG = [prepare, cashier(), finish]


def served(steps: Sequence[Any]) -> Workflow:
    return Workflow("shop", version="1", input=str, steps=steps, channels=[approvers], history=1)


class Crash(BaseException):
    """The process dies here."""


class CrashingStore(Store):
    """Dies at one of its operations, before or after having written."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self.left = at
        self.after = after

    def _count(self, write: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash
        written = write()
        if self.left == 0:
            raise Crash
        return written

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._count(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._count(lambda: self.put_writes(config, writes, task_id, task_path))


async def survive(program: Program, store: Store) -> EngineRun:
    """Runs to the end, from what is stored alone after every crash and every decision."""
    ran.clear()
    living = EngineRun(program, "cash")
    living.saver = store
    while True:
        try:
            await living.go()
        except Crash:
            continue
        match living.outcome:
            case Waiting() if (
                not living.waiting
            ):  # the crash swallowed an answer: it is given again
                continue
            case Waiting(asks=(ask,)) if ask.kind is PauseKind.APPROVAL:
                decision = Verdict(approved=ask.shown["call"]["arguments"]["to"] == "bob")
            case Waiting():
                decision = Value(value="till")
            case _:
                return living
        settled = await living.settle(decision)
        living.answers[str(living.ask.interrupt_id)] = settled.answer


@pytest.mark.parametrize("steps", [ALONE, AMONG], ids=["alone", "among others"])
async def test_without_a_crash_every_effect_happens_once(steps: Sequence[Any]) -> None:
    ended = await survive(Program(served(steps)), Store())
    assert ended.places == [
        "shop/cashier#0.0",
        "shop/cashier#0.2",
        "shop/cashier#0.0/q0",
    ]
    assert Counter(each.split(" run_")[0] for each in ran) == Counter(
        ["model 0", "pay bob", "look", "pay bob", "paid bob", "model 1"]
        + (["prepare", "finish"] if steps is AMONG else [])
    )


@pytest.mark.parametrize("steps", [ALONE, AMONG], ids=["alone", "among others"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_write_changes_no_outcome(steps: Sequence[Any], after: bool) -> None:
    program = Program(served(steps))
    calm = await survive(program, Store())
    for at in range(1, 100):
        store = CrashingStore(at, after=after)
        ended = await survive(program, store)
        if store.left > 0:
            assert at > 10, "there were writes to crash at"
            return
        assert isinstance(ended.outcome, Ended)
        assert ended.output == calm.output
        assert ended.places == calm.places, "no question is asked twice or left out"
        paid = [each for each in ran if each.startswith("paid")]
        assert 1 <= len(paid) <= 2
        assert len(set(paid)) == 1, "run again, a call has the same id"
        assert not any("eve" in each for each in ran), "what was rejected never runs"
        assert len(ran) <= 6 + 2 + 3, "no more is repeated than was in flight"
    raise AssertionError("the run did not end")


async def test_a_line_that_has_ended_gives_its_output_again() -> None:
    ended = await run(workflow(model=script(reply_with("done")), history=1))
    first = ended.ended
    await ended.restarted().go()
    assert ended.ended == first


async def test_a_decision_of_another_question_does_not_answer_the_open_one() -> None:
    model = script(call_tools(call_tool(pay, to="bob"), call_tool(pay, to="eve")))
    paused = await run(workflow(pay, model=model))
    await paused.approve()
    second = paused.ask.place
    await paused.restarted().go()  # the first decision is still among the answers
    assert paused.ask.place == second
    paused.answers["0" * 32] = paused.settled[0].answer
    await paused.restarted().go()
    assert paused.ask.place == second


async def test_a_checkpoint_of_another_shape_fails_the_run_instead_of_ending_it_early() -> None:
    paused = await run(served(AMONG), "cash")
    await paused.answer(paused.ask, Verdict(approved=True))
    others = (
        served([prepare, Step("teller", cashier()), finish]),
        served([prepare, replace(cashier(), tools=[look]), finish]),
    )
    for other in others:
        paused.program = Program(other)
        await paused.go()
        assert paused.error.code == "workflow_incompatible"


async def test_the_store_failing_is_no_fault_of_the_run() -> None:
    class StoreGone(Exception):
        pass

    def fail() -> None:
        raise StoreGone

    broken = EngineRun(workflow(look, model=script(call_tool(look))))
    broken.before_write = fail
    with pytest.raises(StoreGone):
        await broken.go()


async def test_what_a_model_answered_is_written_before_a_tool_runs() -> None:
    order: list[str] = []

    @tool
    async def act() -> str:
        order.append("act")
        return "acted"

    going = EngineRun(workflow(act, model=script(call_tool(act))))
    going.before_write = lambda: order.append("write")
    await going.go()
    assert order == ["write", "act", "write"]


async def test_going_on_after_a_decision_writes_nothing_before_the_tool_runs() -> None:
    order: list[str] = []

    @tool(channel=approvers)
    async def act() -> str:
        order.append("act")
        return "acted"

    paused = await run(workflow(act, model=script(call_tool(act))))
    assert paused.writes == 0
    paused.before_write = lambda: order.append("write")
    await paused.approve()
    assert order == ["act", "write"]


class Watched(FakeListChatModel):
    """A chat model that notes who watches it."""

    watchers: list[str] = Field(default_factory=list[str])

    async def _acall(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> str:
        self.watchers.extend(type(each).__name__ for each in run_manager.handlers)
        return "done"


async def test_no_tracer_sees_a_run_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LANGSMITH_API_KEY", "none")
    environment_read_before: Any = get_env_var
    environment_read_before.cache_clear()
    watched = Watched(responses=["done"])
    try:
        agent = Agent("assistant", prompt="", model=watched)
        ended = await run(Workflow("w", version="1", input=str, steps=[agent]))
    finally:
        monkeypatch.undo()
        environment_read_before.cache_clear()
    assert ended.output == "done"
    assert watched.watchers == []


class Charging:
    """A tool that dies in the middle of what it does, as often as it is told to."""

    def __init__(self, crashes: int) -> None:
        self.crashes = crashes
        self.calls = 0

        @tool(channel=approvers, on_crash="ask")
        async def charge(context: ToolContext, amount: int) -> int:
            self.calls += 1
            if self.crashes:
                self.crashes -= 1
                raise Crash
            return amount

        self.tool = charge

    async def in_doubt(self) -> EngineRun:
        paused = await run(workflow(self.tool, model=script(call_tool("charge", {"amount": 5}))))
        with pytest.raises(Crash):
            await paused.approve()
        return await paused.restarted().go()


async def test_a_call_in_doubt_is_put_before_a_person_and_not_run_again() -> None:
    charging = Charging(crashes=1)
    doubtful = await charging.in_doubt()
    assert doubtful.ask.kind is PauseKind.UNKNOWN_OUTCOME
    assert doubtful.ask.place == "work/assistant#0.0/doubt0"
    assert doubtful.shown_call["arguments"] == {"amount": 5}
    assert doubtful.ask.shown["allowed"] == ["action", "run_again", "use_value", "fail"]
    assert charging.calls == 1


async def test_a_call_in_doubt_is_run_again_if_somebody_says_so_and_may_be_in_doubt_again() -> None:
    charging = Charging(crashes=2)
    doubtful = await charging.in_doubt()
    with pytest.raises(Crash):
        await doubtful.decide(Action(action="run_again"))
    await doubtful.restarted().go()
    assert doubtful.ask.place == "work/assistant#0.0/doubt1"
    await doubtful.decide(Action(action="run_again"))
    assert doubtful.output == "5"
    assert charging.calls == 3


async def test_the_outcome_of_a_call_in_doubt_may_be_given() -> None:
    charging = Charging(crashes=1)
    doubtful = await charging.in_doubt()
    await doubtful.restarted().decide(Action(action="use_value", value=7))
    assert doubtful.output == "7"
    assert doubtful.settled[-1].shown == {
        "action": "use_value", "value": 7, "by": "alice", "via": "api",
    }  # fmt: skip
    assert charging.calls == 1


async def test_a_run_may_be_given_up_at_a_call_in_doubt() -> None:
    doubtful = await Charging(crashes=1).in_doubt()
    await doubtful.decide(Action(action="fail"))
    assert doubtful.error.code == "unknown_outcome"


@pytest.mark.parametrize(
    ("decision", "pointer"),
    [
        (Action(action="use_value", value="much"), "/value"),
        (Action(action="use_value"), "/value"),
        (Action(action="run_again", value=1), "/value"),
        (Action(action="skip"), "/action"),
        (Verdict(approved=True), "/action"),
    ],
)
async def test_a_wrong_word_about_a_call_in_doubt_leaves_it_open(
    decision: Decision, pointer: str
) -> None:
    doubtful = await Charging(crashes=1).in_doubt()
    with pytest.raises(InvalidDecision) as refused:
        await doubtful.settle(decision)
    assert [field.pointer for field in refused.value.fields] == [pointer]


async def test_a_call_that_ended_in_a_question_is_not_in_doubt() -> None:
    @tool(channel=approvers, on_crash="ask")
    async def charge(context: ToolContext) -> str:
        return await context.pause(Question("From where?", answer=str))

    paused = await run(workflow(charge, model=script(call_tool(charge))))
    await paused.restarted().approve()
    await paused.restarted().decide(Value(value="till"))
    assert paused.output == "till"
