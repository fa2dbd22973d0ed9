"""What becomes of a call and of a question that nobody decides in time, in an agent wherever it stands."""

from datetime import timedelta
from typing import Any

import pytest

from app.authoring import Approval, Declined, Parallel, Question, Step, ToolContext, call_tool, tool
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
