"""Encrypts true values on their way into the tables, and opens them on their way out, if there are keys.

A sealed value says which key it is sealed with, and holds only in the column and row that it was sealed for:

    JSON   {"$sealed": "<key id>.<base64 of nonce and ciphertext>"}
    bytes  sealed:<key id>:<nonce and ciphertext>

The cipher is AES-256-GCM. Every run has a key of its own, derived from the key that is set: random nonces of 96
bits are good for four thousand million values a key, which a busy service would use up in months, and a run never.
Without keys nothing is sealed, and nothing is paid for it.
"""

import base64
import hashlib
import hmac
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.domain.json import Json
from app.errors import SignoffError

log = logging.getLogger(__name__)

SEALED: Final = "$sealed"
_AS_IT_IS: Final = "$plain"
"""Around a value that only looks like one of these two."""

SEALED_BYTES: Final = b"sealed:"
_NONCE: Final = 12


class BadKey(SignoffError):
    """Not a key to encrypt with."""

    code = "bad_key"


class CannotOpen(SignoffError):
    """A stored value was sealed with a key that is not set here, or is not what was sealed in its place."""

    code = "cannot_open"


class KeyAbsent(CannotOpen):
    """A stored value was sealed with a key that this process was not given."""

    code = "encryption_key_absent"


@dataclass(frozen=True, kw_only=True)
class Key:
    """256 bits, and their name in what is sealed with them, which gives nothing away."""

    id: str
    secret: bytes

    def cipher(self, run_id: str) -> AESGCM:
        """The cipher of one run's values."""
        return AESGCM(hmac.digest(self.secret, f"signoff/run/{run_id}".encode(), "sha256"))


def parse_keys(texts: Sequence[str]) -> tuple[Key, ...]:
    """Keys from base64. Raises `BadKey`, whose message quotes nothing."""
    return tuple(_parse(text) for text in texts)


def _parse(text: str) -> Key:
    try:
        secret = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise BadKey("an encryption key is base64 of 32 random bytes: openssl rand -base64 32")
    digest = hashlib.sha256(b"signoff/key/" + secret).hexdigest()
    return Key(id=digest[:12], secret=secret)


class Vault:
    """Seals with the first of its keys and opens with any."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._keys = {key.id: key for key in keys}
        self._first = keys[0].id if keys else None
        self._cipher = lru_cache(maxsize=4096)(self._derived)

    @property
    def first(self) -> str | None:
        """The id of the key that it seals with; None if it does not."""
        return self._first

    def lacks(self, key_id: str) -> bool:
        return key_id not in self._keys

    def seal(self, value: Json, column: str, run_id: str, *row: str) -> Json:
        """`value` as a JSON column keeps it; null stays null. The rest says which column of which row."""
        if value is None:
            return None
        if self._first is None:
            return {_AS_IT_IS: value} if _looks_sealed(value) else value
        body = self._encrypt(orjson.dumps(value), column, run_id, row)
        return {SEALED: f"{self._first}.{base64.b64encode(body).decode()}"}

    def open(self, stored: Json, column: str, run_id: str, *row: str) -> Json:
        """What was sealed there. Raises `CannotOpen`."""
        if not _looks_sealed(stored):
            return stored
        ((mark, inside),) = cast("dict[str, Any]", stored).items()
        if mark == _AS_IT_IS:
            return inside
        key_id, _, body = str(inside).partition(".")
        return orjson.loads(self._decrypt(key_id, base64.b64decode(body), column, run_id, row))

    def seal_bytes(self, body: bytes, column: str, run_id: str, *row: str) -> bytes:
        """The same for a column of bytes, whose plain ones never begin like sealed ones."""
        if self._first is None:
            return body
        sealed = self._encrypt(body, column, run_id, row)
        return b"%s%s:%s" % (SEALED_BYTES, self._first.encode(), sealed)

    def open_bytes(self, stored: bytes, column: str, run_id: str, *row: str) -> bytes:
        """What was sealed there. Raises `CannotOpen`."""
        if not stored.startswith(SEALED_BYTES):
            return stored
        key_id, _, body = stored[len(SEALED_BYTES) :].partition(b":")
        return self._decrypt(key_id.decode(), body, column, run_id, row)

    def _encrypt(self, body: bytes, column: str, run_id: str, row: tuple[str, ...]) -> bytes:
        assert self._first is not None  # noqa: S101 - there is a key, or nothing is encrypted
        nonce = os.urandom(_NONCE)
        cipher = self._cipher(self._first, run_id)
        return nonce + cipher.encrypt(nonce, body, _place(column, run_id, row))

    def _decrypt(
        self, key_id: str, body: bytes, column: str, run_id: str, row: tuple[str, ...]
    ) -> bytes:
        if self.lacks(key_id):
            log.error("encryption key absent", extra={"key": key_id, "column": column})
            raise KeyAbsent(
                "This process lacks an encryption key that stored values need; its log says which."
            )
        cipher = self._cipher(key_id, run_id)
        try:
            return cipher.decrypt(body[:_NONCE], body[_NONCE:], _place(column, run_id, row))
        except (InvalidTag, ValueError) as error:
            raise CannotOpen(
                f"A value of {column} is not what was sealed in its place.", column=column
            ) from error

    def _derived(self, key_id: str, run_id: str) -> AESGCM:
        return self._keys[key_id].cipher(run_id)


PLAIN: Final = Vault()
"""Seals nothing."""


def _looks_sealed(value: Json) -> bool:
    return isinstance(value, dict) and len(value) == 1 and (SEALED in value or _AS_IT_IS in value)  # pyright: ignore[reportUnknownArgumentType]


def _place(column: str, run_id: str, row: tuple[str, ...]) -> bytes:
    return "\0".join((column, run_id, *row)).encode()
