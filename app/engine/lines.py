"""Drives a run's lines side by side: the workflow itself, and the branches it forks into.

A line runs until it asks, forks or ends. What it asks is told at once while others run; a decision wakes its
own line; a fork goes on when all its branches have ended. When nothing can go on without a decision, the run
waits.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from app.domain.json import Json
from app.domain.pause import Answer, Ask
from app.engine.drive import (
    Asked,
    BranchEnded,
    Cancelled,
    Ended,
    Failed,
    Forked,
    Held,
    LineOutcome,
    Outcome,
    Waiting,
)

KEEP_WITHIN = 0.5
"""Seconds after which the end of a branch is written where its siblings take longer."""

RunLine: TypeAlias = Callable[["LineNow"], Coroutine[Any, Any, LineOutcome]]


class Desk(Protocol):
    """Where questions are put and decisions come in, while a run is driven."""

    async def open(self, asks: Sequence[Ask]) -> None:
        """Commits questions, if any, with everything that is unwritten; the run goes on."""
        ...

    async def decided(self) -> Mapping[str, Answer]:
        """All answers by interrupt id, as soon as there are new ones."""
        ...


@dataclass(frozen=True, kw_only=True)
class LineNow:
    """A line that is to be run: what it begins with, and what it is resumed with, by interrupt id.

    `branches` are the places of the branches that it is in, itself last; none of the root.
    """

    line: str
    branches: tuple[str, ...]
    given: Mapping[str, Json]
    answers: Mapping[str, Answer]
    joined: Mapping[str, Json]


@dataclass(kw_only=True)
class _Fork:
    """A line that waits for its branches."""

    line: str
    interrupt_id: str
    names: Mapping[str, str]  # of the branches, by line
    ends: dict[str, BranchEnded] = field(default_factory=dict[str, BranchEnded])

    @property
    def is_over(self) -> bool:
        return len(self.ends) == len(self.names)

    def joined(self) -> Json:
        """What the line goes on with: outputs by name, in the order of the branches, and what was said."""
        ends = {name: self.ends[line] for line, name in self.names.items()}
        return {
            "value": {name: end.output for name, end in ends.items() if not end.left_out},
            "said": {place: each for end in ends.values() for place, each in end.said.items()},
            "secrets": {
                place: each for end in ends.values() for place, each in end.secrets.items()
            },
            "decided": any(end.decided for end in ends.values()),
            **_stop_reason(ends.values()),
        }


def _stop_reason(ends: Iterable[BranchEnded]) -> dict[str, Json]:
    """Why a branch stopped before it was done, if one did."""
    reasons = [end.stop_reason for end in ends if end.stop_reason is not None]
    return {"stop_reason": reasons[0]} if reasons else {}


class Lines:
    """The lines of one run during one advance."""

    def __init__(
        self, run_line: RunLine, desk: Desk, answers: Mapping[str, Answer], halt: asyncio.Event
    ) -> None:
        self._run_line = run_line
        self._desk = desk
        self._answers = answers
        self._halt = halt
        self._given: dict[str, Mapping[str, Json]] = {}
        self._branches: dict[str, tuple[str, ...]] = {}
        self._tasks: dict[asyncio.Task[LineOutcome], str] = {}
        self._ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
        self._asked: dict[str, str] = {}  # interrupt id by the line that waits for it
        self._forks: dict[str, _Fork] = {}  # by each of their branches
        self._unopened: list[Ask] = []
        self._is_unkept = False  # whether a branch has ended since the last questions were put

    async def drive(self, root: str, first: Forked) -> Outcome:
        """Goes on from the root's first fork until the run ends or waits."""
        news = asyncio.create_task(self._listen())
        news.add_done_callback(self._ended.put_nowait)
        try:
            self._forked(root, first)
            return await self._until_settled(root)
        finally:
            await _give_up([news, *self._tasks])

    async def _listen(self) -> None:
        while True:
            self._hear(await self._desk.decided())

    async def _until_settled(self, root: str) -> Outcome:
        while self._tasks:
            for task in await self._some_that_ended():
                outcome = task.result()  # what the listener raised, if it was that
                end = self._take(self._tasks.pop(task), outcome, root)
                if end is not None:
                    return await self._wound_down(end)
            await self._open()
        return Waiting(asks=tuple(self._unopened))

    async def _some_that_ended(self) -> list[asyncio.Task[Any]]:
        """All that have ended since the last time, also those that began only then; at least one."""
        ended = [await self._next_that_ends()]
        while not self._ended.empty():
            ended.append(self._ended.get_nowait())
        return ended

    async def _next_that_ends(self) -> asyncio.Task[Any]:
        """The next; before it, what branches have ended with is written where it takes longer."""
        if self._is_unkept:
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_WITHIN):
                    return await self._ended.get()
            await self._put(())
        return await self._ended.get()

    def _take(self, line: str, outcome: LineOutcome, root: str) -> Outcome | None:
        """Takes what became of a line; gives what ends the run, if it does."""
        match outcome:
            case Asked(ask=ask):
                self._ask(line, ask)
            case Held(interrupt_id=interrupt_id) if interrupt_id in self._answers:
                self._begin(line)  # it was decided while the line found that it was not
            case Held(interrupt_id=interrupt_id):
                self._asked[line] = interrupt_id
            case Forked():
                self._forked(line, outcome)
            case BranchEnded():
                self._branch_ended(line, outcome)
            case Ended() if line == root:
                return outcome
            case Failed() | Cancelled():
                return outcome
            case _:
                raise AssertionError(f"the line {line!r} ended in an odd way")
        return None

    def _ask(self, line: str, ask: Ask) -> None:
        self._asked[line] = ask.interrupt_id or ""
        self._unopened.append(ask)

    def _forked(self, line: str, outcome: Forked) -> None:
        fork = _Fork(line=line, interrupt_id=outcome.interrupt_id, names=outcome.branches)
        for branch in outcome.branches:
            self._forks[branch] = fork
            self._given[branch] = outcome.given
            self._branches[branch] = (*self._branches.get(line, ()), branch)
            self._begin(branch)

    def _branch_ended(self, line: str, outcome: BranchEnded) -> None:
        fork = self._forks[line]
        fork.ends[line] = outcome
        self._is_unkept = True
        if fork.is_over:
            self._begin(fork.line, joined={fork.interrupt_id: fork.joined()})

    def _hear(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        for line, interrupt_id in list(self._asked.items()):
            if interrupt_id in answers:
                self._begin(line)

    def _begin(self, line: str, joined: Mapping[str, Json] | None = None) -> None:
        self._asked.pop(line, None)
        now = LineNow(
            line=line,
            branches=self._branches.get(line, ()),
            given=self._given.get(line, {}),
            answers=self._answers,
            joined=joined or {},
        )
        task = asyncio.create_task(self._run_line(now))
        task.add_done_callback(self._ended.put_nowait)
        self._tasks[task] = line

    async def _open(self) -> None:
        """Puts what was asked, while others go on; the last questions wait for the run to be parked."""
        if self._tasks and self._unopened:
            asks, self._unopened = self._unopened, []
            await self._put(asks)

    async def _put(self, asks: Sequence[Ask]) -> None:
        self._is_unkept = False
        await self._desk.open(asks)

    async def _wound_down(self, end: Outcome) -> Outcome:
        """Lets calls in flight end; nothing new begins in any line."""
        self._halt.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return end


async def _give_up(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
