"""Workflows that cross every boundary between two writes, and leave a line for everything they do."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from app.authoring import (
    Agent,
    Approval,
    Confirm,
    ModelRequest,
    Parallel,
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
from app.channels import HttpCallbackChannel, InboxChannel
from tests.workflows.effects import note

desk = InboxChannel("desk")
approvers = HttpCallbackChannel("approvers")


@tool
async def look(context: ToolContext, text: str) -> str:
    """Looks once, and says what was seen."""

    def see() -> str:
        note(context, "looked")
        return f"seen {text}"

    return await context.step("look", see)


@tool(channel=approvers)
async def send(context: ToolContext, text: str) -> str:
    """Sends it."""
    note(context, "sent")
    return f"sent {text}"


@tool
async def enquire(context: ToolContext, text: str) -> str:
    """Asks, then does as it was told."""
    answer = await context.pause(Question("How?", options=["so", "otherwise"], channel=desk))
    note(context, "heard")
    return f"{text} {answer}"


@tool(channel=desk, on_crash="ask")
async def pay(context: ToolContext, text: str) -> str:
    """Pays, never twice."""
    note(context, "paid")
    return f"paid {text}"


@tool(
    channel=desk,
    approval=Approval(expires_after=timedelta(seconds=2), on_expire="approve", quorum=2),
)
async def vote(context: ToolContext, text: str) -> str:
    """Does what two agree to, or nobody objects to in time."""
    note(context, "agreed")
    return f"agreed to {text}"


def first(request: ModelRequest) -> Reply:
    if request.turn == 0:
        text = request.messages[-1].text
        return call_tools(call_tool(look, text), call_tool(send, text))
    return reply_with("; ".join(each.text for each in request.messages if each.role == "tool"))


def second(request: ModelRequest) -> Reply:
    text = request.messages[-1].text
    does = (enquire, pay, vote)
    return call_tool(does[request.turn], text) if request.turn < len(does) else reply_with(text)


async def stamp(context: StepContext, text: str) -> str:
    return f"stamped {text}"


clerk = Agent("clerk", prompt="Look and send.", model=ScriptedModel(first), tools=[look, send])
cashier = Agent(
    "cashier", prompt="Ask, pay, vote.", model=ScriptedModel(second), tools=[enquire, pay, vote]
)

crossings = Workflow(
    "crossings",
    version="1",
    input=str,
    steps=[
        clerk,
        Parallel("both", steps=[cashier, Step("stamp", stamp, before=Confirm("?", channel=desk))]),
    ],
    channels=[desk, approvers],
)
SERVED = f"{__name__}:crossings"


def is_whole(run: dict[str, Any], did: Sequence[str]) -> bool:
    """Whether a run of it came to its end and did everything; what was in doubt may not have been done."""
    in_doubt = any(pause["kind"] == "unknown_outcome" for pause in run["pauses"])
    missing = {"looked", "sent", "heard", "paid", "agreed"} - set(did)
    return run["status"] == "completed" and missing <= ({"paid"} if in_doubt else set[str]())
