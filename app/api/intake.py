"""Looks at every request before it reaches a route: its size, its media type, and that its JSON can be stored.

What Python's reader takes and others do not (NaN, the same key twice, a NUL, half a surrogate pair, integers
without end, arrays without bottom) is refused here once, for all routes.
"""

import json
from collections.abc import Iterable, MutableMapping
from typing import Any, Final, NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import (
    BodyTooLarge,
    HeadersTooLarge,
    TargetTooLong,
    UnsupportedMediaType,
    problem_of,
)
from app.domain.json import Json, check_json
from app.errors import Invalid, SignoffError

MAX_TARGET: Final = 8 * 1024
"""Bytes of path and query."""

JSON: Final = "application/json"
READ: Final = "signoff.json"
"""Where a request's scope has its body as it was read."""


class MalformedBody(Invalid):
    """A body that is not JSON, or JSON that cannot be stored."""


class Disconnected(Exception):
    """The client went away before its request was whole."""


class Intake:
    """Pure ASGI, so that it costs next to nothing."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, max_header_bytes: int) -> None:
        self._app = app
        self._max_header_bytes = max_header_bytes
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            taken = await self._take(scope, receive)
        except SignoffError as error:
            await problem_of(error)(scope, receive, send)
        except Disconnected:
            return
        else:
            await self._app(scope, taken, send)

    async def _take(self, scope: Scope, receive: Receive) -> Receive:
        """Reads what there is to read, and gives what the application receives in its place."""
        _check_target(scope)
        self._check_headers(scope)
        headers = {name: value for name, value in scope["headers"] if name in _LOOKED_AT}
        if not _has_body(headers):
            return receive
        _check_media_type(headers)
        if _length(headers) > self._max_body_bytes:
            raise self._too_large()
        body = await self._read(receive)
        if body:
            scope[READ] = parse_json(body)
        return _again(body, receive)

    def _check_headers(self, scope: Scope) -> None:
        most = self._max_header_bytes
        if sum(len(name) + len(value) for name, value in scope["headers"]) > most:
            raise HeadersTooLarge(f"The headers are larger than {most} bytes.", limit=most)

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"The body is larger than {self._max_body_bytes} bytes.", limit=self._max_body_bytes
        )


def body_of(scope: MutableMapping[str, Any]) -> Json:
    """The JSON of a request, or None if it has none."""
    return scope.get(READ)


_LOOKED_AT = {b"content-length", b"transfer-encoding", b"content-type", b"content-encoding"}


def _check_target(scope: Scope) -> None:
    target: bytes = scope.get("raw_path") or scope["path"].encode()
    if len(target) + len(scope["query_string"]) > MAX_TARGET:
        raise TargetTooLong(f"Path and query are longer than {MAX_TARGET} bytes.", limit=MAX_TARGET)


def _has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or _length(headers) > 0


def _length(headers: dict[bytes, bytes]) -> int:
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() and len(length) < 20 else 0


def _check_media_type(headers: dict[bytes, bytes]) -> None:
    media_type, _, parameters = headers.get(b"content-type", b"").decode("latin-1").partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    is_json = media_type.strip().lower() == JSON and charset in ("", "charset=utf-8")
    if not is_json or b"content-encoding" in headers:
        raise UnsupportedMediaType(
            f"The body must be JSON in UTF-8, not compressed: send Content-Type: {JSON}."
        )


def _again(body: bytes, receive: Receive) -> Receive:
    """What was read, once more; then whatever else comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def parse_json(body: bytes) -> Json:
    """The JSON value of a body; raises `MalformedBody`, or `InvalidJson` with a pointer."""
    try:
        value = json.loads(body.decode(), object_pairs_hook=_members, parse_constant=_no_constant)
    except RecursionError:
        raise MalformedBody("The body has too many levels.") from None
    except ValueError:
        # Also for bytes that are not UTF-8 and for numbers of thousands of digits; the reasons quote the body.
        raise MalformedBody("The body is not JSON in UTF-8 (RFC 8259).") from None
    check_json(value)
    return value


def _members(pairs: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    listed = list(pairs)
    members = dict(listed)
    if len(members) != len(listed):
        raise MalformedBody("The body has an object with the same key twice.")
    return members


def _no_constant(_: str) -> NoReturn:
    raise MalformedBody("The body has NaN or an infinity, which JSON does not know.")
