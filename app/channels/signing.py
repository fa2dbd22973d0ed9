"""Signs notices as Standard Webhooks says, so that a receiver knows who sent them and that nobody changed them.

See https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.errors import AuthoringError

PREFIX = "whsec_"
_MIN_KEY_BYTES = 16


class BadSecret(AuthoringError):
    """A text that is no webhook secret; the message never shows it."""

    code = "bad_webhook_secret"


@dataclass(frozen=True, kw_only=True)
class SigningSecret:
    """The key that a sender and a receiver share."""

    key: bytes = field(repr=False)


def parse_secret(text: str) -> SigningSecret:
    """The secret written as `whsec_` and base64.

    Raises:
        BadSecret: It is not written so, or its key is shorter than 16 bytes.
    """
    if not text.startswith(PREFIX):
        raise BadSecret(f"A webhook secret begins with {PREFIX}, followed by base64.")
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSecret(f"What follows {PREFIX} in a webhook secret is not base64.") from error
    if len(key) < _MIN_KEY_BYTES:
        raise BadSecret(
            f"A webhook secret holds {len(key)} bytes; it needs at least {_MIN_KEY_BYTES}, better 32."
        )
    return SigningSecret(key=key)


def parse_secrets(texts: Iterable[str]) -> tuple[SigningSecret, ...]:
    """Several secrets; more than one while receivers change from an old one to a new one.

    Raises:
        BadSecret: One of them is wrong; the message says which.
    """
    secrets: list[SigningSecret] = []
    for position, text in enumerate(texts, start=1):
        try:
            secrets.append(parse_secret(text))
        except BadSecret as error:
            raise BadSecret(f"Secret {position}: {error.message}", position=position) from error
    return tuple(secrets)


def sign(secrets: Sequence[SigningSecret], webhook_id: str, sent_at: int, body: bytes) -> str:
    """The `webhook-signature` header: one `v1` signature for each secret, space separated.

    Args:
        secrets: At least one.
        webhook_id: The `webhook-id` header.
        sent_at: The `webhook-timestamp` header: seconds since 1970 of this attempt.
        body: Exactly the bytes that are sent.
    """
    signed = f"{webhook_id}.{sent_at}.".encode() + body
    return " ".join(_signature(secret, signed) for secret in secrets)


def _signature(secret: SigningSecret, signed: bytes) -> str:
    code = hmac.new(secret.key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(code).decode()}"
