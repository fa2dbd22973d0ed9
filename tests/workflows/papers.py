"""Workflows for tests in one process: what they wait for is the test's own."""

import asyncio

from app.authoring import (
    Agent,
    ModelRequest,
    Question,
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

desk = InboxChannel("desk")


def waiting_for(event: asyncio.Event) -> Workflow:
    """Ends once the event is set."""

    async def wait(context: StepContext, value: str) -> str:
        await event.wait()
        return f"waited with {value}"

    return Workflow("waits", version="1", input=str, steps=[wait])


async def _echo(context: StepContext, value: str) -> str:
    return value


async def _break(context: StepContext, value: str) -> str:
    raise RuntimeError("broken")


@tool
async def enquire(context: ToolContext, about: str) -> str:
    """Asks for a colour."""
    return await context.pause(
        Question(f"Which colour for {about}?", options=["red", "blue"], channel=desk)
    )


def _asks(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with(last.text) if last.role == "tool" else call_tool(enquire, last.text)


echoes = Workflow("echoes", version="1", input=str, steps=[_echo])
breaks = Workflow("breaks", version="1", input=str, steps=[_break])
enquiries = Workflow(
    "enquiries",
    version="1",
    input=str,
    steps=[Agent("clerk", prompt="Ask.", model=ScriptedModel(_asks), tools=[enquire])],
    channels=[desk],
)
