"""Sends notices to a receiver, rightly and wrongly, and keeps what came back."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx
import orjson

from app.channels.signing import SigningSecret, sign
from app.channels.webhook import MAX_ANSWER_BYTES
from app.cli.receiver.notices import Notice
from app.domain.json import Json
from app.errors import SignoffError

LIMIT_SECONDS: Final = 10.0
"""What the service waits for an answer."""


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What came back: a status and a body, or `why_not`."""

    status: int | None = None
    body: bytes = b""
    why_not: str = ""

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_refused(self) -> bool:
        return self.status is not None and 400 <= self.status < 500

    @property
    def decision(self) -> Json:
        """What stands under `decision`, where the service would look for it."""
        if not self.is_taken or len(self.body) > MAX_ANSWER_BYTES:
            return None
        try:
            answer = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None
        return cast("dict[str, Json]", answer).get("decision") if isinstance(answer, dict) else None

    def __str__(self) -> str:
        if self.status is None:
            return self.why_not
        return f"{self.status} with a decision" if self.decision is not None else str(self.status)


class Unreachable(SignoffError):
    """Nobody listens where the receiver should be."""

    code = "unreachable"
    exit_code = 3


def foreign_secret() -> SigningSecret:
    """One that the receiver does not have."""
    return SigningSecret(key=os.urandom(32))


class Probe:
    """The way to one receiver; the caller closes the client.

    Args:
        client: Any client: the receiver's address is what was typed.
        url: The receiver's address.
        secrets: Those that it has; notices are signed with each.
    """

    def __init__(
        self, client: httpx.AsyncClient, url: str, secrets: Sequence[SigningSecret]
    ) -> None:
        self._client = client
        self._url = url
        self.secrets = tuple(secrets)

    async def tell(
        self,
        notice: Notice,
        *,
        signed_with: Sequence[SigningSecret] | None = None,
        further: str = "",
        age: float = 0,
        altered: dict[str, Any] | None = None,
    ) -> Heard:
        """One notice.

        Args:
            notice: What to tell.
            signed_with: Other secrets than the receiver's; none at all: unsigned.
            further: Signatures that stand before the right ones.
            age: How many seconds ago it claims to be sent.
            altered: The body that is sent in place of the one that is signed.
        """
        body = orjson.dumps(notice.body)
        sent_at = int(time.time() - age)
        headers = {
            "content-type": "application/json",
            "user-agent": "signoff",
            "webhook-id": notice.id,
            "webhook-timestamp": str(sent_at),
        }
        secrets = self.secrets if signed_with is None else signed_with
        if secrets:
            right = sign(secrets, notice.id, sent_at, body)
            headers["webhook-signature"] = f"{further} {right}".strip()
        return await self._post(headers, body if altered is None else orjson.dumps(altered))

    async def _post(self, headers: dict[str, str], body: bytes) -> Heard:
        try:
            async with (
                asyncio.timeout(LIMIT_SECONDS),
                self._client.stream("POST", self._url, headers=headers, content=body) as answer,
            ):
                read = bytearray()
                async for chunk in answer.aiter_raw():
                    read += chunk
                    if len(read) > MAX_ANSWER_BYTES:
                        break
                return Heard(status=answer.status_code, body=bytes(read))
        except TimeoutError:
            return Heard(why_not=f"no answer within {LIMIT_SECONDS:g} s")
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unreachable(f"{self._url} cannot be reached: {error}.") from error
        except httpx.HTTPError as error:
            return Heard(why_not=f"{type(error).__name__}: {error}")
