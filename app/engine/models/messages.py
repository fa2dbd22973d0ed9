"""Translates between the conversation, as it is kept, and LangChain's messages.

What providers want back beside text and calls (reasoning, signatures) is kept in a message's `raw`:

    {"maker": whose it is, "blocks": content blocks, "extras": additional fields, "ids": of the calls}
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from app.domain.json import InvalidJson, Json, check_json
from app.domain.message import Message, ProposedCall
from app.engine.models.exchange import AnsweredCall, Finish, Usage

UNREADABLE = "INVALID_JSON"
"""The name under which a model sees again what it wrote instead of an object of arguments."""

_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "invalid_tool_call"})
_TOLD_ELSEWHERE = frozenset({"tool_calls", "function_call", "refusal"})
_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_FILTERED = frozenset(
    {"content_filter", "refusal", "safety", "prohibited_content", "guardrail_intervened"}
)
_STOP_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def to_langchain(messages: Sequence[Message], maker: str) -> list[BaseMessage]:
    """The conversation for a chat model of `maker`; what another maker wanted back is left out."""
    tools: dict[str, str] = {}
    translated: list[BaseMessage] = []
    for message in messages:
        tools.update({call["id"]: call["tool"] for call in message.get("calls", [])})
        translated.append(_translated(message, maker, tools))
    return translated


def _translated(message: Message, maker: str, tools: Mapping[str, str]) -> BaseMessage:
    match message["role"]:
        case "system":
            return SystemMessage(message["text"])
        case "user":
            return HumanMessage(message["text"])
        case "assistant":
            return _assistant(message, maker)
        case "tool":
            call_id = message.get("call_id", "")
            return ToolMessage(message["text"], tool_call_id=call_id, name=tools.get(call_id))


def _assistant(message: Message, maker: str) -> AIMessage:
    calls = message.get("calls", [])
    tool_calls = [_tool_call(call) for call in calls]
    plain = AIMessage(message["text"], tool_calls=tool_calls)
    raw = message.get("raw")
    if not isinstance(raw, dict) or cast("dict[str, Json]", raw).get("maker") != maker:
        return plain
    raw = cast("dict[str, Json]", raw)
    names = _names(raw["ids"], calls)
    blocks, extras = _renamed(raw["blocks"], names), _renamed(raw["extras"], names)
    full = AIMessage(blocks or message["text"], additional_kwargs=extras, tool_calls=tool_calls)
    # Where the text was replaced after the model wrote it, what belonged to the old one is stale.
    return full if str(full.text) == message["text"] else plain


def _tool_call(call: ProposedCall) -> ToolCall:
    """Invalid arguments go back wrapped: servers parse them, or drop the call and keep its result."""
    arguments = call["arguments"]
    if not isinstance(arguments, dict):
        arguments = {UNREADABLE: arguments}
    return ToolCall(name=call["tool"], args=cast("dict[str, Any]", arguments), id=call["id"])


def _names(ids: Sequence[str | None], calls: Sequence[ProposedCall]) -> dict[str, str]:
    """From the provider's ids, where one names one call, to those that are used now."""
    seen = Counter(ids)
    pairs = zip(ids, calls, strict=False)
    return {its: call["id"] for its, call in pairs if its is not None and seen[its] == 1}


def _renamed(value: Json, names: Mapping[str, str]) -> Json:
    match value:
        case str():
            return names.get(value, value)
        case list():
            return [_renamed(each, names) for each in cast("list[Json]", value)]
        case dict():
            members = cast("dict[str, Json]", value)
            return {names.get(key, key): _renamed(each, names) for key, each in members.items()}
        case _:
            return value


def finish_of(message: AIMessage) -> Finish:
    """Why the model stopped, by any of the names that providers have for it."""
    named = stop_reasons(message.response_metadata)
    if named & _CUT_OFF:
        return Finish.CUT_OFF
    if named & _FILTERED:
        return Finish.FILTERED
    return Finish.REFUSED if _refusal_of(message) else Finish.COMPLETE


def stop_reasons(metadata: Mapping[str, Any]) -> set[str]:
    """All that is said about why an answer ended, in lower case."""
    said = [metadata.get(key) for key in _STOP_REASONS]
    # OpenAI's Responses have a status, and details where it is "incomplete".
    said.append(metadata.get("status"))
    said += cast("dict[str, object]", metadata.get("incomplete_details") or {}).values()
    return {str(reason).lower() for reason in said if reason is not None}


def text_of(message: AIMessage) -> str:
    """The answer's text; where the model refused, the words it refused with."""
    return str(message.text) or _refusal_of(message)


def _refusal_of(message: AIMessage) -> str:
    """The words of a refusal: of Chat Completions, else of OpenAI's Responses."""
    said = message.additional_kwargs.get("refusal")
    blocks = (block.get("refusal") for block in objects_in(message.content))
    return str(said or "") or "".join(str(each) for each in blocks if each)


def usage_of(message: AIMessage) -> Usage:
    """The tokens an answer took, nought where the provider does not say; and what it cost, where it does."""
    used, cost = message.usage_metadata, _reported_cost(message)
    if used is None:
        return Usage(cost=cost)
    details = cast("Mapping[str, int | None]", used.get("input_token_details", {}))
    # With a service tier in front of it where there is one: "priority_cache_read".
    cached = sum(count or 0 for key, count in details.items() if key.endswith("cache_read"))
    return Usage(
        input_tokens=used["input_tokens"],
        output_tokens=used["output_tokens"],
        cached_input_tokens=cached,
        cost=cost,
    )


def _reported_cost(message: AIMessage) -> Decimal | None:
    """In US dollars, as OpenRouter and alike report it beside the tokens."""
    said: object = message.response_metadata.get("token_usage")
    cost = cast("dict[str, object]", said).get("cost") if isinstance(said, dict) else None
    if not isinstance(cost, int | float) or isinstance(cost, bool):
        return None
    return Decimal(str(cost)) if isfinite(cost) and cost >= 0 else None


def calls_of(message: AIMessage) -> tuple[AnsweredCall, ...]:
    """Every proposed call, in the order in which the provider sent them.

    LangChain sorts calls into valid and invalid ones; the order of both together is only in what the
    provider sent, so that is read first.
    """
    sent = list(_calls_as_sent(message))
    named = all(tool for _, tool, _ in sent)
    if sent and (named or not message.tool_calls):  # else it is some other provider's form
        return tuple(answered_call(*call) for call in sent)
    valid = [answered_call(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    invalid = [
        answered_call(call["id"], call["name"], call["args"] or "", complete=False)
        for call in message.invalid_tool_calls
    ]
    return (*valid, *invalid)


def _calls_as_sent(message: AIMessage) -> Iterator[tuple[Json, Json, Json]]:
    """Id, name and arguments of each call: of Chat Completions, else of OpenAI's Responses."""
    chat = message.additional_kwargs.get("tool_calls")
    for call in objects_in(chat):
        function: dict[str, Json] = call.get("function") or call.get("custom") or {}
        yield call.get("id"), function.get("name"), function.get("arguments", function.get("input"))
    for block in objects_in(message.content) if not chat else ():
        if block.get("type") == "function_call":
            yield block.get("call_id"), block.get("name"), block.get("arguments")


def objects_in(value: object) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def answered_call(
    provider_id: Json, tool: Json, arguments: Json, *, complete: bool = True
) -> AnsweredCall:
    """A call from what was sent of it, each part of which may be missing or of another type."""
    read, fault = _read_arguments(arguments, complete=complete)
    return AnsweredCall(
        provider_id=str(provider_id) if provider_id not in (None, "") else None,
        tool=str(tool or ""),
        arguments=read,
        fault=fault,
    )


def _read_arguments(sent: Json, *, complete: bool) -> tuple[Json, str | None]:
    """An object as it is, or what was sent with what is wrong about it.

    Nothing at all stands for a call without arguments, if the call is complete.
    """
    if sent in (None, "") and complete:
        return {}, None
    if isinstance(sent, dict):
        return cast("Json", sent), None
    text = sent if isinstance(sent, str) else json.dumps(sent)
    try:
        read = json.loads(text, strict=False)  # models write line breaks into strings
    except (ValueError, RecursionError) as error:
        return text, f"the arguments are not valid JSON ({_where(error)})"
    if not isinstance(read, dict):
        return text, "the arguments are not a JSON object"
    return cast("Json", read), None


def _where(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else "a number out of range"


def raw_of(message: AIMessage, maker: str, calls: Sequence[AnsweredCall]) -> Json:
    """What the provider wants back in later turns, or None where text and calls say it all."""
    blocks = [block for block in _blocks(message) if not _is_call(block)]
    extras = {
        key: value
        for key, value in message.additional_kwargs.items()
        if key not in _TOLD_ELSEWHERE and _can_be_kept(value)
    }
    if all(_is_plain(block) for block in blocks) and not extras:
        return None
    ids = [call.provider_id for call in calls]
    return {"maker": maker, "blocks": blocks, "extras": extras, "ids": ids}


def _blocks(message: AIMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else []


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and cast("dict[str, Any]", block).get("type") in _CALL_BLOCKS


def _is_plain(block: object) -> bool:
    if isinstance(block, dict):
        return cast("dict[str, Any]", block).keys() == {"type", "text"}
    return isinstance(block, str)


def _can_be_kept(value: object) -> bool:
    try:
        check_json(value)
    except InvalidJson:
        return False
    return True
