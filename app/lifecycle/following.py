"""Who follows a run, or everything of a tenant, from this process: woken by what happens, and looking anyway.

A follower keeps no connection and reads no further than it is read from, so one that waits, or is slow, costs
next to nothing. What is written by this process wakes it at once; what others have written is found by one
look for all followers together.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from app.domain.event import ENDS
from app.domain.ids import RunId, TenantId
from app.domain.run import RunRef
from app.storage import events
from app.storage.database import Database, StoreUnavailable
from app.storage.events import Place, Recorded

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks at what other processes have written."""

LOOK_AGAIN = 0.02
"""Seconds until a look again at what could not be read yet, since something older was still being written."""


LONGEST_LOOK_AGAIN = 0.5

POSITION_EVERY = 15.0
"""Seconds after which a follower of a tenant is told how far it has come although there was nothing for it."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """Everything of a tenant before this place has been seen."""

    place: Place


Heard: TypeAlias = Recorded | Position


@dataclass(kw_only=True, eq=False)
class _Follower:
    """Somebody who follows a run, or a tenant where there is no run, and what they have seen of it."""

    tenant: TenantId
    run: RunRef | None = None
    seen: int = 0
    upto: Place | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def topic(self) -> str:
        return _of_run(self.run.run_id) if self.run else _of_tenant(self.tenant)

    async def wait(self, seconds: float) -> None:
        """Returns when something happened, or when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()


class Followers:
    """Everybody who follows something from this process. While there is nobody, nothing is done for them."""

    def __init__(self, database: Database) -> None:
        self.is_closed = False
        self._database = database
        self._by_topic: defaultdict[str, set[_Follower]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    def happened(self, run: RunRef) -> None:
        """Wakes whoever follows a run, or its tenant, since something of it was written."""
        self.look_at(run.run_id)
        self._wake(_of_tenant(run.tenant))

    def look_at(self, run_id: RunId) -> None:
        """Wakes whoever follows a run."""
        self._wake(_of_run(run_id))

    def close(self) -> None:
        """Ends all following: the process takes leave."""
        self.is_closed = True
        for topic in self._by_topic:
            self._wake(topic)

    def __len__(self) -> int:
        return sum(len(each) for each in self._by_topic.values())

    async def of_run(
        self, run: RunRef, *, after: int, is_over: bool
    ) -> AsyncGenerator[Sequence[Heard]]:
        """What happens in a run, after the event of a number, until it ends or the process takes leave.

        `is_over` says that the run had ended when it was looked at.
        """
        with self._following(_Follower(tenant=run.tenant, run=run, seen=after)) as follower:
            while not self.is_closed:
                follower.woken.clear()
                read = await self._read_run(run, after)
                if read.events:
                    yield read.events
                    after = read.events[-1].sequence
                    is_over = is_over or any(each.type in ENDS for each in read.events)
                    follower.seen = max(follower.seen, after)
                if is_over and not read.has_more:
                    return
                if not read.has_more:
                    await follower.woken.wait()

    async def of_tenant(
        self, tenant: TenantId, *, after: Place, types: Sequence[str] | None
    ) -> AsyncGenerator[Sequence[Heard]]:
        """What happens in all runs of a tenant after a place, until the process takes leave.

        Says first where it begins.
        """
        clock = asyncio.get_running_loop().time
        yield [Position(place=after)]
        told = clock()
        with self._following(_Follower(tenant=tenant, upto=after)) as follower:
            again = LOOK_AGAIN
            while not self.is_closed:
                follower.woken.clear()
                read = await self._read_tenant(tenant, after, types)
                after = follower.upto = read.upto
                if read.events or clock() - told >= POSITION_EVERY:
                    yield read.events or [Position(place=read.upto)]
                    told = clock()
                again = min(again * 2, LONGEST_LOOK_AGAIN) if read.is_held_up else LOOK_AGAIN
                if not read.has_more:
                    await follower.wait(again if read.is_held_up else POSITION_EVERY)

    async def _read_run(self, run: RunRef, after: int) -> events.Read:
        while True:
            with suppress(StoreUnavailable):
                return await events.of_run(self._database, run, after=after)
            await asyncio.sleep(LOOK_EVERY)

    async def _read_tenant(
        self, tenant: TenantId, after: Place, types: Sequence[str] | None
    ) -> events.ReadOfTenant:
        while True:
            with suppress(StoreUnavailable):
                return await events.of_tenant(self._database, tenant, after=after, types=types)
            await asyncio.sleep(LOOK_EVERY)

    def _wake(self, topic: str) -> None:
        for follower in self._by_topic.get(topic, ()):
            follower.woken.set()

    @contextmanager
    def _following(self, follower: _Follower) -> Generator[_Follower]:
        self._by_topic[follower.topic].add(follower)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for followers")
        try:
            yield follower
        finally:
            self._by_topic[follower.topic].discard(follower)
            if not self._by_topic[follower.topic]:
                del self._by_topic[follower.topic]
            if not self._by_topic:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        """Looks for all of them at what was written anywhere, again and again."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            asleep = [
                each
                for followers in self._by_topic.values()
                for each in followers
                if not each.woken.is_set()
            ]
            try:
                await self._look_at_runs([each for each in asleep if each.run])
                await self._look_at_tenants([each for each in asleep if each.upto])
            except StoreUnavailable:
                log.debug("followers wait")
            except Exception:
                log.exception("looking for followers broke")

    async def _look_at_runs(self, followers: list[_Follower]) -> None:
        seen = [(each.run, each.seen) for each in followers if each.run]
        if not seen:
            return
        for index, last in (await events.moved(self._database, seen)).items():
            followers[index].seen = last
            followers[index].woken.set()

    async def _look_at_tenants(self, followers: list[_Follower]) -> None:
        if not followers:
            return
        places = [(each.tenant, each.upto) for each in followers if each.upto]
        for index in await events.moved_tenants(self._database, places):
            followers[index].woken.set()


def _of_run(run_id: RunId) -> str:
    return f"run {run_id}"


def _of_tenant(tenant: TenantId) -> str:
    return f"tenant {tenant}"
