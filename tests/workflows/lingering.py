"""Workflows that take their time, and some that a client has to know how to answer."""

import asyncio

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    StepContext,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel

till = InboxChannel("till")
_silence = asyncio.Event()


async def linger(context: StepContext, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"lingered for {seconds:g}"


@tool(channel=till, fill=["code"])
async def open_safe(room: int, code: str) -> str:
    """Opens a safe."""
    return f"the safe of room {room} is open with {code}"


@tool(channel=till, on_crash="ask")
async def charge(context: ToolContext, euros: int) -> str:
    """Charges a card, at a terminal that does not answer."""
    await _silence.wait()
    return f"charged {euros}"


def _opens(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with(last.text) if last.role == "tool" else call_tool(open_safe, room=7)


def _charges(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with(last.text) if last.role == "tool" else call_tool(charge, euros=80)


lingers = Workflow("lingers", version="1", input=float, steps=[linger])
safes = Workflow(
    "safes",
    version="1",
    input=str,
    steps=[Agent("clerk", prompt="Open it.", model=ScriptedModel(_opens), tools=[open_safe])],
    channels=[till],
)
charges = Workflow(
    "charges",
    version="1",
    input=str,
    steps=[Agent("cashier", prompt="Charge it.", model=ScriptedModel(_charges), tools=[charge])],
    channels=[till],
)

ALL = (lingers, safes, charges)
