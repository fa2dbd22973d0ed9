"""Who follows a run, or everything of a tenant, from this process: woken by what happens, and looking anyway.

A follower keeps no connection and reads no further than it is read from, so one that waits, or is slow, costs
next to nothing. What is written by this process wakes it at once; what others have written is found by one
look for all followers together, and sooner where they pass it on. What models are writing is heard and
forgotten.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from app.domain.event import ENDS
from app.domain.ids import RunId, TenantId
from app.domain.run import RunRef
from app.engine.audience import Audience, Delta
from app.lifecycle import relay
from app.lifecycle.relay import Relay
from app.storage import events
from app.storage.database import Database, StoreUnavailable
from app.storage.events import Place, Recorded

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks at what other processes have written."""

LOOK_AGAIN = 0.02
"""Seconds until a look again at what could not be read yet, since something older was still being written."""

LONGEST_LOOK_AGAIN = 0.5

MOST_HEARD = 16_000
"""Characters of what models are writing that are kept for a follower who is slow; older ones are dropped."""

EXPECT_FOR = 5.0
"""Seconds for which a follower is waited for who was announced; what is heard until then is kept for them."""

POSITION_EVERY = 15.0
"""Seconds after which a follower of a tenant is told how far it has come although there was nothing for it."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """Everything of a tenant before this place has been seen."""

    place: Place


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A piece of what a model of the run is writing."""

    run: RunRef
    delta: Delta


Heard: TypeAlias = Recorded | Position | Writing


@dataclass(kw_only=True, eq=False)
class _Follower:
    """Somebody who follows a run, or a tenant where there is no run, and what they have seen of it.

    `news` are pieces of text, and None where there is something to read, in the order of their coming.
    """

    tenant: TenantId
    run: RunRef | None = None
    seen: int = 0
    upto: Place | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    news: deque[Delta | None] = field(default_factory=lambda: deque[Delta | None]([None]))

    @property
    def topic(self) -> str:
        return _of_run(self.run.run_id) if self.run else _of_tenant(self.tenant)

    @property
    def knows(self) -> bool:
        """Whether it is known that there is something to read."""
        return None in self.news

    def look(self) -> None:
        """There is something to read."""
        if not self.news or self.news[-1] is not None:
            self.news.append(None)
        self.woken.set()

    def hear(self, delta: Delta) -> None:
        """A model has written something."""
        last = self.news[-1] if self.news else None
        if last and (joined := relay.joined_with(last, delta)):
            self.news[-1] = joined
        else:
            self.news.append(delta)
        self._forget_oldest()
        self.woken.set()

    def _forget_oldest(self) -> None:
        heard = [each for each in self.news if each]
        while sum(len(each.text) for each in heard) > MOST_HEARD:
            self.news.remove(heard.pop(0))

    def take(self) -> tuple[list[Delta], bool]:
        """What was heard first, and whether there is something to read after it."""
        heard: list[Delta] = []
        while self.news:
            first = self.news.popleft()
            if first is None:
                return heard, True
            heard.append(first)
        return heard, False

    async def wait(self, seconds: float | None = None) -> None:
        """Returns when there is news, or when the time is up."""
        if self.news:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.woken.wait()


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """A follower of a run who is about to come, and what models wrote meanwhile. `until` is monotonic."""

    until: float
    heard: list[Delta] = field(default_factory=list[Delta])


@dataclass(frozen=True, kw_only=True)
class _Audience:
    """Those who follow a run, here and in other processes, listen to its models."""

    followers: "Followers"
    run: RunRef

    @property
    def listens(self) -> bool:
        return self.followers.has(_of_run(self.run.run_id))

    def hear(self, delta: Delta) -> None:
        self.followers.hear(self.run.run_id, delta)


class Followers:
    """Everybody who follows something from this process. While there is nobody, nothing is done for them."""

    def __init__(self, database: Database, tell_others: Callable[[str], None]) -> None:
        self.is_closed = False
        self._database = database
        self._relay = Relay(tell_others)
        self._by_topic: defaultdict[str, set[_Follower]] = defaultdict(set)
        self._expected: dict[str, _Expected] = {}
        self._looking: asyncio.Task[None] | None = None

    def happened(self, run: RunRef) -> None:
        """Wakes whoever follows a run, or its tenant, since something of it was written."""
        for topic in (_of_run(run.run_id), _of_tenant(run.tenant)):
            self._wake(topic)
            self._relay.happened(topic, run.run_id)

    def look_at(self, run_id: RunId) -> None:
        """Wakes whoever follows a run here."""
        self._wake(_of_run(run_id))

    def audience(self, run: RunRef) -> Audience:
        """Who listens to the models of a run that is advanced here."""
        return _Audience(followers=self, run=run)

    def expect(self, run_id: RunId) -> None:
        """Somebody is about to follow a run: its models are listened to from now on."""
        now = time.monotonic()
        self._expected = {topic: each for topic, each in self._expected.items() if each.until > now}
        self._expected[_of_run(run_id)] = _Expected(until=now + EXPECT_FOR)

    def has(self, topic: str) -> bool:
        """Whether anybody follows it, here or elsewhere, or is about to."""
        if topic in self._by_topic or self._relay.is_wanted(topic):
            return True
        return topic in self._expected and self._expected[topic].until > time.monotonic()

    def hear(self, run_id: RunId, delta: Delta) -> None:
        """Passes on what a model of a run has written."""
        topic = _of_run(run_id)
        self._hear(topic, delta)
        if self._relay.is_wanted(topic):
            self._relay.writes(run_id, delta)

    def heard(self, kind: str, hint: str) -> None:
        """What another process passes on."""
        if (said := self._relay.of_others(hint)) is None:
            return
        match kind:
            case relay.FOLLOWED:
                self._relay.followed(said)
            case relay.HAPPENED:
                self._wake(said)
            case relay.WRITING:
                run_id, delta = relay.read(said)
                self._hear(_of_run(run_id), delta)
            case _:
                pass  # of a newer release

    def close(self) -> None:
        """Ends all following: the process takes leave."""
        self.is_closed = True
        for followers in self._by_topic.values():
            for follower in followers:
                follower.woken.set()

    def __len__(self) -> int:
        return sum(len(each) for each in self._by_topic.values())

    async def of_run(
        self, run: RunRef, *, after: int, is_over: bool
    ) -> AsyncGenerator[Sequence[Heard]]:
        """What happens in a run, after the event of a number, until it ends or the process takes leave.

        `is_over` says that the run had ended when it was looked at.
        """
        with self._following(_Follower(tenant=run.tenant, run=run, seen=after)) as follower:
            while self._goes_on(follower):
                pieces, looks = follower.take()
                if pieces:
                    yield [Writing(run=run, delta=each) for each in pieces]
                if looks:
                    read = await self._read_run(run, after)
                    if read.events:
                        yield read.events
                        after = read.events[-1].sequence
                        is_over = is_over or any(each.type in ENDS for each in read.events)
                        follower.seen = max(follower.seen, after)
                    if read.has_more:
                        follower.news.appendleft(None)
                    elif is_over:
                        return
                await follower.wait()

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
            while self._goes_on(follower):
                follower.take()
                read = await self._read_tenant(tenant, after, types)
                after = follower.upto = read.upto
                if read.events or clock() - told >= POSITION_EVERY:
                    yield read.events or [Position(place=read.upto)]
                    told = clock()
                again = min(again * 2, LONGEST_LOOK_AGAIN) if read.is_held_up else LOOK_AGAIN
                if not read.has_more:
                    await follower.wait(again if read.is_held_up else POSITION_EVERY)

    def _goes_on(self, follower: _Follower) -> bool:
        follower.woken.clear()
        return not self.is_closed

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
            follower.look()

    def _hear(self, topic: str, delta: Delta) -> None:
        followers = self._by_topic.get(topic, ())
        for follower in followers:
            follower.hear(delta)
        if not followers and topic in self._expected and self.has(topic):
            self._expected[topic].heard.append(delta)

    @contextmanager
    def _following(self, follower: _Follower) -> Generator[_Follower]:
        topic = follower.topic
        if expected := self._expected.pop(topic, None):
            for delta in expected.heard:
                follower.hear(delta)
        self._by_topic[topic].add(follower)
        self._relay.follow([topic])
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for followers")
        try:
            yield follower
        finally:
            self._by_topic[topic].discard(follower)
            if not self._by_topic[topic]:
                del self._by_topic[topic]
            if not self._by_topic:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        """Looks for all of them at what was written anywhere, again and again."""
        clock = asyncio.get_running_loop().time
        said = clock()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if clock() - said >= relay.ASK_EVERY:
                self._relay.follow(self._by_topic)
                said = clock()
            try:
                await self._look_for(self._unaware())
            except StoreUnavailable:
                log.debug("followers wait")
            except Exception:
                log.exception("looking for followers broke")

    def _unaware(self) -> list[_Follower]:
        return [
            follower
            for followers in self._by_topic.values()
            for follower in followers
            if not follower.knows
        ]

    async def _look_for(self, followers: Iterable[_Follower]) -> None:
        await self._look_at_runs([each for each in followers if each.run])
        await self._look_at_tenants([each for each in followers if each.upto])

    async def _look_at_runs(self, followers: list[_Follower]) -> None:
        seen = [(each.run, each.seen) for each in followers if each.run]
        if not seen:
            return
        for index, last in (await events.moved(self._database, seen)).items():
            followers[index].seen = last
            followers[index].look()

    async def _look_at_tenants(self, followers: list[_Follower]) -> None:
        if not followers:
            return
        places = [(each.tenant, each.upto) for each in followers if each.upto]
        for index in await events.moved_tenants(self._database, places):
            followers[index].look()


def _of_run(run_id: RunId) -> str:
    return f"run {run_id}"


def _of_tenant(tenant: TenantId) -> str:
    return f"tenant {tenant}"
