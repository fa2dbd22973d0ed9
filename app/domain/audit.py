"""A row of the audit, and the link that holds it to the row before.

    hash = SHA-256(hash of the row before, 32 bytes, none for the first ‖ UTF-8 of the row's text)

The text of a row is its fields in a fixed order, each as `length:value`, or `-` where there is none; the
length counts characters, times are microseconds since 1970, `data` is JSON with sorted keys and no spaces.
So no two rows have the same text, and whoever has the rows can work the hashes out again.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson

from app.domain.json import Json
from app.domain.principal import NOBODY, Origin


class AuditAction(StrEnum):
    """What somebody did, or was kept from doing."""

    DECIDED = "decided"  # a pause has its answer
    VOTED = "voted"  # one of several who have to agree
    REFUSED = "refused"  # an attempt at a decision that was not taken
    EXPIRED = "expired"  # nobody decided in time
    EXTENDED = "extended"  # a deadline was moved
    CANCELLED = "cancelled"  # a run was ended from outside, and its open pauses with it
    SUPERSEDED = "superseded"  # a paused run made room for a newer one
    RETRIED = "retried"  # a dead delivery was sent on its way again
    THREAD_DELETED = "thread_deleted"
    DENIED = "denied"  # a request that its credential was not good for, or not any more
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"


API: Final = "api"
"""The door of whoever sends a request."""


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who did something, by which door, and where they came from."""

    by: str | None
    via: str
    origin: Origin = NOBODY

    @property
    def columns(self) -> tuple[str | None, ...]:
        """As an audit row has it: by, via, credential, client, request_id."""
        origin = self.origin
        return self.by, self.via, origin.credential, origin.client, origin.request_id


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

NO_THREAD: Final = ""
"""Stands for the thread of what belongs to none: keys, and threads that are gone. A tenant's own chain."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What an audit row says. `data` is the JSON text as it is stored; `digest` is of what was shown.

    `thread_created_at` tells a thread from an earlier one of the same id.
    """

    tenant: str
    thread_id: str
    thread_created_at: datetime
    sequence: int
    at: datetime
    action: str
    run_id: str | None
    pause_id: str | None
    by: str | None
    via: str
    credential: str | None
    client: str | None
    request_id: str | None
    digest: str | None
    data: str

    @property
    def text(self) -> str:
        """The row's fields as one text, which is what is hashed."""
        return "".join(_item(getattr(self, field)) for field in FIELDS)

    def link(self, previous: bytes) -> bytes:
        """The row's hash, behind the one with the hash `previous`."""
        return hashlib.sha256(previous + self.text.encode()).digest()


FIELDS: Final = (
    "tenant",
    "thread_id",
    "thread_created_at",
    "sequence",
    "at",
    "action",
    "run_id",
    "pause_id",
    "by",
    "via",
    "credential",
    "client",
    "request_id",
    "digest",
    "data",
)


@dataclass(frozen=True, kw_only=True)
class GoneThread:
    """A thread that was deleted, and where its chain ended: what its tenant's chain keeps of it."""

    thread_id: str
    thread_created_at: datetime
    sequence: int
    hash: str | None

    def as_json(self) -> dict[str, Json]:
        return {
            "thread_id": self.thread_id,
            "thread_created_at": self.thread_created_at.isoformat(),
            "sequence": self.sequence,
            "hash": self.hash,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "GoneThread":
        return cls(
            thread_id=data["thread_id"],
            thread_created_at=datetime.fromisoformat(data["thread_created_at"]),
            sequence=data["sequence"],
            hash=data["hash"],
        )


def _item(value: str | int | datetime | None) -> str:
    match value:
        case None:
            return "-"
        case datetime():
            text = str(microseconds(value))
        case _:
            text = str(value)
    return f"{len(text)}:{text}"


def microseconds(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - EPOCH) // _MICROSECOND


def data_text(data: Json) -> str:
    """`data` as a row keeps it: the same value is always the same text."""
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()
