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
    more than `max_depth` levels, and anything that is not JSON at all. Walks without recursion.
    """
    open_values: list[tuple[Json, str, int]] = [(value, "", 0)]
    while open_values:
        item, pointer, depth = open_values.pop()
        if isinstance(item, dict | list) and depth >= max_depth:
            raise _wrong(pointer, f"more than {max_depth} levels")
        match item:
            case str():
                _check_text(item, pointer)
            case list():
                items = cast("list[Json]", item)
                open_values += [
                    (each, f"{pointer}/{at}", depth + 1) for at, each in enumerate(items)
                ]
            case dict():
                open_values += _members(cast("dict[Any, Json]", item), pointer, depth)
            case _:
                _check_scalar(item, pointer)


def _check_scalar(item: Json, pointer: str) -> None:
    match item:
        case None | bool():
            return
        case int():
            if item not in _INT64:
                raise _wrong(pointer, "an integer beyond 64 bits")
        case float():
            if not math.isfinite(item):
                raise _wrong(pointer, "not a finite number")
        case _:
            raise _wrong(pointer, f"{type(item).__name__} is not JSON")


def _members(item: dict[Any, Json], pointer: str, depth: int) -> list[tuple[Json, str, int]]:
    members: list[tuple[Json, str, int]] = []
    for key, each in item.items():
        if not isinstance(key, str):
            raise _wrong(pointer, "a key that is not a string")
        _check_text(key, pointer)
        members.append((each, f"{pointer}/{pointer_token(key)}", depth + 1))
    return members


def _check_text(text: str, pointer: str) -> None:
    if text.isascii():
        if "\0" in text:
            raise _wrong(pointer, "a NUL character")
        return
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _wrong(pointer, "a NUL character or a lone surrogate")


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
