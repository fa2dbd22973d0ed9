"""One process's place in the service: what every use case works with."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from app.channels.notifier import Notifier
from app.domain.ids import RunId
from app.domain.run import RunRef
from app.lifecycle.catalog import Catalog
from app.lifecycle.following import Followers
from app.lifecycle.hands import Hands
from app.lifecycle.last_look import LastLook
from app.lifecycle.parked import ParkedRuns
from app.lifecycle.refusals import Refusals
from app.lifecycle.replies import Replies
from app.lifecycle.waiting import Waiters
from app.storage.database import Database
from app.watching.metrics import Metrics
from app.watching.traces import Traces


@dataclass(frozen=True, kw_only=True)
class Site:
    """The database, the workflows served here, the worker's free slots, and who waits.

    `is_open` says that nobody is asked for a credential: then nobody's name is known, and approvers are not
    checked. `tell_others` passes a hint to the other processes after a commit; `deliveries_due` and `runs_due` wake
    this process's own loops.
    """

    database: Database
    catalog: Catalog
    hands: Hands
    followers: Followers
    notifier: Notifier
    base_url: str
    lease_seconds: float
    is_open: bool = True
    tell_others: Callable[[str], None] = lambda hint: None
    metrics: Metrics = field(default_factory=Metrics)
    traces: Traces = field(default_factory=Traces)
    last_look: LastLook = field(default_factory=LastLook)
    parked: ParkedRuns = field(default_factory=ParkedRuns)
    replies: Replies = field(default_factory=Replies)
    refusals: Refusals = field(default_factory=Refusals)
    waiters: Waiters = field(default_factory=Waiters)
    deliveries_due: asyncio.Event = field(default_factory=asyncio.Event)
    runs_due: asyncio.Event = field(default_factory=asyncio.Event)

    def happened(self, run: RunRef) -> None:
        """Says in this process that something of a run was written."""
        self.followers.happened(run)

    def hear(self, hint: str) -> None:
        """What another process says: that runs are queued, that one is settled, or was decided upon.

        And what is followed, or happens to what is followed here.
        """
        kind, _, run_id = hint.partition(":")
        if kind == SETTLED:
            self.waiters.wake(RunId(run_id))
            self.followers.look_at(RunId(run_id))
        elif kind == DECIDED:
            self.hands.tell(RunId(run_id))
        elif kind == READY:
            self.runs_due.set()
        else:
            self.followers.heard(kind, run_id)


READY = "ready"
SETTLED = "settled"
DECIDED = "decided"


def decided_hint(run_id: RunId) -> str:
    """Tells the process that advances a run that a decision of it was stored."""
    return f"{DECIDED}:{run_id}"


def settled_hint(run_id: RunId) -> str:
    """Tells the other processes that a run paused or ended."""
    return f"{SETTLED}:{run_id}"
