"""What this process remembers of the runs it parked: a decision that comes here has nothing to read.

Only of runs that wait at one plain question, without a deadline or a vote. The statement that decides says
whether it still holds: it writes nothing where the pause is closed by then, and nobody else had the run where
the fence and the count of decisions are those of the park.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from app.domain.ids import PauseId, TenantId, ThreadId
from app.domain.pause import Answer
from app.domain.run import Lease
from app.storage.pauses import PauseRow
from app.storage.runs import Loaded

MOST: Final = 1000
"""Runs; the one that was asked for longest ago goes."""
MOST_BYTES: Final = 32 * 1024
"""Of checkpoints, for each: a larger run is read."""


@dataclass(frozen=True, kw_only=True)
class Parked:
    """A run as it was parked: its one open pause, and what reading it again would give."""

    pause: PauseRow
    interrupt_id: str
    fence: int
    loaded: Loaded
    opened_at: float
    """By the clock of this process."""


class ParkedRuns:
    """The runs that were parked last, by their pauses."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PauseId, Parked] = OrderedDict()

    def keep(self, parked: Parked) -> None:
        """Remembers a run, if it is small."""
        rows = (*parked.loaded.checkpoints, *parked.loaded.writes)
        if sum(len(row.body) for row in rows) > MOST_BYTES:
            return
        self._kept[parked.pause.id] = parked
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def pause(self, tenant: TenantId, thread_id: ThreadId, pause_id: PauseId) -> PauseRow | None:
        """A pause that was open when this process last heard of it."""
        parked = self._kept.get(pause_id)
        if parked is None or (parked.pause.run.tenant, parked.pause.run.thread_id) != (
            tenant,
            thread_id,
        ):
            return None
        return replace(parked.pause, age=time.monotonic() - parked.opened_at)

    def forget(self, pause_id: PauseId) -> bool:
        """Whether the pause was remembered; it is not any more."""
        return self._kept.pop(pause_id, None) is not None

    def woken(
        self, pause_id: PauseId, answer: Answer, *, lease: Lease, decisions: int
    ) -> Loaded | None:
        """The run as it goes on with the answer, if nobody else had it since it was parked."""
        parked = self._kept.pop(pause_id, None)
        if parked is None:
            return None
        known = parked.loaded
        if (parked.fence + 1, known.decisions + 1) != (lease.fence, decisions):
            return None
        answers = known.answers | {parked.interrupt_id: answer}
        return replace(known, decisions=decisions, answers=answers, open=frozenset())
