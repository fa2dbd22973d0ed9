"""Callers who wait until a run is settled: woken by what happens here, or told by another process.

What another process says is a hint only: it may be lost, so who waits looks again after `LOOK_AGAIN` at the
latest.
"""

import asyncio
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager

from app.domain.ids import RunId

LOOK_AGAIN = 0.5
"""Seconds after which a run of another process is looked at without a hint."""


class Waiters:
    """One event a waiting caller, by run."""

    def __init__(self) -> None:
        self._events: defaultdict[RunId, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def expecting(self, run_id: RunId) -> Generator[asyncio.Event]:
        """An event that is set each time something of the run is settled; clear it before looking."""
        event = asyncio.Event()
        self._events[run_id].add(event)
        try:
            yield event
        finally:
            self._events[run_id].discard(event)
            if not self._events[run_id]:
                del self._events[run_id]

    def wake(self, run_id: RunId) -> bool:
        """Wakes whoever waits for a run here; says whether anybody does."""
        waiting = self._events.get(run_id, ())
        for event in waiting:
            event.set()
        return bool(waiting)
