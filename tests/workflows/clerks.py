"""Workflows to talk to: a clerk who asks in the terminal, and a desk whose steps ask everything that steps can."""

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    Choose,
    Confirm,
    Limits,
    ModelRequest,
    Question,
    Reply,
    Review,
    Router,
    ScriptedModel,
    Sensitive,
    Step,
    StepContext,
    ToolContext,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.channels import HttpCallbackChannel, InboxChannel, TerminalChannel

terminal = TerminalChannel("terminal")
cashiers = InboxChannel("cashiers")


@tool(channel=terminal)
async def refund(order: str, euros: int, pin: Annotated[str, Sensitive] = "1234") -> str:
    """Refunds an order."""
    return f"refunded {euros} euros for {order}"


@tool
async def wrap(context: ToolContext, order: str) -> str:
    """Wraps an order."""
    paper = await context.pause(
        Question("Which paper?", options=["plain", "stars"], channel=terminal)
    )
    note = await context.pause(Question("What shall the card say?", channel=terminal))
    return f"wrapped {order} in {paper}: {note}"


@tool(channel=cashiers, external=True)
async def count(drawer: int) -> int:
    """Counts the money in a drawer."""
    raise NotImplementedError


@tool
async def wait(seconds: int) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return f"waited {seconds} seconds"


def _answer(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    match last.text.split() if last.role == "user" else ():
        case ["refund", order, euros]:
            return call_tool(refund, order=order, euros=int(euros))
        case ["refund", order, euros, "twice"]:
            one = call_tool(refund, order=order, euros=int(euros))
            return call_tools(one, one)
        case ["wrap", order]:
            return call_tool(wrap, order=order)
        case ["wait", seconds]:
            return call_tool(wait, seconds=int(seconds))
        case ["count", drawer]:
            return call_tool(count, drawer=int(drawer))
        case _:
            return reply_with(f"You said: {last.text}" if last.role == "user" else last.text)


clerk = Agent(
    "clerk",
    description="Serves at the counter",
    prompt="Serve.",
    model=ScriptedModel(_answer),
    tools=[refund, wrap, wait, count],
    limits=Limits(tool_calls=8),
)
shop = Workflow(
    "shop", version="2.1.0", input=str, output=str, steps=[clerk], channels=[terminal, cashiers]
)


class Tone(BaseModel):
    """How it is written."""

    mood: str = Field(description="one word")
    words: int = 300
    loud: bool


class Visit(BaseModel):
    guest: str
    seats: int


class Letter(BaseModel):
    text: str


def greet(context: StepContext, visit: Visit) -> Letter:
    tone = context.input(Tone)
    again = f" [{context.feedback}]" if context.feedback else ""
    text = f"dear {visit.guest}, {tone.mood} {tone.words} {tone.loud}{again}"
    return Letter(text=text)


def seat(context: StepContext, letter: Letter) -> Letter:
    raise RuntimeError("the house is full")


def post(context: StepContext, letter: Letter) -> Letter:
    return Letter(text=f"{letter.text} | posted")


def stamp(context: StepContext, letter: Letter) -> Letter:
    return Letter(text=f"{letter.text} | stamped")


desk = Workflow(
    "desk",
    version="1",
    input=Visit,
    steps=[
        Step(
            "greet",
            greet,
            before=[
                Confirm("Shall they be greeted?", channel=terminal),
                AskInput("In which tone?", Tone, channel=terminal),
            ],
            after=Review("Is it good?", channel=terminal),
        ),
        Step("seat", seat, on_error=AskError("No seat. What now?", channel=terminal)),
        Router(
            "way",
            choices=[Step("stamp", stamp), Step("post", post)],
            select=Choose("How shall it go?", channel=terminal, multiple=True),
        ),
    ],
    channels=[terminal],
)

bots = HttpCallbackChannel("bots")


def check(context: StepContext, text: str) -> str:
    return text


remote = Workflow(
    "remote",
    version="1",
    input=str,
    steps=[
        Agent(
            "assistant",
            description="Thinks elsewhere",
            prompt="Help.",
            model="openai:gpt-5-mini",
        ),
        Step("check", check, before=Confirm("Is it safe?", channel=bots)),
    ],
    channels=[bots],
)
