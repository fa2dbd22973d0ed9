"""The worker: loops over the use cases, watched, and stopped in named stages.

    serving ─► draining (nothing new is claimed; what runs may end) ─► stopped (the rest is given back)

Each loop is woken by what happens in this process or by a hint of another one, and looks by itself every
half second: a hint may be lost, what is written is the truth.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from app.errors import SignoffError
from app.lifecycle import claim
from app.lifecycle.advance import advance
from app.lifecycle.deliver import Post
from app.lifecycle.expire import expire_due
from app.lifecycle.forget import forget_old
from app.lifecycle.hands import Work
from app.lifecycle.read import why_not_ready
from app.lifecycle.remind import warn_due
from app.lifecycle.site import Site

log = logging.getLogger(__name__)

LOOK_EVERY = 0.5
"""Seconds between two looks at what is due."""

FORGET_EVERY = 600.0
"""Seconds between two looks at what is old."""

BREATHER = 0.1
"""Seconds between two statements that delete what is old, so that others have their turn."""


class Worker:
    """Advances runs, sends notices, reminds, closes what is overdue, and forgets, until it is told to drain."""

    def __init__(
        self, site: Site, *, drain_seconds: float, forgets_after: timedelta | None = None
    ) -> None:
        """`forgets_after` None: nothing is ever deleted by itself."""
        self._site = site
        self._post = Post(site)
        self._drain_seconds = drain_seconds
        self._forgets_after = forgets_after

    async def run(self, stopping: asyncio.Event) -> None:
        """Works until `stopping` is set, then drains. Loops that break are started again."""
        if not await self._is_ready(stopping):
            return
        self._site.hands.is_open = True
        loops = [
            asyncio.create_task(self._forever(loop), name=loop.__name__)
            for loop in (
                self._take_work,
                self._claim,
                self._renew,
                self._watch,
                self._recover,
                self._deliver,
                self._expire,
                self._warn,
                self._forget,
            )
        ]
        try:
            await stopping.wait()
            await self._drain()
        finally:
            self._site.hands.is_open = False
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _is_ready(self, stopping: asyncio.Event) -> bool:
        """Waits until there are tables to work on; False if it is told to stop first."""
        reason = await why_not_ready(self._site)
        if reason:
            log.error("worker waits", extra={"reason": reason, "to_do": "signoff migrate"})
        while reason and not stopping.is_set():
            await _pause(stopping)
            reason = await why_not_ready(self._site)
        return not stopping.is_set()

    async def _drain(self) -> None:
        """Lets runs reach their next pause or end within the grace time; gives back the rest."""
        self._site.hands.is_open = False
        log.info("draining", extra={"runs": len(self._site.hands.busy)})
        ends = asyncio.get_running_loop().time() + self._drain_seconds
        await self._site.hands.wait_until_idle(self._drain_seconds)
        tasks = list(self._site.hands.busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._post.finish(seconds=max(0.0, ends - asyncio.get_running_loop().time()))
        log.info("drained", extra={"given_back": len(tasks)})

    async def _forever(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeats a step; one that fails is counted, logged, and tried again after a moment."""
        loop = step.__name__.strip("_")
        while True:
            try:
                await step()
            except SignoffError as error:
                self._site.metrics.loop_broke(loop)
                log.warning("worker waits", extra={"loop": loop, "code": error.code})
                await asyncio.sleep(LOOK_EVERY)
            except Exception:
                self._site.metrics.loop_broke(loop)
                log.exception("worker loop broke", extra={"loop": loop})
                await asyncio.sleep(LOOK_EVERY)

    async def _take_work(self) -> None:
        async for work in self._site.hands.work():
            self._begin(work)

    def _begin(self, work: Work) -> None:
        run_id = work.lease.run.run_id
        task = asyncio.create_task(_advanced(self._site, work), name=f"advance {run_id}")
        self._site.hands.began(run_id, task)

    async def _claim(self) -> None:
        await self._site.hands.wait_for_free()
        if not await claim.claim_queued(self._site):
            await _pause(self._site.runs_due)
            self._site.runs_due.clear()

    async def _renew(self) -> None:
        await asyncio.sleep(self._site.lease_seconds / 3)
        await claim.renew(self._site)
        await self._post.keep()

    async def _watch(self) -> None:
        await asyncio.sleep(LOOK_EVERY)
        await claim.watch(self._site)

    async def _recover(self) -> None:
        await asyncio.sleep(1.0)
        await claim.recover_lost(self._site)

    async def _deliver(self) -> None:
        if not await self._post.send_due():
            await _pause(self._site.deliveries_due)
            self._site.deliveries_due.clear()

    async def _expire(self) -> None:
        if not await expire_due(self._site):
            await asyncio.sleep(LOOK_EVERY)

    async def _warn(self) -> None:
        if not await warn_due(self._site):
            await asyncio.sleep(LOOK_EVERY)

    async def _forget(self) -> None:
        after = self._forgets_after
        has_more = after is not None and await forget_old(self._site, after=after)
        await asyncio.sleep(BREATHER if has_more else FORGET_EVERY)


async def _advanced(site: Site, work: Work) -> None:
    """One run's task. What it could not answer for itself is logged here, and its lease lapses."""
    try:
        await advance(site, work)
    except Exception:
        log.exception("advance broke", extra={"run_id": work.lease.run.run_id})


async def _pause(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_EVERY):
            await event.wait()
