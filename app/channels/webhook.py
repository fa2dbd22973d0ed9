"""Sends one notice to one address, once, and says what came of it.

Nothing here raises for what an address does: it may refuse, hang, redirect, or answer for ever. When to
try again is not decided here.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias, cast

import httpx
import orjson

from app.channels.address_guard import AddressRefused
from app.channels.signing import SigningSecret, sign
from app.domain.decision import Decision
from app.domain.json import Json
from app.domain.masking import scrub
from app.watching.traces import carried

MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_RETRY_AFTER: Final = timedelta(days=1)
_EXCERPT_LENGTH: Final = 200
_GONE: Final = 410


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where notices go. Without a secret they are sent unsigned; with several, signed with each."""

    url: str
    secrets: tuple[SigningSecret, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """The notice was taken. `decision` is what was decided at once: from a webhook still raw JSON."""

    status: int | None = None
    excerpt: str = ""
    decision: Json | Decision | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The notice was not taken, or nobody knows; another attempt may help."""

    reason: str
    status: int | None = None
    retry_after: timedelta | None = None
    excerpt: str = ""


@dataclass(frozen=True, kw_only=True)
class GaveUp:
    """The address wants no more notices (410)."""

    status: int
    excerpt: str = ""


Told: TypeAlias = Delivered | Failed | GaveUp


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What came back; `body` is None where it broke off or did not end in time."""

    status: int
    headers: httpx.Headers
    body: bytes | None
    secrets: frozenset[str] = field(repr=False)

    @property
    def excerpt(self) -> str:
        if "content-encoding" in self.headers:
            return ""  # never unpacked, so never a bomb
        return _printable(scrub((self.body or b"").decode(errors="replace"), self.secrets))


class WebhookSender:
    """Sends signed notices through a client that it does not close.

    Args:
        client: A guarded client; see `address_guard.guarded_client`.
        limit: The most that one attempt may take, from resolving to the end of the answer.
        clock: Seconds since 1970, for `webhook-timestamp`.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        limit: timedelta = timedelta(seconds=10),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._limit = limit.total_seconds()
        self._clock = clock

    async def send(
        self,
        endpoint: Endpoint,
        *,
        webhook_id: str,
        event_type: str,
        timestamp: datetime,
        data: Mapping[str, Json],
    ) -> Told:
        """Posts `{type, timestamp, data}`, signed as the bytes that are sent.

        Args:
            endpoint: Where to, and the secrets to sign with.
            webhook_id: The same for every attempt at one notice.
            event_type: What happened.
            timestamp: When it happened; the header says when this attempt was made.
            data: Plain JSON, already masked.
        """
        body = orjson.dumps(
            {"type": event_type, "timestamp": timestamp, "data": data},
            option=orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC,
        )
        try:
            request = self._client.build_request(
                "POST",
                endpoint.url,
                content=body,
                headers=self._headers(endpoint, webhook_id, body),
            )
            answer = await self._exchange(request, _reply_token(data))
        except TimeoutError:
            return Failed(reason=f"no answer within {self._limit:g} s")
        except AddressRefused as error:
            return Failed(reason=error.message)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Failed(reason=_printable(f"{type(error).__name__}: {error}"))
        return self._told(answer)

    def _headers(self, endpoint: Endpoint, webhook_id: str, body: bytes) -> dict[str, str]:
        sent_at = int(self._clock())
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "signoff",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(sent_at),
        }
        headers |= carried() or {}
        if endpoint.secrets:
            headers["webhook-signature"] = sign(endpoint.secrets, webhook_id, sent_at, body)
        return headers

    async def _exchange(self, request: httpx.Request, secrets: frozenset[str]) -> _Answer:
        deadline = asyncio.get_running_loop().time() + self._limit
        async with asyncio.timeout_at(deadline):
            response = await self._client.send(request, stream=True)
        try:
            async with asyncio.timeout_at(deadline):
                body = await _read(response)
        except (TimeoutError, httpx.HTTPError):
            body = None
        finally:
            await response.aclose()
        return _Answer(
            status=response.status_code, headers=response.headers, body=body, secrets=secrets
        )

    def _told(self, answer: _Answer) -> Told:
        status, excerpt = answer.status, answer.excerpt
        if status == _GONE:
            return GaveUp(status=status, excerpt=excerpt)
        if 200 <= status < 300 and answer.body is not None:
            return Delivered(status=status, excerpt=excerpt, decision=_decision(answer.body))
        return Failed(
            reason=_reason(status),
            status=status,
            retry_after=_retry_after(answer.headers, self._clock()),
            excerpt=excerpt,
        )


async def _read(response: httpx.Response) -> bytes:
    """The answer as it came over the wire, at most one byte more than may be used."""
    body = bytearray()
    async with contextlib.aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                break
    return bytes(body[: MAX_ANSWER_BYTES + 1])


def _decision(body: bytes) -> Json | None:
    """What stands under `decision` in a JSON object; None for any other answer and for one too long."""
    if len(body) > MAX_ANSWER_BYTES:
        return None
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Json]", answer).get("decision") if isinstance(answer, dict) else None


def _reason(status: int) -> str:
    if 200 <= status < 300:
        return f"answered {status}, but the answer broke off or did not end in time"
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"


def _retry_after(headers: httpx.Headers, now: float) -> timedelta | None:
    """The wait that `Retry-After` asks for, in seconds or as a date (RFC 9110), at most a day."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    wait = until - datetime.fromtimestamp(now, UTC)
    return min(wait, MAX_RETRY_AFTER) if wait > timedelta() else None


def _reply_token(data: Mapping[str, Any]) -> frozenset[str]:
    """The token that an address could send back to us, and that must not be stored with its answer."""
    reply = data.get("reply")
    token = cast("dict[str, Json]", reply).get("token") if isinstance(reply, dict) else None
    return frozenset({token}) if isinstance(token, str) and token else frozenset()


def _printable(text: str) -> str:
    spaced = "".join(letter if letter.isprintable() else " " for letter in text[:_EXCERPT_LENGTH])
    return " ".join(spaced.split())
