"""Graphs that were built for LangGraph alone, and are served unchanged."""

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import orjson
from langchain import agents
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt
from pydantic import BaseModel

from app.authoring import Workflow
from app.channels import InboxChannel
from tests.workflows.effects import VARIABLE, permission

desk = InboxChannel("desk")


class Clerk(BaseChatModel):
    """Says its replies in turn, whatever it hears; which is next is told by the conversation."""

    replies: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "clerk"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "Clerk":  # pyright: ignore[reportIncompatibleMethodOverride]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = sum(isinstance(each, AIMessage) for each in messages)
        reply = self.replies[turn]
        if reply.content == "repeat":
            said = [str(each.text) for each in messages if each.type == "tool"]
            reply = AIMessage(content=" | ".join(said))
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy(deep=True))])


def asks_for(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    listed = [
        ToolCall(name=name, args=args, id=f"c{index}") for index, (name, args) in enumerate(calls)
    ]
    return AIMessage(content="", tool_calls=listed)


REPEATS = AIMessage(content="repeat")


def did(what: str) -> None:
    if path := os.environ.get(VARIABLE):
        with Path(path).open("ab", buffering=0) as file:
            file.write(orjson.dumps({"what": what}) + b"\n")


@tool
def send(to: str, text: str) -> str:
    """Sends a letter."""
    did(f"sent to {to}")
    return f"sent {text} to {to}"


@tool
async def stamp(text: str) -> str:
    """Stamps a letter."""
    did("stamping")
    await permission("stamp")
    did("stamped")
    return f"stamped {text}"


def agent(*replies: AIMessage, tools: Sequence[Any] | None = None, **gates: Any) -> Any:
    """An agent as LangChain makes it, with its middleware."""
    mode = gates.pop("mode", "batched")
    middleware: Any = [HumanInTheLoopMiddleware(interrupt_on=gates, interrupt_mode=mode)]
    return agents.create_agent(
        Clerk(replies=list(replies)), list(tools or [send, stamp]), middleware=middleware
    )


class Letters(TypedDict, total=False):
    names: list[str]
    sent: Annotated[list[str], operator.add]


class Address(BaseModel):
    street: str
    number: int


def several() -> Any:
    """Asks for the address of each name, all at once."""

    def fan_out(state: Letters) -> list[Send]:
        return [Send("ask", {"name": name}) for name in state.get("names", [])]

    def ask(state: dict[str, str]) -> Letters:
        did(f"asking {state['name']}")
        where = interrupt(f"Where does {state['name']} live?", response_schema=Address)
        did(f"asked {state['name']}")
        return {"sent": [f"{state['name']}: {where.street} {where.number}"]}

    graph: Any = StateGraph(Letters)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(START, fan_out)
    return graph.compile()


letters = Workflow.from_graph(
    "letters",
    agent(
        asks_for(("send", {"to": "ann", "text": "hello"})),
        asks_for(("stamp", {"text": "hello"})),
        REPEATS,
        send=True,
    ),
    version="1",
    channels=[desk],
)
SERVED = "tests.workflows.movers:letters"
