"""Guardrails look at calls, decisions, results and answers, in their order, and each of them once."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from app.authoring import (
    Approval,
    Block,
    CallDecision,
    Guards,
    Limits,
    ModelJudge,
    ModelRequest,
    Question,
    Replace,
    Reply,
    Retry,
    ScriptedModel,
    Sensitive,
    Step,
    StepContext,
    ToolCall,
    ToolContext,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel
from app.domain.decision import InvalidDecision, Value, Verdict
from tests.engine_runs import EngineRun, approvers, run, script, workflow

seen: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def first_tool_guard(call: ToolCall) -> None:
    seen.append(f"before_call {call.arguments['amount']}")


async def first_agent_guard(call: ToolCall) -> None:
    await asyncio.sleep(0)
    seen.append(f"before_tool_call {call.arguments['amount']}")


def on_decision(call: ToolCall, decision: CallDecision) -> None:
    seen.append(f"on_decision {decision.approved} by {decision.by}")


def last_tool_guard(call: ToolCall, result: str) -> None:
    seen.append(f"after_call {result}")


def last_agent_guard(call: ToolCall, result: str) -> None:
    seen.append(f"after_tool_call {result}")


def before_answer(answer: str) -> None:
    seen.append("before_answer")


def judge(answer: str) -> None:
    seen.append("judge")


class Payment(BaseModel):
    amount: int = Field(ge=0)
    note: str = ""
    pin: Annotated[str | None, Sensitive] = None


def is_large(payment: Payment) -> bool:
    seen.append(f"when {payment.amount}")
    return payment.amount > 5


@tool(
    channel=approvers,
    approval=Approval(when=is_large),
    before_call=[first_tool_guard],
    after_call=[last_tool_guard],
)
async def pay(payment: Payment) -> str:
    seen.append(f"run {payment.amount}")
    return f"paid {payment.amount}"


def paying(*amounts: int) -> Reply:
    return call_tools(*(call_tool(pay, Payment(amount=amount)) for amount in amounts))


ALL: dict[str, Any] = {
    "before_tool_call": [first_agent_guard],
    "on_decision": [on_decision],
    "after_tool_call": [last_agent_guard],
    "before_answer": [before_answer],
    "judges": [judge],
}


async def test_every_check_comes_in_its_order_and_once_whatever_restarts() -> None:
    paused = await run(workflow(pay, model=script(paying(10)), **ALL))
    assert seen == ["before_call 10", "before_tool_call 10", "when 10"]
    await paused.restarted().approve()
    assert seen[3:] == [
        "on_decision True by alice",
        "run 10",
        "after_call paid 10",
        "after_tool_call paid 10",
        "before_answer",
        "judge",
    ]
    assert paused.output == "paid 10"


async def test_all_calls_of_a_turn_are_checked_before_the_first_question() -> None:
    paused = await run(workflow(pay, model=script(paying(10, 20, 1)), **ALL))
    assert [line for line in seen if line.startswith("before_call")] == [
        "before_call 10",
        "before_call 20",
        "before_call 1",
    ]
    assert paused.ask.shown["position"] == {"index": 0, "of": 2}
    await paused.restarted().approve()
    await paused.restarted().reject()
    after = [line for line in seen if line.startswith("after_call")]
    assert after == ["after_call paid 10", "after_call paid 1"]
    assert seen.count("before_call 10") == 1


def no_tens(call: ToolCall) -> Block | None:
    return Block("suspiciously round") if call.arguments["amount"] % 10 == 0 else None


async def test_a_blocked_call_is_never_asked_and_its_siblings_go_on() -> None:
    paused = await run(
        workflow(pay, model=script(paying(20, 7)), before_tool_call=[no_tens], history=1)
    )
    assert paused.shown_call["arguments"]["amount"] == 7
    assert paused.ask.shown["position"] == {"index": 0, "of": 1}
    await paused.restarted().approve()
    assert paused.output == "Tool error: blocked by no_tens: suspiciously round\npaid 7"
    assert len(paused.asks) == 1


async def test_a_blocked_call_counts_and_no_after_check_sees_it() -> None:
    failed = await run(
        workflow(
            pay,
            model=script(paying(10), paying(10)),
            before_tool_call=[no_tens],
            limits=Limits(tool_calls=1),
        )
    )
    assert failed.error.code == "limit_exceeded"
    assert not [line for line in seen if line.startswith("after")]


async def test_calls_with_unknown_tools_or_invalid_arguments_reach_no_guardrail() -> None:
    calls = call_tools(call_tool("unknown", {}), call_tool("pay", {"amount": -1}))
    ended = await run(workflow(pay, model=script(calls), **ALL))
    assert seen == ["before_answer", "judge"]
    assert str(ended.output).count("Tool error") == 2


def halved(call: ToolCall) -> Replace:
    return Replace({**call.arguments, "amount": call.arguments["amount"] // 2})


async def test_replaced_arguments_are_what_the_next_check_the_approver_and_the_tool_see() -> None:
    paused = await run(
        workflow(pay, model=script(paying(20)), before_tool_call=[halved, first_agent_guard])
    )
    assert "before_tool_call 10" in seen
    assert "when 10" in seen
    assert paused.shown_call["arguments"] == {"amount": 10, "note": "", "pin": None}
    await paused.restarted().approve()
    assert paused.output == "paid 10"


def changing_what_it_sees(call: ToolCall) -> None:
    call.arguments["amount"] = 0


async def test_a_guardrail_changes_nothing_by_changing_what_it_was_shown() -> None:
    ended = await run(
        workflow(pay, model=script(paying(3)), before_tool_call=[changing_what_it_sees])
    )
    assert ended.output == "paid 3"


def crashing(*_: Any) -> None:
    raise RuntimeError("out of order")


def saying_true(*_: Any) -> Any:
    return True


def replacing_badly(call: ToolCall) -> Replace:
    return Replace({"amount": "much"})


@pytest.mark.parametrize(
    ("where", "guardrail", "amount"),
    [
        ("before_tool_call", crashing, 10),
        ("before_tool_call", saying_true, 10),
        ("before_tool_call", replacing_badly, 10),
        ("after_tool_call", crashing, 1),
        ("after_tool_call", saying_true, 1),
        ("before_answer", crashing, 1),
        ("judges", crashing, 1),
        ("judges", saying_true, 1),
    ],
)
async def test_a_guardrail_that_fails_fails_the_run(
    where: str, guardrail: Any, amount: int
) -> None:
    failed = await run(workflow(pay, model=script(paying(amount)), **{where: [guardrail]}))
    assert failed.error.code == "guardrail_failed"
    assert guardrail.__name__ in failed.error.message
    assert failed.error.step == "work/assistant"
    assert failed.asks == []


async def test_a_guardrail_on_decisions_that_fails_fails_the_run() -> None:
    paused = await run(workflow(pay, model=script(paying(10)), on_decision=[crashing]))
    await paused.approve()
    assert paused.error.code == "guardrail_failed"
    assert "run 10" not in seen


def not_by_alice(call: ToolCall, decision: CallDecision) -> Block | None:
    return Block("not hers to say") if decision.by == "alice" else None


async def test_a_decision_may_be_blocked_and_the_call_does_not_run() -> None:
    paused = await run(workflow(pay, model=script(paying(10)), on_decision=[not_by_alice]))
    await paused.restarted().approve()
    assert paused.output == "Tool error: blocked by not_by_alice: not hers to say"
    assert "run 10" not in seen
    assert not [line for line in seen if line.startswith("after")]


async def test_a_blocked_rejection_is_still_a_rejection() -> None:
    paused = await run(workflow(pay, model=script(paying(10)), on_decision=[not_by_alice]))
    await paused.reject("too much")
    assert paused.output == "Tool error: the call was rejected by alice: too much"


async def test_what_a_channel_decides_at_once_passes_the_same_checks() -> None:
    at_once = AutoApproveChannel("at-once")

    @tool(channel=at_once)
    async def give(amount: int) -> str:
        return f"gave {amount}"

    ended = await run(
        workflow(
            give,
            model=script(call_tool(give, amount=1)),
            channels=[at_once],
            on_decision=[on_decision],
        )
    )
    assert seen == ["on_decision True by at-once"]
    assert ended.output == "gave 1"


# ── Overrides and filled-in values ───────────────────────────────────────────────────────────────


async def test_an_override_is_checked_before_the_decision_counts() -> None:
    paused = await run(workflow(pay, model=script(paying(7)), before_tool_call=[no_tens]))
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle(Verdict(approved=True, override_arguments={"amount": 50}))
    assert refused.value.code == "guardrail_blocked"
    (field,) = refused.value.fields
    assert field.pointer == "/override_arguments"
    assert field.message == "blocked by no_tens: suspiciously round"
    await paused.approve(override_arguments={"amount": 51})
    assert str(paused.output).startswith("paid 51\n")


async def test_an_override_goes_on_as_guardrails_change_it() -> None:
    paused = await run(workflow(pay, model=script(paying(14)), before_tool_call=[halved]))
    await paused.approve(override_arguments={"amount": 30})
    (settled,) = paused.settled
    assert settled.shown["override_arguments"] == {"amount": 30}
    assert settled.shown["effective_arguments"] == {"amount": 15, "note": "", "pin": None}
    assert paused.asks[0].shown["call"]["arguments"] == {"amount": 7, "note": "", "pin": None}
    assert str(paused.output).startswith("paid 15\n\n[alice changed the arguments of this call to ")


async def test_a_guardrail_that_fails_at_an_override_leaves_the_pause_open() -> None:
    def crashing_on_nine(call: ToolCall) -> None:
        if call.arguments["amount"] == 9:
            raise RuntimeError("out of order")

    paused = await run(workflow(pay, model=script(paying(7)), before_tool_call=[crashing_on_nine]))
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle(Verdict(approved=True, override_arguments={"amount": 9}))
    assert refused.value.code == "guardrail_blocked"
    await paused.approve()
    assert paused.output == "paid 7"


async def test_the_remark_about_an_override_outlives_a_replaced_result() -> None:
    def short(call: ToolCall, result: str) -> Replace:
        return Replace("done")

    paused = await run(workflow(pay, model=script(paying(7)), after_tool_call=[short]))
    await paused.approve(override_arguments={"amount": 8})
    assert str(paused.output).startswith("done\n\n[alice changed the arguments")


def known_account(call: ToolCall) -> Block | None:
    iban = call.arguments.get("iban")
    return Block("unknown account") if iban is not None and iban != "DE1" else None


@tool(channel=approvers, fill=["iban"], before_call=[known_account])
async def pay_out(customer: str, iban: str) -> str:
    return f"{customer} has {iban}"


async def test_what_a_person_fills_in_is_checked_before_the_decision_counts() -> None:
    paused = await run(workflow(pay_out, model=script(call_tool("pay_out", {"customer": "c"}))))
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle(Value(value={"iban": "XX"}))
    assert refused.value.code == "guardrail_blocked"
    assert refused.value.fields[0].pointer == "/value"
    await paused.fill({"iban": "DE1"})
    assert paused.output == "c has DE1"


async def test_a_reason_shows_no_sensitive_argument() -> None:
    def telling(call: ToolCall) -> Block:
        return Block(f"the pin {call.arguments['pin']} is wrong")

    ended = await run(
        workflow(
            pay,
            model=script(call_tool(pay, Payment(amount=1, pin="4711"))),
            before_tool_call=[telling],
        )
    )
    assert ended.output == "Tool error: blocked by telling: the pin *** is wrong"


# ── Results ──────────────────────────────────────────────────────────────────────────────────────


def redacted(call: ToolCall, result: str) -> Replace:
    return Replace(result.replace("paid", "p***"))


async def test_a_result_is_read_as_the_checks_leave_it() -> None:
    ended = await run(workflow(pay, model=script(paying(1)), after_tool_call=[redacted], history=1))
    assert ended.output == "p*** 1"
    assert "after_call paid 1" in seen
    assert [each["text"] for each in ended.said() if each["role"] == "tool"] == ["p*** 1"]


async def test_after_checks_are_visited_in_call_order_once_all_have_ended() -> None:
    @tool
    async def slow(context: ToolContext, name: str) -> str:
        if name == "asks":
            return await context.pause(Question("Which?", answer=str, channel=approvers))
        if name == "fails":
            raise RuntimeError("no")
        return name

    calls = call_tools(*(call_tool(slow, name=name) for name in ("asks", "fails", "quick")))
    paused = await run(workflow(slow, model=script(calls), after_tool_call=[last_agent_guard]))
    assert seen == []
    await paused.restarted().decide(Value(value="mine"))
    assert seen == [f"after_tool_call {each}" for each in ("mine", "Tool error: no", "quick")]


async def test_a_result_that_somebody_reports_is_seen_as_well_and_a_refusal_is_not() -> None:
    @tool(channel=approvers, external=True)
    async def phone(who: str) -> str:
        raise NotImplementedError

    calls = call_tools(call_tool(phone, who="a"), call_tool(phone, who="b"))
    paused = await run(workflow(phone, model=script(calls), after_tool_call=[last_agent_guard]))
    await paused.decide(Value(value="paid"))
    await paused.restarted().reject()
    assert seen == ["after_tool_call paid"]
    assert str(paused.output).startswith("paid\n")


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


class Article(BaseModel):
    title: str


async def test_an_answer_may_be_replaced_and_is_remembered_so() -> None:
    def polite(answer: str) -> Replace:
        return Replace(f"{answer}, please")

    ended = await run(workflow(model=script(reply_with("go")), before_answer=[polite], history=1))
    assert ended.output == "go, please"
    assert ended.said()[-1]["text"] == "go, please"


async def test_a_blocked_answer_fails_the_run() -> None:
    def discreet(answer: str) -> Block:
        return Block("says too much")

    failed = await run(workflow(model=script(reply_with("go")), before_answer=[discreet]))
    assert failed.error.code == "guardrail_blocked"
    assert failed.error.message == "blocked by discreet: says too much"


async def test_a_typed_answer_is_seen_and_replaced_as_its_type() -> None:
    def shorter(answer: Article) -> Replace:
        return Replace(Article(title=answer.title[:3]))

    def wrong(answer: Article) -> Replace:
        return Replace("abc")

    model = script(reply_with('{"title": "abcdef"}'))
    ended = await run(workflow(model=model, output=Article, before_answer=[shorter]))
    assert ended.output == {"title": "abc"}
    failed = await run(workflow(model=model, output=Article, before_answer=[wrong]))
    assert failed.error.code == "guardrail_failed"


def improving(request: ModelRequest) -> Reply:
    """Answers with how often it was asked, and with what was said last."""
    return reply_with(f"{request.turn} {request.messages[-1].text}")


async def test_a_judge_sends_an_answer_back_with_its_feedback() -> None:
    def strict(answer: str) -> Retry | None:
        seen.append(answer)
        return Retry("try harder") if answer.startswith("0") else None

    ended = await run(
        workflow(model=ScriptedModel(improving), judges=[strict], before_answer=[before_answer])
    )
    assert ended.output == "1 Your answer was sent back: try harder"
    assert seen == ["before_answer", "0 work", "before_answer", ended.output]


async def test_judges_send_an_answer_back_a_bounded_number_of_times() -> None:
    def never(answer: str) -> Retry:
        seen.append(answer)
        return Retry("no")

    failed = await run(workflow(model=ScriptedModel(improving), judges=[never]))
    assert failed.error.code == "limit_exceeded"
    assert failed.error.details == {"key": "agents.assistant.limits.judge_retries"}
    assert len(seen) == 4
    seen.clear()
    once = Limits(judge_retries=1)
    failed = await run(workflow(model=ScriptedModel(improving), judges=[never], limits=once))
    assert len(seen) == 2


async def test_a_model_judges_too_and_stands_in_the_ledger() -> None:
    def grumpy(request: ModelRequest) -> Reply:
        seen.append(request.messages[-1].text)
        return reply_with("Be kinder." if "0 work" in request.messages[-1].text else "Accept.")

    critic = ModelJudge("critic", model=ScriptedModel(grumpy), prompt="Is it kind?")
    ended = await run(workflow(model=ScriptedModel(improving), judges=[critic, judge]))
    assert ended.output == "1 Your answer was sent back: Be kinder."
    assert seen[0] == "The work:\nwork\n\nThe answer:\n0 work"
    assert [entry.place for entry in ended.ledger] == [
        "work/assistant#0",
        "work/assistant#0.judge0",
        "work/assistant#1",
        "work/assistant#1.judge0",
    ]


# ── The ends of a workflow ───────────────────────────────────────────────────────────────────────


async def shout(context: StepContext, text: str) -> str:
    return text.upper()


def no_secrets(text: str) -> Block | None:
    return Block("a secret") if "secret" in text.lower() else None


def trimmed(text: str) -> Replace:
    return Replace(text.strip())


def guarded(name: str = "work", **ends: Sequence[Any]) -> Workflow:
    return Workflow(
        name, version="1", input=str, steps=[Step("shout", shout)], guards=Guards(**ends)
    )


async def test_guards_look_at_the_input_before_anything_runs() -> None:
    failed = await run(guarded(input=[trimmed, no_secrets]), input=" a secret ")
    assert failed.error.code == "guardrail_blocked"
    assert failed.error.message == "blocked by no_secrets: a secret"
    assert failed.steps == {}
    assert (await run(guarded(input=[trimmed]), input=" a ")).output == "A"


async def test_guards_look_at_the_output_before_anybody_has_it() -> None:
    failed = await run(guarded(output=[no_secrets]), input="my secret")
    assert failed.error.code == "guardrail_blocked"
    assert (await run(guarded(output=[trimmed]), input=" a ")).output == "A"


async def test_the_guards_of_a_workflow_in_a_workflow_look_too() -> None:
    outer = Workflow(
        "outer",
        version="1",
        input=str,
        steps=[Step("inner", guarded("inner", input=[trimmed], output=[no_secrets]))],
    )
    assert (await run(outer, input=" a ")).output == "A"
    failed = await run(outer, input="secret")
    assert failed.error.code == "guardrail_blocked"
    assert failed.error.step == "outer/inner"


async def test_a_guarded_workflow_of_one_agent_pauses_and_goes_on() -> None:
    guards = Guards(input=[trimmed], output=[trimmed])
    paused = await run(workflow(pay, model=script(paying(10)), guards=guards), input=" work ")
    await paused.restarted().approve()
    assert paused.output == "paid 10"


def test_guarding_an_end_changes_the_shape_of_a_workflow() -> None:
    plain = guarded().fingerprint
    assert guarded(input=[trimmed]).fingerprint != plain
    assert guarded(input=[trimmed]).fingerprint == guarded(input=[no_secrets]).fingerprint


# ── Crashes ──────────────────────────────────────────────────────────────────────────────────────


class _Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("survived", range(8))
async def test_no_check_that_was_written_down_is_repeated_after_a_crash(survived: int) -> None:
    """Killed at each write in turn: what had been written by then is not seen again."""
    engine = EngineRun(workflow(pay, model=script(paying(10, 1)), **ALL))
    counts: list[int] = []

    def kill() -> None:
        counts.append(len(seen))
        if len(counts) == survived + 1:
            raise _Killed

    engine.before_write = kill
    await _through(engine)
    engine.before_write = lambda: None
    await _through(engine.restarted())
    assert engine.output == "paid 10\npaid 1"
    for line in set(seen):
        assert seen.count(line) <= 2, line
    if survived < len(counts):
        written = counts[survived - 1] if survived else 0
        for line in seen[:written]:
            assert seen.count(line) == 1, line


async def _through(engine: EngineRun) -> None:
    try:
        await engine.go()
        while engine.waiting:
            await engine.approve()
    except _Killed:
        pass
