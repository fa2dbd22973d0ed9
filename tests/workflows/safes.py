"""A workflow full of sensitive values: nested, in lists, in results, and in the words of errors."""

from typing import Annotated

from pydantic import BaseModel

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    Sensitive,
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
