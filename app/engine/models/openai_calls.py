"""Keeps the calls in answers of OpenAI's Chat Completions as they were sent.

`langchain_openai` parses them into a valid and an invalid list. So their common order is lost, and the
whole answer fails with a validation error where arguments are JSON but no object, or a call has no
function: small and local models write both. Its own sub-packages for other providers extend the same
method that is extended here.
"""

import functools
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult


def keeping_calls(chat: BaseChatModel) -> BaseChatModel:
    """The chat model itself, or for one of `langchain_openai` a copy whose answers keep the raw calls."""
    kind = type(chat)
    if not any(each.__module__.startswith("langchain_openai.") for each in kind.__mro__):
        return chat
    copy = chat.model_copy()
    copy.__class__ = _extended(kind)
    return copy


class _KeepsCalls:
    def _create_chat_result(self, response: Any, generation_info: Any = None) -> ChatResult:
        kept = [_taken_from(choice) for choice in _parts(response, "choices")]
        parent = cast("Any", super())
        result: ChatResult = parent._create_chat_result(response, generation_info)
        for generation, calls in zip(result.generations, kept, strict=True):
            if calls:
                generation.message.additional_kwargs["tool_calls"] = calls
        return result


@functools.cache
def _extended(kind: type[BaseChatModel]) -> type[BaseChatModel]:
    # Named as the original, by which LangChain's tracing knows it.
    extended = type(kind.__name__, (_KeepsCalls, kind), {"__module__": kind.__module__})
    return cast("type[BaseChatModel]", extended)


def _taken_from(choice: Any) -> list[dict[str, Any]]:
    """The calls of an answer, which then has none. It is a dict or one of the client's objects."""
    message = _part(choice, "message")
    calls = _parts(message, "tool_calls")
    if isinstance(message, dict):
        message["tool_calls"] = None
    elif message is not None:
        message.tool_calls = None
    return [call if isinstance(call, dict) else call.model_dump(warnings=False) for call in calls]


def _parts(whole: Any, name: str) -> list[Any]:
    return _part(whole, name) or []


def _part(whole: Any, name: str) -> Any:
    if isinstance(whole, dict):
        return cast("dict[str, Any]", whole).get(name)
    return getattr(whole, name, None)
