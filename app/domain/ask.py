"""Who is asked, and under which terms: the part of an ask that is the same for every kind."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from app.domain.json import Json

OnExpire: TypeAlias = Literal["reject", "fail", "wait", "approve", "skip"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The terms of one ask. Durations count from the moment the pause opens."""

    channel: str
    expires_after: timedelta | None = None
    on_expire: OnExpire = "reject"
    remind_before: timedelta | None = None
    escalate_to: str | None = None
    escalate_before: timedelta | None = None
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    allow_requester: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether one decision of anybody who may decide settles it, whenever it comes."""
        return self.expires_after is None and self.quorum == 1 and not self.approvers

    @property
    def remind_after(self) -> timedelta | None:
        """How long after the opening a reminder is due, if there is to be one."""
        return _from_opening(self.expires_after, self.remind_before)

    @property
    def escalate_after(self) -> timedelta | None:
        """How long after the opening somebody else is asked too, if anybody is."""
        return _from_opening(self.expires_after, self.escalate_before)

    def as_json(self) -> dict[str, Json]:
        """The terms as a pause's row keeps them, durations in seconds."""
        return {
            "channel": self.channel,
            "expires_after": _seconds(self.expires_after),
            "on_expire": self.on_expire,
            "remind_before": _seconds(self.remind_before),
            "escalate_to": self.escalate_to,
            "escalate_before": _seconds(self.escalate_before),
            "approvers": list(self.approvers),
            "quorum": self.quorum,
            "allow_requester": self.allow_requester,
        }


def _from_opening(expires_after: timedelta | None, before: timedelta | None) -> timedelta | None:
    return None if expires_after is None or before is None else expires_after - before


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
