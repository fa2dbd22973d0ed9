"""Who is asked, and under which terms: the part of an ask that is the same for every kind."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

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
