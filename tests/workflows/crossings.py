"""Workflows that cross every boundary between two writes, and leave a line for everything they do."""

import secrets
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


@tool
async def jot(context: ToolContext, where: str, text: str) -> str:
    """Writes down what was thought of, without asking anybody."""
    note(context, f"jotted {where}", on=text)
    return text


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
    if request.turn == 0:
        return call_tool(jot, "at the till", thought())
    text = request.messages[-1].text
    does = (enquire, pay, vote)
    return call_tool(does[request.turn - 1], text) if request.turn <= 3 else reply_with(text)


def third(request: ModelRequest) -> Reply:
    pages = ("first", "second", "third")
    if request.turn < len(pages):
        return call_tool(jot, pages[request.turn], thought())
    return reply_with("; ".join(each.text for each in request.messages if each.role == "tool"))


def thought() -> str:
    """What no model says twice."""
    return secrets.token_hex(8)


async def stamp(context: StepContext, text: str) -> str:
    return f"stamped {text}"


clerk = Agent("clerk", prompt="Look and send.", model=ScriptedModel(first), tools=[look, send])
cashier = Agent(
    "cashier",
    prompt="Jot, ask, pay, vote.",
    model=ScriptedModel(second),
    tools=[jot, enquire, pay, vote],
)
scribe = Agent("scribe", prompt="Write it down.", model=ScriptedModel(third), tools=[jot])

crossings = Workflow(
    "crossings",
    version="1",
    input=str,
    steps=[
        clerk,
        Parallel(
            "all",
            steps=[cashier, scribe, Step("stamp", stamp, before=Confirm("?", channel=desk))],
        ),
    ],
    channels=[desk, approvers],
)
SERVED = f"{__name__}:crossings"
JOTTED = {f"jotted {where}" for where in ("at the till", "first", "second", "third")}
DONE = frozenset({"looked", "sent", "heard", "paid", "agreed"} | JOTTED)


def is_whole(run: dict[str, Any], did: Sequence[str]) -> bool:
    """Whether a run of it came to its end and did everything; what was in doubt may not have been done."""
    in_doubt = any(pause["kind"] == "unknown_outcome" for pause in run["pauses"])
    missing = DONE - set(did)
    return run["status"] == "completed" and missing <= ({"paid"} if in_doubt else set[str]())
