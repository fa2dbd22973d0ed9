"""Puts an answer together that comes in pieces, and lets its text be heard on the way.

LangChain puts pieces together too, and trusts them: it merges calls whose index repeats, adds up usage that
was told twice, joins a finish reason to itself, and takes a stream that broke off for a whole answer.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

from app.domain.json import Json
from app.engine.models.exchange import Hearer
from app.engine.models.messages import objects_in, stop_reasons, text_of

TELL_THEIR_END = frozenset({"langchain_openai", "langchain_anthropic"})
"""Makers of clients that say why an answer ended, and tell its usage as a whole, maybe again and again."""


class BrokeOff(Exception):
    """The stream ended before the answer did; by its cause, if it has one."""


class DoesNotStream(Exception):
    """What came was no stream of pieces."""


async def put_together(
    pieces: AsyncIterator[AIMessage], hearer: Hearer, *, maker: str
) -> AIMessage:
    """The whole answer. Raises `BrokeOff`, `DoesNotStream`, and whatever the stream raises."""
    gathered = _Gathered(tells_its_end=maker in TELL_THEIR_END)
    try:
        async for piece in pieces:
            if not isinstance(piece, AIMessageChunk):
                hearer.hears(text_of(piece))
                return piece  # a client that does not stream gives the answer in one piece
            hearer.hears(gathered.add(piece))
    except Exception as error:
        if not gathered.is_empty:
            raise BrokeOff from error
        if isinstance(error, ValueError):
            raise DoesNotStream from error
        raise
    whole = gathered.whole()
    if not str(whole.text):
        hearer.hears(text_of(whole))  # a refusal comes beside the text
    return whole


class _Gathered:
    """What has come of an answer so far."""

    def __init__(self, *, tells_its_end: bool) -> None:
        self._tells_its_end = tells_its_end
        self._pieces: list[AIMessageChunk] = []
        self._calls = _Calls()
        self._metadata: dict[str, Any] = {}
        self._usage: Any = None

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    def add(self, piece: AIMessageChunk) -> str:
        """Adds a piece, less what is put together here. Returns its text."""
        self._calls.add(piece)
        self._metadata |= piece.response_metadata
        piece.response_metadata = {}
        if self._tells_its_end:
            self._usage, piece.usage_metadata = piece.usage_metadata or self._usage, None
        self._pieces.append(piece)
        return str(piece.text)

    def whole(self) -> AIMessage:
        if not self._pieces or (self._tells_its_end and not stop_reasons(self._metadata)):
            raise BrokeOff
        first, *rest = self._pieces
        whole = add_ai_message_chunks(first, *rest) if rest else first
        whole.response_metadata = self._metadata
        whole.usage_metadata = self._usage or whole.usage_metadata
        if self._calls.written:
            calls = [call.as_sent() for call in self._calls.written]
            whole.additional_kwargs["tool_calls"] = calls
        return whole


@dataclass(kw_only=True)
class _Call:
    """One call, as far as it has come."""

    id: Json = None
    tool: str = ""
    parts: list[str] = field(default_factory=list[str])
    given: Json = None  # arguments that came as JSON instead of its text

    @property
    def is_whole(self) -> bool:
        if self.given is not None:
            return True
        try:
            return isinstance(json.loads("".join(self.parts), strict=False), dict)
        except (ValueError, RecursionError):
            return False

    def as_sent(self) -> dict[str, Any]:
        arguments = "".join(self.parts) if self.given is None else self.given
        return {"id": self.id, "function": {"name": self.tool, "arguments": arguments}}


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A piece of a call."""

    index: Json
    id: Json
    tool: str
    arguments: Json


class _Calls:
    """The calls of an answer, in the order in which they began."""

    def __init__(self) -> None:
        self.written: list[_Call] = []
        self._at: dict[Json, _Call] = {}

    def add(self, message: AIMessageChunk) -> None:
        """Takes the pieces of calls out of a message."""
        for piece in _taken_from(message):
            last = self.written[-1] if self.written else None
            call = last if piece.index is None else self._at.get(str(piece.index))
            if call is None or _begins_another(call, piece):
                call = _Call()
                self.written.append(call)
            self._at[str(piece.index)] = call
            _extend(call, piece)


def _begins_another(call: _Call, piece: _Piece) -> bool:
    """Whether it is no piece of this call, although its index is the same, or missing.

    Servers give several whole calls the index 0 or none at all; others repeat id and name with each piece.
    """
    if piece.id and call.id and piece.id != call.id:
        return True
    if not piece.tool or not call.tool:
        return False
    return piece.index is None or piece.tool != call.tool or call.is_whole


def _extend(call: _Call, piece: _Piece) -> None:
    call.id = call.id or piece.id
    call.tool = call.tool or piece.tool
    if isinstance(piece.arguments, str):
        call.parts.append(piece.arguments)
    elif piece.arguments is not None:
        call.given = piece.arguments


def _taken_from(message: AIMessageChunk) -> list[_Piece]:
    """The pieces of calls as they were sent, else as LangChain has read them; the message has none then."""
    sent = objects_in(message.additional_kwargs.pop("tool_calls", None))
    read, message.tool_call_chunks = message.tool_call_chunks, []
    if sent:
        return [_as_sent(each) for each in sent]
    return [
        _Piece(
            index=each.get("index"),
            id=each["id"],
            tool=each["name"] or "",
            arguments=each["args"],
        )
        for each in read
    ]


def _as_sent(sent: dict[str, Any]) -> _Piece:
    function = cast("dict[str, Json]", sent.get("function") or sent.get("custom") or {})
    return _Piece(
        index=sent.get("index"),
        id=sent.get("id"),
        tool=str(function.get("name") or ""),
        arguments=function.get("arguments", function.get("input")),
    )
