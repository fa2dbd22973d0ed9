"""A workflow full of sensitive values: nested, in lists, in results, and in the words of errors."""

from typing import Annotated

from pydantic import BaseModel

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    ModelRequest,
    Question,
    Reply,
    Review,
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
from app.channels import HttpCallbackChannel
from tests.workflows.effects import note

approvers = HttpCallbackChannel("approvers")


class Login(BaseModel):
    name: str
    password: Annotated[str, Sensitive]


class Vault(BaseModel):
    owner: str
    main: Login
    others: list[Login] = []
    pins: Annotated[list[str] | None, Sensitive] = None


@tool(channel=approvers)
async def open_vault(context: ToolContext, vault: Vault) -> Login:
    """Opens a vault."""
    note(context, f"opened with {vault.main.password} and {len(vault.others)} more")
    return vault.main


@tool
async def break_vault(context: ToolContext, vault: Vault) -> str:
    """Fails, and says too much."""
    note(context, f"broke with {vault.main.password}")
    raise ValueError(f"{vault.main.password} and {vault.others[0].password} do not fit")


def robber(request: ModelRequest) -> Reply:
    """Passes the vault on to both tools, and repeats what they said."""
    if request.turn:
        return reply_with("; ".join(each.text for each in request.messages[-2:]))
    vault = Vault.model_validate_json(request.messages[-1].text)
    return call_tools(call_tool(open_vault, vault), call_tool(break_vault, vault))


safes = Workflow(
    "safes",
    version="1",
    input=Vault,
    steps=[
        Agent(
            "robber",
            prompt="Open it.",
            model=ScriptedModel(robber),
            tools=[open_vault, break_vault],
        )
    ],
    channels=[approvers],
    history=3,
)


# ── Secrets that people bring ────────────────────────────────────────────────────────────────────────


async def fill_in(context: StepContext, text: str) -> Login:
    return context.input(Login)


async def check(context: StepContext, login: Login) -> Login:
    raise ValueError(f"{login.password} is not good enough")


@tool(fill=["login"], channel=approvers)
async def keep(context: ToolContext, place: str, login: Login) -> Login:
    """Keeps what a person fills in."""
    note(context, f"kept {login.password}")
    return login


@tool
async def change(context: ToolContext, place: str) -> str:
    """Asks for a new one, and says too much of it."""
    login = await context.pause(Question("Which one?", answer=Login, channel=approvers))
    note(context, f"heard {login.password}")
    raise ValueError(f"{login.password} was used before")


@tool(external=True, channel=approvers)
async def look_up(place: str) -> Login:
    """Somebody else looks it up."""
    raise NotImplementedError


def porter(request: ModelRequest) -> Reply:
    """Has all three tools called, and repeats what they said."""
    if request.turn:
        return reply_with("; ".join(each.text for each in request.messages[-3:]))
    at = {"place": "the attic"}
    return call_tools(call_tool("keep", at), call_tool("change", at), call_tool("look_up", at))


deposits = Workflow(
    "deposits",
    version="1",
    input=str,
    steps=[
        Step(
            "fill in",
            fill_in,
            before=AskInput("Whose is it?", Login, channel=approvers),
            after=Review("Is it right?", channel=approvers),
        ),
        Step("check", check, on_error=AskError("What now?", channel=approvers)),
        Agent(
            "porter",
            prompt="Keep it.",
            model=ScriptedModel(porter),
            tools=[keep, change, look_up],
        ),
    ],
    channels=[approvers],
    history=3,
)
