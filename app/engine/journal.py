"""What has happened in a run during this advance and is not yet written."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Final, TypeAlias

from app.domain.event import Event, EventType
from app.domain.facts import Facts
from app.domain.ledger import NOTHING_SPENT, LedgerEntry, Spent
from app.domain.pause import Ask
from app.domain.step import StepRecord, StepStatus

Fact: TypeAlias = Event | LedgerEntry | StepRecord | Ask

BEGINNINGS: Final = frozenset({EventType.STEP_STARTED, EventType.TOOL_STARTED})

_task: ContextVar[str | None] = ContextVar("task", default=None)


def in_task(task: str) -> None:
    """Says that what is noted from here on happens in a task of LangGraph's, until it has ended."""
    _task.set(task)


class Journal:
    """Gathers the facts of a run until `write` writes them, together with its checkpoints.

    What a task has brought about is held back until `kept` says that the checkpoints have what the task
    wrote: other lines may write at any moment, and what stands in the tables without its checkpoint would
    happen once more after a crash. Beginnings are not held back.

    `check` raises where nothing may have an effect any more. `write` takes the facts by `take`, and gives
    them back by `put_back` if it failed. It is never called twice at once. Facts that a repetition would
    bring about again may wait for the next statement that has to be; what cannot be had again (a model's
    answer, a tool's effect) is written before the next effect.
    """

    def __init__(
        self,
        write: Callable[[], Awaitable[None]],
        *,
        spent: Spent = NOTHING_SPENT,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.in_flight = 0
        """How many tool calls run at this moment, or wait for the barrier before them."""
        self.spent = spent.cost
        """In US dollars, by the run so far."""
        self.writing = asyncio.Lock()
        self._booked = set(spent.reports)
        self._write = write
        self._check = check
        self._noted: list[tuple[str | None, Fact]] = []  # in the order of time, each with its task
        self._unkept: set[str | None] = set()  # tasks that have noted something and have not ended
        self._lasting: set[str | None] = set()  # tasks that did what cannot be had again

    def note(self, event: Event) -> None:
        """Adds an event."""
        self._add(event, begins=event.type in BEGINNINGS)

    def book(self, entry: LedgerEntry) -> None:
        """Adds a cost, which counts once; what cost something is not to be repeated."""
        self._add(entry)
        if entry.place not in self._booked:
            self._booked.add(entry.place)
            self.spent += entry.cost
        self.keep()

    def record(self, step: StepRecord) -> None:
        """Adds how a step stands, in the place of how it stood before."""
        begins = step.status is StepStatus.RUNNING
        self._add(step, begins=begins)
        if not begins:
            self.keep()

    def settle(self, ask: Ask) -> None:
        """Adds a question that a channel decided at once."""
        self._add(ask)

    def keep(self) -> None:
        """Says that something has happened that a repetition would not bring about again."""
        self._lasting.add(self._held())

    def write_soon(self) -> None:
        """Has the next barrier write, also what could be had again."""
        self._lasting.add(None)

    def kept(self, task: str) -> None:
        """Says that the checkpoints have what a task wrote: what it noted may be written with it."""
        self._unkept.discard(task)

    def _add(self, fact: Fact, *, begins: bool = False) -> None:
        """A beginning waits only behind what the same task has brought about before it."""
        task = _task.get()
        if not begins:
            self._noted.append((self._held(), fact))
        else:
            self._noted.append((task if task in self._unkept else None, fact))

    def _held(self) -> str | None:
        """The task whose facts are held back from here on; None outside of tasks."""
        task = _task.get()
        if task is not None:
            self._unkept.add(task)
        return task

    async def barrier(self) -> None:
        """To be passed before every effect: writes what could not be had again, if there is any.

        It also waits for a write that is under way: until that is answered, the effect may rest on what will
        not be kept, or belong to a run that is lost.
        """
        await self._written()
        self._check()

    async def _written(self) -> None:
        if not self._must_write() and not self.writing.locked():
            return
        async with self.writing:
            if self._must_write():  # another call may have written while this one waited
                lasting = self._lasting - self._unkept
                self._lasting -= lasting  # what comes while this is written has to be written next
                try:
                    await self._write()
                except BaseException:
                    self._lasting |= lasting
                    raise

    def _must_write(self) -> bool:
        return not self._lasting <= self._unkept

    async def flush(self) -> None:
        """Writes at once, while calls are still running.

        What has just happened may not have reached the checkpoint yet, so the next barrier writes again.
        """
        async with self.writing:
            await self._write()

    def take(self) -> Facts:
        """Everything that may be written; what is held back stays."""
        noted = self._noted
        self._noted = [each for each in noted if each[0] in self._unkept]
        return _facts([fact for task, fact in noted if task not in self._unkept])

    def take_all(self) -> Facts:
        """Everything, at the end of the run: nothing will happen once more."""
        self._unkept.clear()
        return self.take()

    def put_back(self, facts: Facts) -> None:
        """Takes facts back that could not be written, before those that came since."""
        back = (*facts.events, *facts.ledger, *facts.steps, *facts.settled)
        self._noted[:0] = [(None, fact) for fact in back]


def _facts(noted: Sequence[Fact]) -> Facts:
    """The facts by their kinds; of a step, how it stands last."""
    steps = {fact.path: fact for fact in noted if isinstance(fact, StepRecord)}
    return Facts(
        events=tuple(fact for fact in noted if isinstance(fact, Event)),
        ledger=tuple(fact for fact in noted if isinstance(fact, LedgerEntry)),
        steps=tuple(steps.values()),
        settled=tuple(fact for fact in noted if isinstance(fact, Ask)),
    )
