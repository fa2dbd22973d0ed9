"""What a server says that speaks Anthropic's Messages protocol, as a whole or as a stream."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.model_server import Answer, Body, answers, events

USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}


def claude_says(text: str | None = None, *uses: Body, **about: Any) -> Answer:
    """An answer in words and calls. `about`: stop, usage, model, and `before`, blocks that come first."""
    content = [*about.pop("before", ()), *([{"type": "text", "text": text}] if text else []), *uses]
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": about.pop("model", "claude-test-2026"),
        "content": content,
        "stop_reason": about.pop("stop", "tool_use" if uses else "end_turn"),
        "stop_sequence": None,
        "usage": {**USAGE, **about.pop("usage", {})},
    }

    def stream(_: Body) -> bytes:
        return events(*_told(message), named=True)

    return replace(answers(message), stream=stream)


def use(tool: str, arguments: Any = None, *, id: str | None = "toolu_1") -> Body:
    """One proposed call. Arguments that are a text come in a stream as they are, be they JSON or not."""
    block: Body = {"type": "tool_use", "name": tool, "input": arguments or {}}
    return block if id is None else {**block, "id": id}


def claude_fails(status: int, kind: str = "api_error", **headers: str) -> Answer:
    """An error of the provider."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    return Answer(status=status, body=json.dumps(body).encode(), headers=named)


def claude_streams(*told: Body) -> Answer:
    """A stream of these events."""
    return Answer(stream=lambda _: events(*told, named=True))


def begins() -> Body:
    """The first event of a stream."""
    return {"type": "message_start", "message": {**_EMPTY, "usage": USAGE}}


_EMPTY: Body = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test-2026",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
}


def _told(message: Body) -> Iterator[Body]:
    first = {**message["usage"], "output_tokens": 1}
    begun: Body = {**message, "content": [], "stop_reason": None, "usage": first}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for at, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": at, "content_block": _empty(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _empty(block: Body) -> Body:
    empty: Body = {"text": "", "input": {}, "thinking": "", "signature": ""}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: Body) -> Iterator[Body]:
    match block:
        case {"type": "text", "text": text}:
            for piece in re.findall(r"\s*\S+|\s+", text):
                yield {"type": "text_delta", "text": piece}
        case {"type": "tool_use", "input": given}:
            written = given if isinstance(given, str) else json.dumps(given)
            half = len(written) // 2
            for piece in (written[:half], written[half:]):
                yield {"type": "input_json_delta", "partial_json": piece}
        case {"type": "thinking", "thinking": thought, "signature": signature}:
            yield {"type": "thinking_delta", "thinking": thought}
            yield {"type": "signature_delta", "signature": signature}
        case _:
            return
