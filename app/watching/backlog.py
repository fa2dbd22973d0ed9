"""What waits in the database at a moment, over all processes and tenants, for those who watch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AGES: Final[Mapping[str, int]] = {
    "1m": 60,
    "10m": 600,
    "1h": 3600,
    "1d": 86_400,
    "7d": 604_800,
}
"""The ages that open pauses are counted by, in seconds."""


@dataclass(frozen=True, kw_only=True)
class OpenPauses:
    """The open pauses of one workflow: how many, how many older than each of `AGES`, the oldest's seconds."""

    count: int
    older: Mapping[str, int]
    oldest: float


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """Runs, pauses and notices that wait. Seconds are by the database's clock; 0 where nothing waits."""

    open_pauses: Mapping[str, OpenPauses]
    queued: int
    longest_queued: float
    running: int
    without_worker: int
    """Runs whose lease has ended, and that nobody has queued again yet."""
    pending_deliveries: int
    longest_due: float
    """How long the delivery that is due longest has been."""
    dead_deliveries: int


@dataclass(frozen=True, kw_only=True)
class PoolUse:
    """The database connections of one process: how many there may be, are at work, and are waited for."""

    size: int
    busy: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class SlotUse:
    """The slots of one process's worker; none where it does not work, or drains."""

    size: int
    busy: int
