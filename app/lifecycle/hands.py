"""The free slots of this process's worker.

A run that is started or decided here is leased to this worker by the same statement, if it has a slot free;
then nothing has to look for it. Work that comes from the queue takes the same slots.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from app.domain.ids import RunId
from app.domain.run import Lease
from app.storage.runs import Loaded
from app.watching.backlog import SlotUse
from app.watching.traces import Carrier


@dataclass(frozen=True, kw_only=True)
class Work:
    """A leased run that is to be advanced here."""

    lease: Lease
    fingerprint: str
    workflow: str
    loaded: Loaded | None = None
    """Everything about the run, where it was written here a moment ago: nothing has to be read for it."""
    trace: Carrier | None = None
    from_queue: bool = False
    """Whether callers of another process may wait for it."""


class Slot:
    """One reserved place. It goes back by itself unless work was put into it."""

    def __init__(self, worker: str, put: Callable[[Work], None]) -> None:
        self.worker = worker
        self.is_used = False
        self._put = put

    def use(self, work: Work) -> None:
        self.is_used = True
        self._put(work)


class Hands:
    """Up to `size` runs at once; none while `is_open` is false, as in a process without a worker."""

    def __init__(self, worker: str, size: int) -> None:
        self.worker = worker
        self.is_open = False
        self.free = size
        self._size = size
        self._work: asyncio.Queue[Work] = asyncio.Queue()
        self._freed = asyncio.Event()
        self._waiting: set[RunId] = set()
        self._tasks: dict[RunId, asyncio.Task[None]] = {}
        self._news: dict[RunId, asyncio.Event] = {}
        self.known_decisions: dict[RunId, int] = {}
        """How many decisions the tasks have heard of, by run."""
        self._held_since: dict[RunId, float] = {}

    @contextmanager
    def slot(self) -> Generator[Slot | None]:
        """Reserves a slot for the length of the block, and longer if work was put into it."""
        if not self.is_open or self.free <= 0:
            yield None
            return
        self.free -= 1
        since = time.monotonic()
        slot = Slot(self.worker, lambda work: self._put(work, since))
        try:
            yield slot
        finally:
            if not slot.is_used:
                self._give_back()

    async def work(self) -> AsyncIterator[Work]:
        """The runs to advance, as they come."""
        while True:
            yield await self._work.get()

    async def wait_for_free(self) -> None:
        """Returns once a slot is free."""
        while self.free <= 0:
            self._freed.clear()
            await self._freed.wait()

    def began(self, run_id: RunId, task: asyncio.Task[None]) -> None:
        """Notes who advances a run; its slot is free again when the task is done."""
        self._waiting.discard(run_id)
        self._tasks[run_id] = task
        task.add_done_callback(lambda _: self._ended(run_id, task))

    def news_of(self, run_id: RunId) -> asyncio.Event:
        """Set whenever a decision of the run was stored, while it is advanced here."""
        return self._news.setdefault(run_id, asyncio.Event())

    def tell(self, run_id: RunId) -> None:
        """Says that a decision of the run was stored."""
        if news := self._news.get(run_id):
            news.set()

    def leave(self, run_id: RunId) -> None:
        """Says that the current task has nothing more to do for a run: whoever waits for it may look now."""
        if self._tasks.get(run_id) is asyncio.current_task():
            del self._tasks[run_id]
            self._forget(run_id)

    def stop(self, run_id: RunId) -> None:
        """Stops advancing a run that is not this worker's any more."""
        if task := self._tasks.get(run_id):
            task.cancel()

    def has(self, run_id: RunId) -> bool:
        """Whether a run is advanced here, or is about to be."""
        return run_id in self._tasks or run_id in self._waiting

    @property
    def busy(self) -> dict[RunId, asyncio.Task[None]]:
        """The runs that are advanced at this moment."""
        return dict(self._tasks)

    @property
    def use(self) -> SlotUse:
        """How many slots there are, and how many are taken."""
        return SlotUse(size=self._size if self.is_open else 0, busy=self._size - self.free)

    async def wait_until_idle(self, seconds: float) -> None:
        """Returns once nothing is advanced here any more, or when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks or self._waiting:
                    self._freed.clear()
                    await self._freed.wait()

    def held_for(self, run_id: RunId) -> float:
        """Seconds since the lease of a run was last known to be whole, by this machine's clock."""
        return time.monotonic() - self._held_since.get(run_id, 0.0)

    def holds(self, run_id: RunId, since: float) -> None:
        """Notes that the lease of a run was taken, or renewed, not before that moment."""
        self._held_since[run_id] = since

    def _put(self, work: Work, since: float) -> None:
        self._waiting.add(work.lease.run.run_id)
        self.holds(work.lease.run.run_id, since)
        self._work.put_nowait(work)

    def _ended(self, run_id: RunId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is task:
            del self._tasks[run_id]
            self._forget(run_id)
        self._give_back()

    def _forget(self, run_id: RunId) -> None:
        self._news.pop(run_id, None)
        self.known_decisions.pop(run_id, None)
        self._held_since.pop(run_id, None)

    def _give_back(self) -> None:
        self.free += 1
        self._freed.set()
