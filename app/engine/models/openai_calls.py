"""Keeps the calls in answers of OpenAI's Chat Completions as they were sent, whole or in pieces.

`langchain_openai` parses them into a valid and an invalid list. So their common order is lost, and the
whole answer fails with a validation error where arguments are JSON but no object, or a call has no
function: small and local models write both. Of a stream it drops refusals. Its own sub-packages for other
providers extend the same methods that are extended here.
"""

import functools
import warnings
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk, ChatResult


def keeping_calls(chat: BaseChatModel) -> BaseChatModel:
    """The chat model itself, or for one of `langchain_openai` a copy whose answers keep the raw calls."""
    kind = type(chat)
    if not any(each.__module__.startswith("langchain_openai.") for each in kind.__mro__):
        return chat
    # A server that sends arguments as an object has them printed by pydantic, and they may be secret.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
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

    def _convert_chunk_to_generation_chunk(
        self, chunk: Any, default_chunk_class: Any, base_generation_info: Any
    ) -> ChatGenerationChunk | None:
        deltas = [_part(choice, "delta") for choice in _parts(chunk, "choices")]
        kept = {name: _taken(deltas, name) for name in ("tool_calls", "refusal")}
        parent = cast("Any", super())
        piece: ChatGenerationChunk | None = parent._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        if piece is not None:
            piece.message.additional_kwargs |= {key: each for key, each in kept.items() if each}
            if used := _part(chunk, "usage"):  # what it cost may stand there, as in whole answers
                piece.message.response_metadata["token_usage"] = used
        return piece


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


def _taken(deltas: list[Any], name: str) -> Any:
    """That part of the first choice, which then has none."""
    first = next(iter(deltas), None)
    return cast("dict[str, Any]", first).pop(name, None) if isinstance(first, dict) else None


def _parts(whole: Any, name: str) -> list[Any]:
    return _part(whole, name) or []


def _part(whole: Any, name: str) -> Any:
    if isinstance(whole, dict):
        return cast("dict[str, Any]", whole).get(name)
    return getattr(whole, name, None)
