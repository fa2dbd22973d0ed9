"""Tokens by which a channel may decide one pause: made from a secret and the pause, and kept nowhere.

    reply_ <tenant, channel and pause, as base64url of JSON> . <HMAC-SHA256 of that>

The same secret makes the same token again, so that every attempt at a notice carries the same one. What it
says can be read by anybody; only who has the secret can make one.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from app.channels.signing import SigningSecret
from app.domain.ids import PauseId, TenantId

PREFIX: Final = "reply_"
_PURPOSE: Final = b"signoff reply token\n"
"""Keeps a secret that is used elsewhere too from signing one thing that passes for another."""


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What a token is good for: to decide this pause as this channel."""

    tenant: TenantId
    channel: str
    pause_id: PauseId


def is_reply_token(credential: str) -> bool:
    """Whether a credential has the form of a reply token."""
    return credential.startswith(PREFIX)


def make_token(secret: SigningSecret, grant: Grant) -> str:
    """The token of a grant, the same whenever it is made."""
    said = _encoded(orjson.dumps([grant.tenant, grant.channel, grant.pause_id]))
    return f"{PREFIX}{said}.{_encoded(_code(secret, said))}"


def read_token(secrets: Sequence[SigningSecret], token: str) -> Grant | None:
    """What a token is good for; None if it was made with none of the secrets."""
    said, _, code = token.removeprefix(PREFIX).partition(".")
    given = _decoded(code)
    if not any(hmac.compare_digest(given, _code(secret, said)) for secret in secrets):
        return None
    return _grant(said)


def claimed_by(token: str) -> Grant | None:
    """What a token says that it is good for, whoever made it; None if it says nothing of the kind."""
    said, _, _ = token.removeprefix(PREFIX).partition(".")
    try:
        return _grant(said)
    except ValueError:
        return None


def _grant(said: str) -> Grant:
    """Raises `ValueError`."""
    match orjson.loads(_decoded(said)):
        case [str(tenant), str(channel), str(pause_id)]:
            return Grant(tenant=TenantId(tenant), channel=channel, pause_id=PauseId(pause_id))
        case _:
            raise ValueError("not what a token says")


def _code(secret: SigningSecret, said: str) -> bytes:
    return hmac.digest(secret.key, _PURPOSE + said.encode(), hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
