"""Workflows that are large in one way each."""

from pydantic import BaseModel

from app.authoring import (
    Agent,
    Limits,
    ModelRequest,
    Parallel,
    Reply,
    ScriptedModel,
    Step,
    StepContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel

TURNS = 1000
STRETCH = 100
"""Turns of the talker between two questions to a person."""
BRANCHES = (10, 50, 200)

board = InboxChannel("board")


class Said(BaseModel):
    text: str


@tool(channel=board)
async def publish(text: str) -> str:
    """Publishes a text."""
    return f"{len(text)} characters"


@tool
async def look_up(text: str) -> str:
    """Looks something up."""
    return f"about {text}: {'so it is. ' * 20}"


def _publishes(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with("published") if last.role == "tool" else call_tool(publish, last.text)


def _looks_up(request: ModelRequest) -> Reply:
    if request.turn == TURNS:
        return reply_with("enough")
    if request.turn % STRETCH == STRETCH - 1:
        return call_tool(publish, f"matter {request.turn}")
    return call_tool(look_up, f"matter {request.turn}")


def _publisher(name: str) -> Agent:
    return Agent(name, prompt="Publish.", model=ScriptedModel(_publishes), tools=[publish])


async def first(context: StepContext, value: Said) -> str:
    return value.text


async def counted(context: StepContext, value: dict[str, str]) -> str:
    return f"{len(value)} branches"


def _fan(branches: int) -> Workflow:
    publishers = [Step(f"branch {at}", _publisher(f"publisher {at}")) for at in range(branches)]
    return Workflow(
        f"fan-{branches}",
        version="1.0.0",
        input=Said,
        output=str,
        steps=[Step("first", first), Parallel("fan", publishers), Step("counted", counted)],
        channels=[board],
    )


seldom = Workflow(
    "seldom",
    version="1.0.0",
    input=Said,
    output=str,
    steps=[_publisher("publisher")],
    channels=[board],
)
talker = Workflow(
    "talker",
    version="1.0.0",
    input=Said,
    output=str,
    steps=[
        Agent(
            "talker",
            prompt="Look everything up.",
            model=ScriptedModel(_looks_up),
            tools=[look_up, publish],
            limits=Limits(model_calls=TURNS + 1, tool_calls=TURNS),
        )
    ],
    channels=[board],
)
fan_10, fan_50, fan_200 = (_fan(branches) for branches in BRANCHES)
