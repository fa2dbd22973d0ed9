"""What has happened in a line during this advance and is not yet written."""

import asyncio
from collections.abc import Awaitable, Callable

from app.domain.event import Event
from app.domain.facts import Facts
from app.domain.ledger import NOTHING_SPENT, LedgerEntry, Spent
from app.domain.pause import Ask
from app.domain.step import StepRecord, StepStatus


class Journal:
    """Gathers the facts of one line until `write` writes them, together with the line's checkpoint.

    `check` raises where nothing may have an effect any more. `write` takes the facts by `take`, and gives them back by `put_back` if it failed. It is never called
    twice at once. Facts that a repetition would bring about again may wait for the next statement that has
    to be; what cannot be had again (a model's answer, a tool's effect) is written before the next effect.
    """

    def __init__(
        self,
        write: Callable[[], Awaitable[None]],
        *,
        spent: Spent = NOTHING_SPENT,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.events: list[Event] = []
        self.ledger: list[LedgerEntry] = []
        self.steps: dict[str, StepRecord] = {}
        self.settled: list[Ask] = []
        self.in_flight = 0
        """How many tool calls run at this moment, or wait for the barrier before them."""
        self.spent = spent.cost
        """In US dollars, by the run so far."""
        self._booked = set(spent.reports)
        self._write = write
        self._check = check
        self.writing = asyncio.Lock()
        self._lasting = False

    def note(self, event: Event) -> None:
        """Adds an event."""
        self.events.append(event)

    def book(self, entry: LedgerEntry) -> None:
        """Adds a cost, which counts once; what cost something is not to be repeated."""
        self.ledger.append(entry)
        if entry.place not in self._booked:
            self._booked.add(entry.place)
            self.spent += entry.cost
        self.keep()

    def record(self, step: StepRecord) -> None:
        """Adds how a step stands, in the place of how it stood before."""
        self.steps[step.path] = step
        if step.status is not StepStatus.RUNNING:
            self.keep()

    def settle(self, ask: Ask) -> None:
        """Adds a question that a channel decided at once."""
        self.settled.append(ask)

    def keep(self) -> None:
        """Says that something has happened that a repetition would not bring about again."""
        self._lasting = True

    async def barrier(self) -> None:
        """To be passed before every effect: writes what could not be had again, if there is any.

        It also waits for a write that is under way: until that is answered, the effect may rest on what will
        not be kept, or belong to a run that is lost.
        """
        await self._written()
        self._check()

    async def _written(self) -> None:
        if not self._lasting and not self.writing.locked():
            return
        async with self.writing:
            if self._lasting:  # another call may have written while this one waited
                self._lasting = False  # what comes while this is written has to be written next
                try:
                    await self._write()
                except BaseException:
                    self._lasting = True
                    raise

    async def flush(self) -> None:
        """Writes at once, while calls are still running.

        What has just happened may not have reached the checkpoint yet, so the next barrier writes again.
        """
        async with self.writing:
            await self._write()

    def take(self) -> Facts:
        """Everything that is not written; the journal is empty afterwards."""
        facts = Facts(
            events=tuple(self.events),
            ledger=tuple(self.ledger),
            steps=tuple(self.steps.values()),
            settled=tuple(self.settled),
        )
        self.events, self.ledger, self.steps, self.settled = [], [], {}, []
        return facts

    def put_back(self, facts: Facts) -> None:
        """Takes facts back that could not be written, before those that came since."""
        self.events[:0] = facts.events
        self.ledger[:0] = facts.ledger
        self.settled[:0] = facts.settled
        self.steps = {step.path: step for step in facts.steps} | self.steps
