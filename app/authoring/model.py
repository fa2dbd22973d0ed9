"""What an agent asks its model and what it hears; models that are written out as scripts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ParamSpec, Protocol, overload, runtime_checkable

from app.authoring.tool import Tool
from app.authoring.tool_call import ToolCall
from app.domain.json import Json
from app.domain.message import Role
from app.errors import AuthoringError

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class ModelMessage:
    """One message: with `calls` only an assistant's, with `call_id` only a tool's."""

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class OfferedTool:
    """A tool as a model is told of it."""

    name: str
    description: str
    arguments_schema: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """What a model is asked. `turn` counts from 0 at the start of the agent's visit."""

    agent: str
    turn: int
    messages: tuple[ModelMessage, ...]
    tools: tuple[OfferedTool, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one answer took; `cost` in US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's answer: a text, or calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()


@runtime_checkable
class ChatModel(Protocol):
    """A LangChain chat model, as far as it needs to be known here."""

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any: ...
    async def ainvoke(self, *args: Any, **kwargs: Any) -> Any: ...


class ScriptRanOut(AuthoringError):
    """A scripted model was asked for more turns than it has replies."""

    code = "script_ran_out"


class ScriptedModel:
    """A model that answers by a function of the request, or by a list with one reply a turn.

    A function must depend on the request alone: after a crash it may be asked the same again.
    """

    def __init__(self, script: Callable[[ModelRequest], Reply] | Sequence[Reply]) -> None:
        self.script = script if callable(script) else tuple(script)

    def reply(self, request: ModelRequest) -> Reply:
        """The answer; raises `ScriptRanOut`, or whatever the function raises."""
        if callable(self.script):
            return self.script(request)
        if request.turn < len(self.script):
            return self.script[request.turn]
        raise ScriptRanOut(
            f"The script of the agent {request.agent!r} has {len(self.script)} replies, "
            f"and the model was asked for turn {request.turn + 1}.",
            agent=request.agent,
        )


def reply_with(text: str, *, usage: Usage | None = None) -> Reply:
    """An answer in words."""
    return Reply(text=text, usage=usage or Usage())


@overload
def call_tool(tool: Tool[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Reply: ...
@overload
def call_tool(tool: Tool[..., Any], /, *args: Any, provider_id: str, **kwargs: Any) -> Reply: ...
@overload
def call_tool(tool: str, arguments: Json = ..., /, *, provider_id: str = "") -> Reply: ...
def call_tool(tool: Any, /, *args: Any, provider_id: str = "", **kwargs: Any) -> Reply:
    """An answer that asks for one call: of a tool, with its arguments; or by name, with raw ones.

    `provider_id` plays the id that a provider gives a call.
    """
    if isinstance(tool, Tool):
        name, arguments = tool.name, tool.proposed(*args, **kwargs)
    else:
        name, arguments = tool, next(iter(args), _NO_ARGUMENTS)
    return Reply(calls=(ToolCall(tool=name, arguments=arguments, provider_id=provider_id),))


_NO_ARGUMENTS: Json = {}


def call_tools(*replies: Reply) -> Reply:
    """One answer with the calls of several, in their order."""
    return Reply(
        text="\n".join(reply.text for reply in replies if reply.text),
        calls=tuple(call for reply in replies for call in reply.calls),
        usage=Usage(
            input_tokens=sum(reply.usage.input_tokens for reply in replies),
            output_tokens=sum(reply.usage.output_tokens for reply in replies),
            cost=sum((reply.usage.cost for reply in replies), Decimal(0)),
        ),
    )
