"""What becomes of a call and of a question that nobody decides in time, in an agent wherever it stands."""

from datetime import timedelta
from typing import Any

import pytest

from app.authoring import (
    Approval,
    Declined,
    External,
    Fill,
    Parallel,
    Question,
    Step,
    ToolContext,
    call_tool,
    tool,
)
from app.domain.step import StepStatus
from tests.engine_runs import EngineRun, approvers, run, script, workflow
from tests.step_trees import line_of, mark

SOON = timedelta(hours=1)

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def gated(on_expire: Any) -> EngineRun:
    """A run that waits for the approval of a call."""

    @tool(channel=approvers, approval=Approval(expires_after=SOON, on_expire=on_expire))
    async def pay(euros: int) -> str:
        """Pays."""
        ran.append("pay")
        return f"paid {euros}"

    return await run(workflow(pay, model=script(call_tool(pay, euros=3))))


async def asking(on_expire: Any, *, catches: bool = False) -> EngineRun:
    """A run whose tool waits for an answer."""

    @tool
    async def enquire(context: ToolContext) -> str:
        """Asks."""
        question = Question(
            "Colour?", answer=str, channel=approvers, expires_after=SOON, on_expire=on_expire
        )
        try:
            return await context.pause(question)
        except Declined as declined:
            if catches:
                return f"nobody: {declined.by}"
            raise

    return await run(workflow(enquire, model=script(call_tool(enquire))))


async def test_a_call_that_nobody_approved_in_time_is_rejected() -> None:
    engine = await (await gated("reject")).restarted().expire()
    assert engine.output == "Tool error: the call was rejected by system:deadline"
    assert ran == []


async def test_a_call_that_nobody_approved_in_time_runs_where_its_ask_says_so() -> None:
    engine = await (await gated("approve")).restarted().expire()
    assert engine.output == "paid 3"
    assert ran == ["pay"]


async def test_a_call_that_nobody_approved_in_time_fails_the_run_where_its_ask_says_so() -> None:
    engine = await (await gated("fail")).restarted().expire()
    assert (engine.error.code, engine.error.step) == ("pause_expired", "work/assistant")
    assert engine.steps["work/assistant"].status is StepStatus.FAILED
    assert ran == []


async def test_a_call_that_may_wait_says_so_and_waits() -> None:
    engine = await gated("wait")
    assert engine.ask.policy.on_expire == "wait"
    assert (await engine.restarted().approve()).output == "paid 3"


async def test_a_question_that_nobody_answered_in_time_is_declined() -> None:
    engine = await (await asking("reject")).restarted().expire()
    assert engine.output == "Tool error: declined by system:deadline"
    caught = await (await asking("reject", catches=True)).restarted().expire()
    assert caught.output == "nobody: system:deadline"


async def test_a_question_that_nobody_answered_in_time_fails_the_run_where_it_says_so() -> None:
    engine = await (await asking("fail", catches=True)).restarted().expire()
    assert engine.error.code == "pause_expired"


async def test_a_deadline_of_a_call_in_a_branch_fails_the_run_at_its_agent() -> None:
    @tool(channel=approvers, approval=Approval(expires_after=SOON, on_expire="fail"))
    async def pay() -> str:
        """Pays."""
        ran.append("pay")
        return "paid"

    agent = workflow(pay, model=script(call_tool(pay))).agents[0]
    fork = Parallel("fork", [Step("clerk", agent), mark("b", [])])
    engine = await (await run(line_of(fork))).restarted().expire()
    assert (engine.error.code, engine.error.step) == ("pause_expired", "work/fork/clerk")
    assert ran == []


# ── What somebody else does, or fills in ─────────────────────────────────────────────────────────


async def lent(kind: str, on_expire: Any) -> EngineRun:
    """A run that waits for work of somebody else, or for an argument that a person fills in."""

    @tool(external=External("Ring them up.", channel=approvers, **_until(on_expire)))
    async def phone(who: str) -> str:
        raise NotImplementedError

    @tool(fill=Fill("Where to?", ["iban"], channel=approvers, **_until(on_expire)))
    async def pay_out(who: str, iban: str) -> str:
        ran.append("pay_out")
        return f"{who} has {iban}"

    called = phone if kind == "external" else pay_out
    return await run(workflow(called, model=script(call_tool(called, who="ann"))))


def _until(on_expire: Any) -> dict[str, Any]:
    return {"expires_after": SOON, "on_expire": on_expire}


KINDS = pytest.mark.parametrize("kind", ["external", "fill"])


@KINDS
async def test_the_terms_of_lent_work_are_its_own(kind: str) -> None:
    engine = await lent(kind, "fail")
    assert engine.ask.policy.expires_after == SOON
    assert engine.ask.policy.on_expire == "fail"
    assert engine.ask.policy.channel == "approvers"
    assert engine.ask.shown["message"] == {"external": "Ring them up.", "fill": "Where to?"}[kind]


@KINDS
async def test_work_that_nobody_did_in_time_is_declined(kind: str) -> None:
    engine = await (await lent(kind, "reject")).restarted().expire()
    assert engine.output == "Tool error: declined by system:deadline"
    assert ran == []


@KINDS
async def test_work_that_nobody_did_in_time_fails_the_run_where_its_ask_says_so(kind: str) -> None:
    engine = await (await lent(kind, "fail")).restarted().expire()
    assert engine.error.code == "pause_expired"
    assert engine.error.step == "work/assistant"
    assert ran == []


@KINDS
async def test_work_that_may_wait_says_so_and_waits(kind: str) -> None:
    engine = await lent(kind, "wait")
    assert engine.ask.policy.on_expire == "wait"
    value = "no answer" if kind == "external" else {"iban": "DE1"}
    await engine.restarted().fill(value)
    assert engine.output == ("no answer" if kind == "external" else "ann has DE1")


async def test_an_approval_before_lent_work_has_terms_of_its_own() -> None:
    @tool(
        channel=approvers,
        approval=Approval("May we?", expires_after=SOON, on_expire="approve"),
        external=External("Ring them up.", expires_after=2 * SOON),
    )
    async def phone(who: str) -> str:
        raise NotImplementedError

    engine = await run(workflow(phone, model=script(call_tool(phone, who="ann"))))
    assert (engine.ask.kind, engine.ask.policy.expires_after) == ("approval", SOON)
    await engine.expire()
    assert (engine.ask.kind, engine.ask.policy.expires_after) == ("external_result", 2 * SOON)
    await engine.expire()
    assert engine.output == "Tool error: declined by system:deadline"
