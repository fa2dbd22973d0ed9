"""JSON that can be stored, compared and hashed.

Postgres and msgpack each refuse some values that Python's JSON reader lets through, and a value that is
refused late poisons a row. So everything from outside is checked once, at the edge it comes in by.
"""

import hashlib
import hmac
import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import rfc8785

from app.errors import FieldError, Invalid

Json: TypeAlias = Any
"""None, bool, int, float, str, list and dict with str keys, as deep as they are."""

MAX_DEPTH = 64
_INT64 = range(-(2**63), 2**63)


class InvalidJson(Invalid):
    """A value that JSON, Postgres or a checkpoint cannot hold."""


def check_json(value: Json, *, max_depth: int = MAX_DEPTH) -> None:
    """Raises `InvalidJson` with a JSON pointer where `value` cannot be stored.

    Refused: NUL and lone surrogates in strings and keys, NaN and infinities, integers beyond 64 bits,
    more than `max_depth` levels, and anything that is not JSON at all. Walks without recursion, and knows
    its way only where something is wrong: a body may have a million values.
    """
    level, depth = [value], 0
    while level:
        below: list[Json] = []
        for item in level:
            if _fault(item, is_too_deep=depth >= max_depth):
                raise _found(value, max_depth)
            if isinstance(item, list):
                below += cast("list[Json]", item)
            elif isinstance(item, dict):
                below += cast("dict[str, Json]", item).values()
        level, depth = below, depth + 1


def _fault(item: Json, *, is_too_deep: bool) -> str | None:
    """What is wrong with a value, whatever is in it."""
    match item:
        case None | bool():
            return None
        case str():
            return _fault_of_text(item)
        case int():
            return None if item in _INT64 else "an integer beyond 64 bits"
        case float():
            return None if math.isfinite(item) else "not a finite number"
        case list() | dict() if is_too_deep:
            return "more levels than are allowed"
        case list():
            return None
        case dict():
            return _fault_of_keys(cast("dict[Any, Json]", item))
        case _:
            return f"{type(item).__name__} is not JSON"


def _fault_of_keys(item: Mapping[Any, Json]) -> str | None:
    for key in item:
        if not isinstance(key, str):
            return "a key that is not a string"
        if fault := _fault_of_text(key):
            return fault
    return None


def _fault_of_text(text: str) -> str | None:
    if "\0" in text:
        return "a NUL character"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a lone surrogate"
    return None


_Way: TypeAlias = "tuple[_Way, str | int] | None"
"""The way to a value from its root: its parent's, and its key there."""


def _found(value: Json, max_depth: int) -> InvalidJson:
    """The first fault that a second walk finds, with the way to it."""
    open_values: list[tuple[Json, _Way, int]] = [(value, None, 0)]
    while open_values:
        item, way, depth = open_values.pop()
        if fault := _fault(item, is_too_deep=depth >= max_depth):
            return _wrong(_pointer(way), fault)
        if isinstance(item, list):
            for at, each in enumerate(cast("list[Json]", item)):
                open_values.append((each, (way, at), depth + 1))
        elif isinstance(item, dict):
            for key, each in cast("dict[str, Json]", item).items():
                open_values.append((each, (way, key), depth + 1))
    raise AssertionError("a value that was just found to be wrong")


def _pointer(way: _Way) -> str:
    tokens: list[str] = []
    while way is not None:
        way, key = way
        tokens.append(f"/{pointer_token(str(key))}")
    return "".join(reversed(tokens))


def _wrong(pointer: str, message: str) -> InvalidJson:
    return InvalidJson(
        f"The value cannot be stored: {message}.",
        fields=[FieldError(pointer=pointer, message=message)],
    )


def pointer_token(key: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def canonical(value: Json) -> bytes:
    """The canonical bytes of a JSON value (RFC 8785), with integers beyond 53 bits written as they are."""
    return rfc8785.dumps(_integers_as_text(value))


def sha256(value: Json) -> str:
    """SHA-256 over the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def keyed_hash(salt: str, value: Json) -> str:
    """HMAC-SHA-256 over the canonical form, in hex: stands in for a value that must not be guessed."""
    return hmac.new(salt.encode(), canonical(value), hashlib.sha256).hexdigest()


_SAFE_INTEGER = 2**53 - 1


def _integers_as_text(value: Json) -> Json:
    match value:
        case bool():
            return value
        case int() if abs(value) > _SAFE_INTEGER:
            return str(value)
        case list():
            return [_integers_as_text(each) for each in cast("list[Json]", value)]
        case dict():
            members = cast("Mapping[str, Json]", value)
            return {key: _integers_as_text(each) for key, each in members.items()}
        case _:
            return value
