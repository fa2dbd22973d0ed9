"""A delivery: one notice to one address, with its attempts.

    pending ──► delivered    the address took it
       │ ▲
       ▼ │ retried by hand
      dead                   the last attempt failed, or the address wants no more

Every attempt carries the same `webhook-id`, the one after a retry by hand too.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Final


class DeliveryStatus(StrEnum):
    """How far a notice has come."""

    PENDING = "pending"  # an attempt is due now or later
    DELIVERED = "delivered"  # an attempt was answered with success
    DEAD = "dead"  # nobody tries again unless asked to


WAITS: Final = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(minutes=30),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
)
"""The waits after the first attempts; every later one is as long as the last of them."""

MAX_ATTEMPTS: Final = 12
"""After this many failed attempts, a little more than a day, a delivery is dead."""


def wait_before(attempt: int, jitter: float, retry_after: timedelta | None = None) -> timedelta:
    """How long to wait between a failed attempt and the one with this number.

    Args:
        attempt: The number of the coming attempt; the first one is 1 and waits for nothing.
        jitter: A random number from 0 to 1 that makes the wait up to a fifth longer, so that what
            failed together is not sent again together.
        retry_after: What the address asked for; obeyed where it is longer.
    """
    if attempt <= 1:
        return timedelta()
    wait = WAITS[min(attempt - 2, len(WAITS) - 1)] * (1 + jitter / 5)
    return max(wait, retry_after or timedelta())
