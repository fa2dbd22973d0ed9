"""An agent with a provider's model and a budget; its guardrails and its tools write down what they do."""

import os
from decimal import Decimal
from pathlib import Path

from app.authoring import Agent, Limits, ToolCall, ToolContext, Workflow, tool
from app.channels import InboxChannel

VARIABLE = "SPENDING_FILE"
SERVED = "tests.workflows.spending:spending"
BUDGET = Decimal("0.61")
REPORTED = Decimal("0.001")

desk = InboxChannel("desk")


def note(what: str) -> None:
    """Writes one line, at once."""
    with Path(os.environ[VARIABLE]).open("ab", buffering=0) as file:
        file.write(f"{what}\n".encode())


def looks(call: ToolCall) -> None:
    note(f"before {call.arguments['number']}")


def sees(call: ToolCall, result: str) -> None:
    note(f"after {call.arguments['number']}")


@tool
async def search(context: ToolContext, number: int) -> str:
    """Searches, which costs something."""
    context.report_cost(REPORTED)
    note(f"search {number}")
    return f"found {number}"


@tool(channel=desk)
async def sign(number: int) -> str:
    """Signs."""
    note(f"sign {number}")
    return f"signed {number}"


spending = Workflow(
    "spending",
    version="1",
    input=str,
    steps=[
        Agent(
            "buyer",
            prompt="Buy.",
            model="openai:gpt-test",
            tools=[search, sign],
            limits=Limits(model_calls=100, tool_calls=100),
            before_tool_call=[looks],
            after_tool_call=[sees],
        )
    ],
    channels=[desk],
    limits=Limits(run_cost=BUDGET),
)
