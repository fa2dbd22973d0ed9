"""Webhooks as a receiver takes them: verified as Standard Webhooks says, then read.

See https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from signoff_client.models import Notice
from signoff_client.problems import BadNotice

_PREFIX: Final = "whsec_"
_VERSION: Final = "v1,"


class Webhook:
    """Reads notices that are signed with one of the secrets; there are several while one takes another's place.

    Args:
        secrets: As the service has them: `whsec_` and base64.
        tolerance: How old a notice may be, or how far ahead of this clock.
        clock: Seconds since 1970.

    Raises:
        ValueError: A secret is not written so, or there is none.
    """

    def __init__(
        self,
        *secrets: str,
        tolerance: timedelta = timedelta(minutes=5),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not secrets:
            raise ValueError("A webhook needs a secret to be verified by.")
        self._keys = [_key_of(each) for each in secrets]
        self._tolerance = tolerance.total_seconds()
        self._clock = clock

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Notice:
        """The notice in a request. The same one may come again, with the same `webhook-id`.

        Args:
            body: The bytes as they came, before anything has read them.
            headers: In any case.

        Raises:
            BadNotice: It is not to be believed, or no notice; answer with a 4xx, and do nothing.
        """
        told = {name.lower(): value for name, value in headers.items()}
        webhook_id, sent_at = told.get("webhook-id", ""), told.get("webhook-timestamp", "")
        self._check_age(sent_at)
        signed = _bytes(f"{webhook_id}.{sent_at}.") + body
        expected = [_signature(key, signed) for key in self._keys]
        given = _bytes(told.get("webhook-signature", "")).split()
        if not any(hmac.compare_digest(one, other) for one in given for other in expected):
            raise BadNotice("The webhook is not signed with a secret that is known here.")
        return _read(webhook_id, body)

    def _check_age(self, timestamp: str) -> None:
        if not (timestamp.isascii() and timestamp.isdigit()):
            raise BadNotice("The webhook does not say when it was sent.")
        if abs(self._clock() - int(timestamp[:16])) > self._tolerance:
            raise BadNotice("The webhook is too old, or from the future: it may be a repetition.")


def _bytes(header: str) -> bytes:
    """A header as bytes, another for each header: some servers read bytes that are no text as half characters."""
    return header.encode(errors="surrogatepass")


def _read(webhook_id: str, body: bytes) -> Notice:
    try:
        return Notice.model_validate({**json.loads(body), "id": webhook_id})
    except (TypeError, ValueError) as error:
        raise BadNotice("The webhook is signed, and no notice.") from error


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not key:
        raise ValueError(f"A webhook secret is {_PREFIX} and base64.")
    return key


def _signature(key: bytes, signed: bytes) -> bytes:
    code = hmac.new(key, signed, hashlib.sha256).digest()
    return _VERSION.encode() + base64.b64encode(code)
