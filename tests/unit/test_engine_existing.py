"""Graphs built for LangGraph, unchanged: what they ask is paused at, and what is answered reaches them once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from app.authoring import Agent, Approval, AuthoringError, ScriptedModel, Workflow, reply_with
from app.channels import AutoApproveChannel, InboxChannel
from app.domain.decision import Decline, InvalidDecision, Value, Verdict
from app.domain.pause import PauseKind
from tests.engine_runs import EngineRun, Store, run
from tests.workflows.movers import REPEATS, agent, asks_for, several

desk = InboxChannel("desk")
HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}
TO_ANN = ("send", {"to": "ann", "text": "hi"})
TO_BOB = ("send", {"to": "bob", "text": "ho"})


def served(graph: Any, **options: Any) -> Workflow:
    return Workflow.from_graph("moved", graph, version="1", channels=[desk], **options)


class Notes(TypedDict, total=False):
    heard: list[Any]
    topic: str


def asking(*questions: Any, **options: Any) -> Any:
    """A graph whose one node asks all of these, one after the other."""

    def ask(state: Notes) -> Notes:
        return {"heard": [interrupt(each, **options) for each in questions]}

    graph = StateGraph(Notes)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile()


def text_of(going: EngineRun) -> str:
    return going.output["messages"][-1]["content"]


# ── LangChain's agents ───────────────────────────────────────────────────────────────────────────

MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])


@MODES
async def test_a_call_that_the_middleware_asks_about_is_an_approval_and_runs_once_approved(
    mode: str,
) -> None:
    going = await run(served(agent(asks_for(TO_ANN), REPEATS, send=True, mode=mode)), HELLO)
    assert going.ask.kind is PauseKind.APPROVAL
    assert going.shown_call["tool"] == "send"
    assert going.shown_call["arguments"] == {"to": "ann", "text": "hi"}
    assert going.ask.shown["allowed"] == ["verdict", "override_arguments"]
    await going.restarted().approve()
    assert text_of(going) == "sent hi to ann"


@MODES
async def test_a_rejection_and_its_reason_reach_the_model(mode: str) -> None:
    going = await run(served(agent(asks_for(TO_ANN), REPEATS, send=True, mode=mode)), HELLO)
    await going.reject("she moved")
    assert "rejected" in text_of(going)
    assert text_of(going).endswith("she moved")


@MODES
async def test_other_arguments_are_what_runs(mode: str) -> None:
    going = await run(served(agent(asks_for(TO_ANN), REPEATS, send=True, mode=mode)), HELLO)
    await going.approve(override_arguments={"to": "eve", "text": "hi"})
    assert text_of(going).endswith("sent hi to eve")


async def test_other_arguments_are_checked_by_the_schema_that_the_graph_shows() -> None:
    graph = agent(asks_for(TO_ANN), REPEATS, send=True, mode="per_call")
    going = await run(served(graph), HELLO)
    with pytest.raises(InvalidDecision) as refused:
        await going.settle(Verdict(approved=True, override_arguments={"to": 7, "text": "hi"}))
    assert [field.pointer for field in refused.value.fields] == ["/override_arguments/to"]


@MODES
async def test_calls_of_one_turn_are_pauses_of_their_own_answered_in_any_order(mode: str) -> None:
    graph = agent(asks_for(TO_ANN, TO_BOB), REPEATS, send=True, mode=mode)
    going = await run(served(graph), HELLO)
    ann, bob = sorted(going.waiting, key=lambda ask: ask.shown["call"]["arguments"]["to"])
    await going.answer(bob, Verdict(approved=False))
    await going.go()
    assert going.waiting == [ann]
    await going.restarted().approve()
    rejected, sent = sorted(text_of(going).split(" | "))
    assert (sent, "rejected" in rejected) == ("sent hi to ann", True)


@MODES
async def test_decisions_that_the_graph_does_not_take_are_refused(mode: str) -> None:
    only = {"allowed_decisions": ["approve"]}
    going = await run(served(agent(asks_for(TO_ANN), REPEATS, send=only, mode=mode)), HELLO)
    assert going.ask.shown["allowed"] == ["verdict"]
    for decision in (
        Verdict(approved=False),
        Decline(),
        Value(value="no"),
        Verdict(approved=True, override_arguments={"to": "eve", "text": "hi"}),
    ):
        with pytest.raises(InvalidDecision):
            await going.settle(decision)
    assert text_of(await going.approve()) == "sent hi to ann"


@MODES
async def test_where_only_a_respond_is_allowed_somebody_gives_the_result(mode: str) -> None:
    only = {"allowed_decisions": ["respond"]}
    going = await run(served(agent(asks_for(TO_ANN), REPEATS, send=only, mode=mode)), HELLO)
    assert going.ask.kind is PauseKind.EXTERNAL_RESULT
    assert text_of(await going.fill("I told her")) == "I told her"


class Crash(BaseException):
    """The process dies."""


async def test_after_a_crash_a_finished_tool_is_not_run_again_and_a_decision_not_lost() -> None:
    ran: list[str] = []

    @tool
    def first() -> str:
        """Runs before the crash."""
        ran.append("first")
        return "one"

    @tool
    def second() -> str:
        """Dies the first time."""
        ran.append("second")
        if ran.count("second") == 1:
            raise Crash
        return "two"

    replies = [asks_for(("first", {})), asks_for(("second", {})), REPEATS]
    going = await run(served(agent(*replies, tools=[first, second], second=True)), HELLO)
    with pytest.raises(Crash):
        await going.approve()
    await going.restarted().go()
    assert text_of(going) == "one | two"
    assert ran == ["first", "second", "second"]
    assert len(going.asks) == 1
    await going.restarted().go()  # the process died before the run's end was written
    assert text_of(going) == "one | two"
    assert len(ran) == 3


async def test_a_text_goes_in_and_comes_out_where_that_is_wanted() -> None:
    workflow = served(agent(asks_for(TO_ANN), REPEATS), input=str, output=str)
    assert (await run(workflow, "hello")).output == "sent hi to ann"


# ── Agent-inbox ──────────────────────────────────────────────────────────────────────────────────


def request(**may: bool) -> dict[str, Any]:
    config = dict.fromkeys(("allow_ignore", "allow_respond", "allow_edit", "allow_accept"), False)
    return {
        "action_request": {"action": "send", "args": {"to": "ann"}},
        "config": config | may,
        "description": "Shall it be sent?",
    }


@pytest.mark.parametrize(
    ("may", "decision", "heard"),
    [
        ({"allow_accept": True}, Verdict(approved=True), {"type": "accept", "args": None}),
        ({"allow_ignore": True}, Verdict(approved=False), {"type": "ignore", "args": None}),
        (
            {"allow_ignore": True, "allow_respond": True},
            Verdict(approved=False, feedback="later"),
            {"type": "response", "args": "later"},
        ),
        (
            {"allow_edit": True},
            Verdict(approved=True, override_arguments={"to": "bob"}),
            {"type": "edit", "args": {"action": "send", "args": {"to": "bob"}}},
        ),
        ({"allow_respond": True}, Value(value="done"), {"type": "response", "args": "done"}),
    ],
    ids=["accept", "ignore", "ignore with a reason", "edit", "respond"],
)
async def test_requests_of_agent_inbox_are_answered_as_it_answers_them(
    may: dict[str, bool], decision: Any, heard: Any
) -> None:
    going = await run(served(asking([request(**may)])), {})
    assert going.ask.shown["message"] == "Shall it be sent?"
    assert (await going.decide(decision)).output["heard"] == [[heard]]


# ── Anything else that is asked ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [None, False, 0, "", {}, [], {"0" * 32: 1}, {"a": [1, "ü"]}])
async def test_an_interrupt_returns_exactly_what_was_answered(value: Any) -> None:
    going = await run(served(asking("What now?")), {})
    assert (going.ask.kind, going.ask.shown["message"]) == (PauseKind.INTERACTIVE, "What now?")
    assert (await going.fill(value)).output["heard"] == [value]


async def test_a_question_is_not_declined_since_the_graph_waits_for_a_value() -> None:
    going = await run(served(asking({"question": "Which?", "of": [1, 2]})), {})
    assert going.ask.shown["message"] == "Which?"
    assert going.ask.shown["output"] == {"question": "Which?", "of": [1, 2]}
    with pytest.raises(InvalidDecision):
        await going.settle(Decline())


async def test_an_answer_is_checked_by_the_schema_of_the_interrupt() -> None:
    class Seats(BaseModel):
        count: Annotated[int, Field(ge=1)]

    going = await run(served(asking("How many?", response_schema=Seats)), {})
    with pytest.raises(InvalidDecision) as refused:
        await going.settle(Value(value={"count": 0}))
    assert [field.pointer for field in refused.value.fields] == ["/value/count"]
    assert (await going.fill({"count": 2})).output["heard"] == [{"count": 2}]


async def test_a_node_that_asks_twice_hears_each_answer_at_its_own_question() -> None:
    going = await run(served(asking("First?", "Second?")), {})
    await going.restarted().fill("one")
    assert going.ask.shown["message"] == "Second?"
    await going.restarted().go()  # nobody has answered it: the first answer is not given again
    assert going.ask.shown["message"] == "Second?"
    assert (await going.restarted().fill("two")).output["heard"] == ["one", "two"]


async def test_several_interrupts_at_once_are_answered_each_by_its_own_in_any_order() -> None:
    going = await run(served(several()), {"names": ["ann", "bob", "eve"]})
    asked = {str(ask.shown["message"]): ask for ask in going.waiting}
    for number, name in enumerate(("eve", "ann", "bob")):
        answer = {"street": name.upper(), "number": number}
        await going.answer(asked[f"Where does {name} live?"], Value(value=answer))
        await going.restarted().go()
    assert sorted(going.output["sent"]) == ["ann: ANN 1", "bob: BOB 2", "eve: EVE 0"]
    assert len(going.asks) == 3


async def test_a_graph_in_a_graph_asks_too_and_hears_twice() -> None:
    outer = StateGraph(Notes)
    outer.add_node("inner", asking("First?", "Second?"))
    outer.add_edge(START, "inner")
    going = await run(served(outer.compile()), {})
    await going.restarted().fill("one")
    await going.restarted().fill("two")
    assert going.output["heard"] == ["one", "two"]


async def test_a_graph_that_a_node_invokes_by_itself_asks_too() -> None:
    def invokes(state: Notes) -> Notes:
        return {"heard": asking("Inner?").invoke({})["heard"]}

    graph = StateGraph(Notes)
    graph.add_node("invokes", invokes)
    graph.add_edge(START, "invokes")
    going = await run(served(graph.compile()), {})
    assert (await going.restarted().fill("yes")).output["heard"] == ["yes"]


async def test_a_stale_answer_never_reaches_the_next_question() -> None:
    """The engine relies on an interrupt's id to change with each answer of its task."""
    compiled = asking("First?", "Second?").copy({"checkpointer": Store()})
    config: Any = {"configurable": {"thread_id": "t"}}
    first = (await compiled.ainvoke({}, config))["__interrupt__"][0]
    second = (await compiled.ainvoke(Command(resume={first.id: 1}), config))["__interrupt__"][0]
    assert first.id != second.id


async def test_a_channel_that_decides_at_once_decides_here_too() -> None:
    robot = AutoApproveChannel("robot")
    workflow = Workflow.from_graph(
        "moved", agent(asks_for(TO_ANN), REPEATS, send=True), version="1", channels=[robot]
    )
    going = await run(workflow, HELLO)
    assert text_of(going) == "sent hi to ann"
    (ask,) = going.decided_at_once
    assert ask.settled is not None
    assert ask.settled.answer.by == "robot"
    unanswered = Workflow.from_graph("moved", asking("What?"), version="1", channels=[robot])
    assert (await run(unanswered, {})).ask.kind is PauseKind.INTERACTIVE  # it says yes and no more


async def test_a_question_that_nobody_answers_in_time_fails_the_run_and_a_call_is_rejected() -> (
    None
):
    soon = Approval(expires_after=timedelta(hours=1))
    question = await (await run(served(asking("What?"), asks=soon), {})).expire()
    assert question.error.code == "pause_expired"
    graph = agent(asks_for(TO_ANN), REPEATS, send=True)
    call = await (await run(served(graph, asks=soon), HELLO)).expire()
    assert "rejected" in text_of(call)


async def test_a_node_that_fails_fails_the_run_with_its_words() -> None:
    def fails(state: Notes) -> Notes:
        raise ValueError("no paper")

    graph = StateGraph(Notes)
    graph.add_node("fails", fails)
    graph.add_edge(START, "fails")
    failed = await run(served(graph.compile()), {})
    assert (failed.error.code, failed.error.message, failed.error.step) == (
        "step_failed",
        "no paper",
        "moved/graph",
    )


async def test_a_state_that_is_no_json_fails_the_run_and_says_so() -> None:
    def odd(state: Notes) -> Any:
        return {"heard": [object()]}

    graph = StateGraph(Notes)
    graph.add_node("odd", odd)
    graph.add_edge(START, "odd")
    failed = await run(served(graph.compile()), {})
    assert failed.error.code == "step_failed"
    assert "serializable: object" in failed.error.message


async def test_a_state_that_would_come_back_as_another_fails_the_run_instead_of_pausing() -> None:
    class Order(BaseModel):
        number: int

    def order(state: Notes) -> Notes:
        return {"heard": [Order(number=7)]}

    graph = StateGraph(Notes)
    graph.add_node("order", order)
    graph.add_node("ask", asking("Go on?"))
    graph.add_edge(START, "order")
    graph.add_edge("order", "ask")
    failed = await run(served(graph.compile()), {})
    assert failed.error.code == "step_failed"
    assert "Order" in failed.error.message


# ── How it is declared ───────────────────────────────────────────────────────────────────────────


def test_an_input_is_checked_by_the_schema_of_the_graph() -> None:
    program = EngineRun(served(asking("What?"))).program
    assert program.check_input({"topic": "rain"}).true == {"topic": "rain"}
    with pytest.raises(Exception, match="does not fit"):
        program.check_input({"topic": 7})
    with pytest.raises(Exception, match="does not fit"):
        EngineRun(served(agent(REPEATS))).program.check_input({"messages": []})


def test_a_graph_with_another_node_is_another_workflow() -> None:
    assert served(asking("a")).fingerprint == served(asking("b")).fingerprint
    assert served(asking("a")).fingerprint != served(agent(REPEATS)).fingerprint


def nested() -> Workflow:
    helper = Agent("helper", prompt="", model=ScriptedModel([reply_with("done")]))
    return Workflow("outer", version="1", input=Any, steps=[served(asking("a")), helper])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: served(StateGraph(Notes)), "compile it first"),
        (lambda: served("graph"), "must be a compiled graph"),
        (lambda: served(agent(REPEATS).copy({"interrupt_before_nodes": "*"})), "interrupt_before="),
        (lambda: served(asking("a"), input=str), "it has none"),
        (lambda: served(asking("a"), asks=Approval(when=bool)), "when= could never matter"),
        (
            lambda: Workflow.from_graph("moved", asking("a"), version="1", channels=[]),
            "asks nobody",
        ),
        (nested, "no step of another"),
    ],
    ids=["not compiled", "no graph", "breakpoints", "text", "when", "nobody", "nested"],
)
def test_what_cannot_be_served_is_a_mistake(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(AuthoringError, match=says):
        wrong()
