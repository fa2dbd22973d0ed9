"""Questions of tools, steps inside them, and work that somebody else does."""

import asyncio
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from app.authoring import (
    Approval,
    Channel,
    Declined,
    Question,
    Tool,
    ToolContext,
    call_tool,
    call_tools,
    tool,
)
from app.channels import AutoRejectChannel
from app.domain.decision import Action, Decision, Decline, InvalidDecision, Value, Verdict
from app.domain.pause import PauseKind
from tests.engine_runs import EngineRun, approvers, run, script, workflow


def asking(question: Question[Any]) -> tuple[Tool[..., Any], list[Any]]:
    """A tool that asks, and the list of the answers it got."""
    answers: list[Any] = []

    @tool
    async def ask(context: ToolContext) -> str:
        answers.append(await context.pause(question))
        return f"heard {answers[-1]!r}"

    return ask, answers


async def paused_at(question: Question[Any]) -> tuple[EngineRun, list[Any]]:
    ask, answers = asking(question)
    return await run(workflow(ask, model=script(call_tool(ask)))), answers


async def test_a_question_pauses_the_run_and_shows_what_is_asked() -> None:
    paused, _ = await paused_at(Question("Which account?", options=["main", "reserve"]))
    assert paused.ask.kind is PauseKind.INTERACTIVE
    assert paused.ask.place == "work/assistant#0.0/q0"
    assert paused.ask.shown["message"] == "Which account?"
    assert paused.ask.shown["options"] == ["main", "reserve"]
    assert paused.ask.shown["call"]["tool"] == "ask"
    assert paused.ask.policy.channel == "approvers"


@pytest.mark.parametrize(
    "value", [False, True, 0, 1.5, "", "Zoë 🌍", None, {}, [], {"a": [{"b": None}]}, {"0" * 32: 1}]
)
async def test_a_question_returns_exactly_the_answer(value: Any) -> None:
    paused, answers = await paused_at(Question("Well?"))
    await paused.restarted().decide(Value(value=value))
    assert answers == [value]
    assert type(answers[0]) is type(value)
    assert paused.output == f"heard {value!r}"


class Account(BaseModel):
    iban: str
    limit: Decimal = Field(gt=0)
    since: date


async def test_an_answer_has_the_type_that_was_asked_for() -> None:
    paused, answers = await paused_at(Question("Which?", answer=Account))
    await paused.restarted().decide(
        Value(value={"iban": "X", "limit": "1.50", "since": "2024-02-29"})
    )
    assert answers == [Account(iban="X", limit=Decimal("1.50"), since=date(2024, 2, 29))]


Wrong = tuple[Question[Any], Decision, list[str]]
WRONG: list[Wrong] = [
    (Question("?", options=["a", "b"]), Value(value="c"), ["/value"]),
    (Question("?", options=["a", "b"]), Value(value=["a"]), ["/value"]),
    (Question("?", options=["a", "b"], multiple=True), Value(value="a"), ["/value"]),
    (Question("?", options=["a", "b"], multiple=True), Value(value=["a", "c"]), ["/value/1"]),
    (Question("?", options=["a", "b"], multiple=True), Value(value=[]), ["/value"]),
    (Question("?", options=["a", "b"], multiple=True), Value(value=["a", "a"]), ["/value"]),
    (Question("?", answer=int), Value(value="1"), ["/value"]),
    (Question("?", answer=int), Value(value=True), ["/value"]),
    (Question("?", answer=str), Value(value=None), ["/value"]),
    (Question("?", answer=datetime), Value(value="tomorrow"), ["/value"]),
    (
        Question("?", answer=Account),
        Value(value={"limit": "1", "since": "2024-02-30"}),
        ["/value", "/value/since"],
    ),
    (Question("?"), Value(value="a\0b"), ["/value"]),
    (Question("?"), Value(value={"a": [float("nan")]}), ["/value/a/0"]),
    (Question("?"), Verdict(approved=True), [""]),
    (Question("?"), Verdict(approved=False, override_arguments={}), [""]),
    (Question("?"), Action(action="skip"), [""]),
]


@pytest.mark.parametrize(("question", "decision", "pointers"), WRONG)
async def test_an_answer_that_was_not_asked_for_leaves_the_question_open(
    question: Question[Any], decision: Decision, pointers: list[str]
) -> None:
    paused, answers = await paused_at(question)
    with pytest.raises(InvalidDecision) as refused:
        await paused.restarted().settle(decision)
    assert sorted({field.pointer for field in refused.value.fields}) == pointers
    assert answers == []


async def test_what_was_answered_is_not_quoted_in_a_refusal() -> None:
    for question in (Question("?", options=["a"]), Question("?", answer=Account)):
        paused, _ = await paused_at(question)
        for value in ("hunter2", {"iban": ["hunter2"], "hunter2": 1}):
            with pytest.raises(InvalidDecision) as refused:
                await paused.settle(Value(value=value))
            assert "hunter2" not in f"{refused.value.message} {refused.value.fields}"


async def test_the_schema_of_an_answer_says_what_is_accepted() -> None:
    paused, _ = await paused_at(Question("Which?", answer=Account))
    schema = paused.ask.shown["response_schema"]
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"value": {"iban": "X", "limit": 1, "since": "2024-01-01"}})
    assert validator.is_valid({"approved": False, "by": "alice", "feedback": "no"})
    assert not validator.is_valid({"value": {"iban": "X"}})
    assert not validator.is_valid({"approved": True})
    assert not validator.is_valid({})


@pytest.mark.parametrize(
    "decision", [Decline(feedback="ask me later"), Verdict(approved=False, feedback="ask me later")]
)
async def test_a_question_that_is_declined_reaches_the_model_as_a_tool_error(
    decision: Decision,
) -> None:
    paused, answers = await paused_at(Question("Well?"))
    await paused.restarted().decide(decision)
    assert paused.output == "Tool error: declined by alice: ask me later"
    assert answers == []


async def test_a_tool_may_answer_a_decline_itself() -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        try:
            return await context.pause(Question("Well?", answer=str))
        except Declined as declined:
            return f"{declined.by} would not say"

    paused = await run(workflow(ask, model=script(call_tool(ask))))
    await paused.decide(Decline())
    assert paused.output == "alice would not say"


async def test_two_questions_in_one_tool_are_two_pauses() -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        one = await context.pause(Question("One?", answer=str))
        two = await context.pause(Question("Two?", answer=str))
        return f"{one}, {two}"

    paused = await run(workflow(ask, model=script(call_tool(ask))))
    assert paused.ask.shown["message"] == "One?"
    await paused.restarted().decide(Value(value="1"))
    assert paused.ask.shown["message"] == "Two?"
    await paused.restarted().decide(Value(value="2"))
    assert paused.output == "1, 2"
    assert paused.places == ["work/assistant#0.0/q0", "work/assistant#0.0/q1"]


async def test_two_tools_that_ask_are_asked_one_at_a_time_and_answers_are_not_swapped() -> None:
    runs: list[str] = []

    @tool
    async def ask(context: ToolContext, name: str) -> str:
        runs.append(name)
        return f"{name} is {await context.pause(Question(f'{name}?', answer=int))}"

    calls = call_tools(call_tool(ask, name="a"), call_tool(ask, name="b"))
    paused = await run(workflow(ask, model=script(calls)))
    assert paused.ask.shown["message"] == "a?"
    assert runs == ["a", "b"]
    await paused.restarted().decide(Value(value=1))
    assert paused.ask.shown["message"] == "b?"
    assert runs == ["a", "b"], "a sibling that waits is not run by the other's answer"
    await paused.restarted().decide(Value(value=2))
    assert paused.output == "a is 1\nb is 2"
    assert sorted(runs) == ["a", "a", "b", "b"]


async def test_siblings_finish_while_one_asks_and_are_not_run_again() -> None:
    finished: list[str] = []

    @tool
    async def ask(context: ToolContext) -> str:
        return await context.pause(Question("Well?", answer=str))

    @tool
    async def work() -> str:
        await asyncio.sleep(0.01)
        finished.append("work")
        return "worked"

    paused = await run(
        workflow(ask, work, model=script(call_tools(call_tool(ask), call_tool(work))))
    )
    assert finished == ["work"]
    await paused.restarted().decide(Value(value="yes"))
    assert paused.output == "yes\nworked"
    assert finished == ["work"]


async def test_a_gated_tool_may_ask_and_the_approval_is_not_asked_again() -> None:
    @tool(channel=approvers)
    async def pay(context: ToolContext, amount: int) -> str:
        return f"{amount} from {await context.pause(Question('Which?', options=['a', 'b']))}"

    paused = await run(workflow(pay, model=script(call_tool(pay, amount=5))))
    await paused.restarted().approve(override_arguments={"amount": 4})
    assert paused.ask.kind is PauseKind.INTERACTIVE
    assert paused.ask.shown["call"]["arguments"] == {"amount": 4}
    await paused.restarted().decide(Value(value="b"))
    assert paused.output.startswith("4 from b\n\n[alice changed")
    assert [ask.kind for ask in paused.asks] == [PauseKind.APPROVAL, PauseKind.INTERACTIVE]


async def test_a_question_cannot_be_swallowed_by_a_tools_own_handlers() -> None:
    @tool
    async def careless(context: ToolContext) -> str:
        try:
            return await context.pause(Question("Well?", answer=str))
        except Exception:  # noqa: BLE001
            return "swallowed"

    @tool
    async def reckless(context: ToolContext) -> str:
        try:
            return await context.pause(Question("Well?", answer=str))
        except BaseException:  # noqa: BLE001
            return "swallowed"

    for each in (careless, reckless):
        paused = await run(workflow(each, model=script(call_tool(each))))
        await paused.restarted().decide(Value(value="yes"))
        assert paused.output == "yes"


async def test_a_question_out_of_a_tools_own_tasks_is_asked() -> None:
    @tool
    async def spread(context: ToolContext) -> str:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(context.pause(Question("Well?", answer=str)))
        return asked.result()

    paused = await run(workflow(spread, model=script(call_tool(spread))))
    await paused.restarted().decide(Value(value="yes"))
    assert paused.output == "yes"


async def test_a_question_is_not_retried() -> None:
    runs: list[int] = []

    @tool(retries=3)
    async def ask(context: ToolContext) -> str:
        runs.append(1)
        return await context.pause(Question("Well?", answer=str))

    paused = await run(workflow(ask, model=script(call_tool(ask))))
    assert len(runs) == 1
    await paused.decide(Decline())
    assert paused.output == "Tool error: declined by alice"
    assert len(runs) == 2


async def test_a_channel_may_answer_a_question_at_once() -> None:
    auto = AutoRejectChannel("auto")
    ask, _ = asking(Question("Well?", channel=auto))
    ended = await run(workflow(ask, model=script(call_tool(ask)), channels=[auto]))
    assert ended.output == "Tool error: declined by auto"
    assert [each.kind for each in ended.decided_at_once] == [PauseKind.INTERACTIVE]


@pytest.mark.parametrize(
    ("channels", "question"),
    [
        ([], Question("Well?")),
        ([approvers], Question("Well?", channel=Channel("strangers"))),
        ([approvers], Question("Well?", options=[])),
    ],
)
async def test_a_question_that_is_written_wrongly_fails_the_run(
    channels: list[Channel], question: Question[Any]
) -> None:
    ask, _ = asking(question)
    failed = await run(workflow(ask, model=script(call_tool(ask)), channels=channels))
    assert failed.error.code == "authoring_error"
    assert failed.error.step == "work/assistant"


async def test_a_step_runs_once_across_pauses() -> None:
    booked: list[str] = []

    @tool
    async def book(context: ToolContext) -> str:
        def number() -> Decimal:
            booked.append("booked")
            return Decimal("1.50")

        price = await context.step("price", number)
        await context.pause(Question("Fine?"))
        again = await context.step("price", number)
        return f"{price + again} {await context.step('async', later)}"

    async def later() -> str:
        booked.append("later")
        return "done"

    paused = await run(workflow(book, model=script(call_tool(book))))
    await paused.restarted().decide(Value(value=True))
    assert paused.output == "3.00 done"
    assert booked == ["booked", "later"]
    assert list(paused.step_results.values()) == ["1.50", "done"]


async def test_two_tasks_of_a_tool_that_run_one_step_run_it_once() -> None:
    ran: list[int] = []

    async def slowly() -> int:
        ran.append(1)
        await asyncio.sleep(0.01)
        return len(ran)

    @tool
    async def both(context: ToolContext) -> list[int]:
        return list(await asyncio.gather(context.step("one", slowly), context.step("one", slowly)))

    ended = await run(workflow(both, model=script(call_tool(both))))
    assert ended.output == "[1,1]"


async def test_a_step_whose_result_is_not_stored_ends_the_run_not_the_call() -> None:
    class StoreGone(Exception):
        pass

    @tool
    async def careless(context: ToolContext) -> str:
        try:
            return await context.step("one", lambda: "done")
        except Exception:  # noqa: BLE001
            return "never mind"

    def fail() -> None:
        raise StoreGone

    broken = EngineRun(workflow(careless, model=script(call_tool(careless))))
    broken.before_step_result = fail
    with pytest.raises(StoreGone):
        await broken.go()


@tool(channel=approvers, external=True)
async def telephone(number: str) -> str:
    """Calls somebody."""
    raise AssertionError("nobody runs this")


async def external(*tools: Tool[..., Any]) -> EngineRun:
    (called,) = tools or (telephone,)
    return await run(workflow(called, model=script(call_tool(called.name, {"number": "110"}))))


async def test_work_of_others_pauses_and_its_result_is_read_by_the_model() -> None:
    paused = await external()
    assert paused.ask.kind is PauseKind.EXTERNAL_RESULT
    assert paused.ask.place == "work/assistant#0.0/result"
    assert paused.ask.shown["call"]["arguments"] == {"number": "110"}
    await paused.restarted().decide(Value(value="they come"))
    assert paused.output == "they come"
    assert paused.settled[0].shown == {"value": "they come", "by": "alice", "via": "api"}


async def test_an_empty_text_is_a_result() -> None:
    paused = await external()
    await paused.decide(Value(value=""))
    assert paused.output == ""


async def test_a_reported_result_must_be_of_the_tools_type() -> None:
    @tool(channel=approvers, external=True)
    async def measure(number: str) -> list[int]:
        raise AssertionError

    paused = await external(measure)
    for wrong, pointer in (("x", "/value"), ([1, "x"], "/value/1"), (None, "/value")):
        with pytest.raises(InvalidDecision) as refused:
            await paused.settle(Value(value=wrong))
        assert [field.pointer for field in refused.value.fields] == [pointer]
    await paused.decide(Value(value=[1, 2]))
    assert paused.output == "[1,2]"


async def test_work_that_is_declined_is_a_tool_error() -> None:
    paused = await external()
    await paused.restarted().decide(Decline(feedback="no line"))
    assert paused.output == "Tool error: declined by alice: no line"


async def test_work_of_others_may_need_an_approval_first() -> None:
    @tool(channel=approvers, external=True, approval=Approval("May they?"))
    async def visit(number: str) -> str:
        raise AssertionError

    paused = await external(visit)
    assert paused.ask.kind is PauseKind.APPROVAL
    await paused.restarted().approve(override_arguments={"number": "112"})
    assert paused.ask.kind is PauseKind.EXTERNAL_RESULT
    assert paused.ask.shown["call"]["arguments"] == {"number": "112"}
    await paused.restarted().decide(Value(value="done"))
    assert paused.output.startswith("done\n\n[alice changed the arguments")
    refused = await external(visit)
    await refused.reject()
    assert refused.output == "Tool error: the call was rejected by alice"
    assert len(refused.asks) == 1
