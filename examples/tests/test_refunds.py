"""The shortest story there is: a refund is asked for, approved or turned down, and the customer is answered."""

from app.authoring import Agent, Workflow, call_tool, reply_with, tool
from app.channels import InboxChannel
from app.testing import Signoff, assert_called, assert_finished, assert_paused

clerks = InboxChannel("clerks")


@tool(channel=clerks)
async def refund(order: str) -> str:
    """Refunds an order."""
    return f"refunded {order}"


desk = Agent("desk", prompt="Help the customer.", model="openai:gpt-5-mini", tools=[refund])
refunds = Workflow("refunds", version="1", input=str, steps=[desk], channels=[clerks])


async def test_an_approved_refund_is_paid_and_answered(signoff: Signoff) -> None:
    signoff.model(desk).answers([call_tool(refund, order="A-1"), reply_with("You have it back.")])
    run = await signoff.execute(refunds, "I want my money back for A-1")
    assert_paused(run, at="desk")
    run = await signoff.resume(run, approved=True)
    assert_called(run, [refund])
    assert_finished(run, "You have it back.")


async def test_a_rejected_refund_is_not_paid_and_the_model_reads_why(signoff: Signoff) -> None:
    signoff.model(desk).answers(
        lambda request: reply_with(request.messages[-1].text)
        if request.turn
        else call_tool(refund, order="A-1")
    )
    run = await signoff.execute(refunds, "I want my money back for A-1")
    run = await signoff.resume(run, approved=False, by="alice", feedback="not yours")
    assert_called(run, [])
    assert_finished(run, "Tool error: the call was rejected by alice: not yours")
