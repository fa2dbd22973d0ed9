"""Workflows that take their time, and some that a client has to know how to answer."""

import asyncio

from app.authoring import StepContext, ToolContext, Workflow, tool
from tests.workflows.desk import calling, desk

_silence = asyncio.Event()


async def linger(context: StepContext, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"lingered for {seconds:g}"


@tool(channel=desk, fill=["code"])
async def open_safe(room: int, code: str) -> str:
    """Opens a safe."""
    return f"the safe of room {room} is open with {code}"


@tool(channel=desk, on_crash="ask")
async def charge(context: ToolContext, euros: int) -> str:
    """Charges a card, at a terminal that does not answer."""
    await _silence.wait()
    return f"charged {euros}"


lingers = Workflow("lingers", version="1", input=float, steps=[linger])
safes = calling("safes", open_safe, lambda _: {"room": 7})
charges = calling("charges", charge, lambda _: {"euros": 80})

ALL = (lingers, safes, charges)
