"""Sends the notices that are due: each was written with what it tells of, and goes out afterwards."""

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from app.authoring import Notice
from app.channels.reply_token import Grant
from app.channels.webhook import Delivered, Failed, GaveUp, Told
from app.domain.audit import API, Actor
from app.domain.decision import Decision, Parsed
from app.domain.delivery import MAX_ATTEMPTS, DeliveryStatus, wait_before
from app.domain.ids import DeliveryId, PauseId
from app.domain.json import Json
from app.domain.principal import CHANNEL, Principal, Scope
from app.errors import Conflict, SignoffError
from app.lifecycle import read
from app.lifecycle.decide import DecideRequest, decide
from app.lifecycle.keys import earlier, note
from app.lifecycle.read import DeliveryNotFound
from app.lifecycle.site import Site
from app.storage import deliveries, reads
from app.storage.deliveries import PER_ADDRESS, DueDelivery
from app.storage.runs import Key
from app.watching import logs
from app.watching.traces import Span

log = logging.getLogger(__name__)

AT_ONCE = 256
"""How many notices one worker sends at the same time."""


class NotDead(Conflict):
    """Only a dead delivery can be tried again by hand."""

    code = "delivery_not_dead"


class Post:
    """This worker's notices under way."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._under_way: dict[asyncio.Task[None], DueDelivery] = {}
        self._has_more = False
        self._is_finishing = False

    async def send_due(self) -> int:
        """Begins to send what is due, as far as hands are free, and says how many it took."""
        free = AT_ONCE - len(self._under_way)
        if free <= 0 or self._is_finishing:
            return 0
        due = await deliveries.claim_due(
            self._site.database,
            worker=self._site.hands.worker,
            most=free,
            under_way=self._by_address(),
            served=self._site.catalog.told_here,
            lease_seconds=self._site.lease_seconds,
        )
        for delivery in due:
            self._begin(delivery)
        self._has_more = bool(due)
        return len(due)

    async def keep(self) -> None:
        """Keeps others from sending what is still under way here."""
        if self._under_way:
            await deliveries.keep(
                self._site.database,
                list(self._under_way.values()),
                worker=self._site.hands.worker,
                lease_seconds=self._site.lease_seconds,
            )

    async def finish(self, seconds: float) -> None:
        """Begins nothing more, and lets what is under way end; what does not is left to whoever comes to it."""
        self._is_finishing = True
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _begin(self, delivery: DueDelivery) -> None:
        task = asyncio.create_task(_deliver(self._site, delivery))
        self._under_way[task] = delivery

        def done(task: asyncio.Task[None]) -> None:
            was_full = self._by_address()[delivery.address] >= PER_ADDRESS
            del self._under_way[task]
            if self._has_more or was_full:
                self._site.deliveries_due.set()
            if not task.cancelled() and (error := task.exception()):
                log.error("delivery broke", exc_info=error, extra={"delivery_id": delivery.id})

        task.add_done_callback(done)

    def _by_address(self) -> Counter[str]:
        return Counter(each.address for each in self._under_way.values())


@dataclass(frozen=True, kw_only=True)
class Retried:
    """A delivery as it is after it was sent on its way again, now or before under the same key."""

    delivery: dict[str, Any]
    is_replay: bool = False


async def retry(
    site: Site, principal: Principal, delivery_id: DeliveryId, *, key: Key | None = None
) -> Retried:
    """Sends a dead delivery again, under its old id.

    Raises `DeliveryNotFound`, `NotDead` and `IdempotencyMismatch`.
    """
    if await earlier(site.database, principal.tenant, key):
        return Retried(delivery=await read.delivery(site, principal, delivery_id), is_replay=True)
    actor = Actor(by=principal.name, via=API, origin=principal.origin)
    if not await deliveries.retry(site.database, principal.tenant, delivery_id, actor):
        found = await reads.delivery(site.database, principal.tenant, delivery_id)
        if found is None:
            raise DeliveryNotFound("There is no such delivery.", delivery_id=delivery_id)
        raise NotDead(
            f"This delivery is {found['status']}: only a dead one can be sent again.",
            delivery_id=delivery_id,
        )
    site.deliveries_due.set()
    found = await read.delivery(site, principal, delivery_id)
    is_replay = await note(
        site.database, principal.tenant, key, thread_id=found["thread_id"], resource=delivery_id
    )
    return Retried(delivery=found, is_replay=is_replay)


async def _deliver(site: Site, delivery: DueDelivery) -> None:
    _belongs_to(delivery)
    with site.traces.delivery(
        delivery.trace,
        event_type=delivery.event_type,
        channel=_name_of(delivery),
        attempt=delivery.attempt,
        delivery_id=delivery.id,
        run_id=delivery.run.run_id,
    ) as span:
        await _try(site, delivery, span)


async def _try(site: Site, delivery: DueDelivery, span: Span) -> None:
    began = time.monotonic()
    told = await _tell(site, delivery)
    span.delivered(_OUTCOMES[type(told)], told.status)
    if isinstance(told, Delivered):
        site.metrics.delivered(delivery.channel, delivery.age + time.monotonic() - began)
    error = None
    if isinstance(told, Delivered) and told.decision is not None:
        error = await _decide_inline(site, delivery, told.decision)
    await _record(site, delivery, told, error)


def _belongs_to(delivery: DueDelivery) -> None:
    logs.belongs_to(
        delivery_id=delivery.id,
        run_id=delivery.run.run_id,
        thread_id=delivery.run.thread_id,
        pause_id=delivery.pause_id,
        workflow=delivery.workflow,
        channel=_name_of(delivery),
    )


def _name_of(delivery: DueDelivery) -> str:
    return delivery.channel or "callback"


async def _tell(site: Site, delivery: DueDelivery) -> Told:
    notice = Notice(
        id=delivery.id,
        type=delivery.event_type,
        timestamp=delivery.at,
        data=await _data(site, delivery),
    )
    if delivery.channel is None:
        return await site.notifier.call_back(cast("dict[str, Any]", delivery.callback), notice)
    channel = site.catalog.channel(delivery.workflow, delivery.channel)
    if channel is None:
        return Failed(reason=f"no channel {delivery.channel!r} is served here")
    return await site.notifier.tell(channel, notice)


async def _data(site: Site, delivery: DueDelivery) -> dict[str, Json]:
    """What a notice carries: the pause as it is now, its run, and its place among the thread's events."""
    principal = _addressee(delivery)
    run = await read.run(site, principal, delivery.run.thread_id, delivery.run.run_id)
    pause = next((each for each in run["pauses"] if each["id"] == delivery.pause_id), None)
    return {
        "event_sequence": delivery.event_sequence,
        "thread_id": run["thread_id"],
        "run_id": run["id"],
        "workflow": run["workflow"],
        "run_status": run["status"],
        "pause": pause,
        "run": None if pause else run,
        "reply": await _reply(site, delivery, pause),
    }


async def _reply(
    site: Site, delivery: DueDelivery, pause: dict[str, Any] | None
) -> dict[str, Json] | None:
    """How a channel that may decide does so by a request of its own."""
    if pause is None or delivery.channel is None or not pause["you_may_decide"]:
        return None
    grant = Grant(
        tenant=delivery.run.tenant, channel=delivery.channel, pause_id=PauseId(pause["id"])
    )
    token = await site.replies.token(site.database, grant)
    return {"url": pause["resume_url"], "token": token, "expires_at": pause["expires_at"]}


async def _decide_inline(
    site: Site, delivery: DueDelivery, decision: Json | Decision
) -> str | None:
    """Takes the decision that came with the answer; what is wrong with it stays on the delivery."""
    if delivery.pause_id is None or delivery.channel is None:
        return "an answer to this notice decides nothing"
    taken = decision
    if not isinstance(decision, dict):
        taken = Parsed(decision=cast("Decision", decision), by=None)
    request = DecideRequest(
        thread_id=delivery.run.thread_id, pause_id=delivery.pause_id, decision=taken, via="webhook"
    )
    try:
        await decide(site, _addressee(delivery), request)
    except SignoffError as error:
        return f"the decision in the answer was not taken: {error.code}"
    return None


def _addressee(delivery: DueDelivery) -> Principal:
    """Whom a notice is for: a channel decides in its own name, a run's callback only listens."""
    if delivery.channel is None:
        return Principal(tenant=delivery.run.tenant, scopes=frozenset(), credential="callback")
    name = f"{CHANNEL}{delivery.channel}"
    decides = frozenset({Scope.DECISIONS_WRITE})
    return Principal(
        tenant=delivery.run.tenant, name=name, scopes=decides, credential=f"delivery:{delivery.id}"
    )


async def _record(site: Site, delivery: DueDelivery, told: Told, error: str | None) -> None:
    http_status, wait = told.status, timedelta()
    match told:
        case Delivered():
            status = DeliveryStatus.DELIVERED
        case GaveUp():
            status, error = DeliveryStatus.DEAD, "the address wants no more notices"
        case Failed(reason=reason, retry_after=retry_after):
            error = reason
            is_last = delivery.attempt >= MAX_ATTEMPTS
            status = DeliveryStatus.DEAD if is_last else DeliveryStatus.PENDING
            wait = wait_before(delivery.attempt + 1, random.random(), retry_after)  # noqa: S311 - jitter
    await deliveries.record(
        site.database,
        delivery,
        worker=site.hands.worker,
        status=status,
        error=error,
        http_status=http_status,
        excerpt=told.excerpt or None,
        wait=wait,
    )
    site.metrics.attempted(delivery.channel, status)
    if error:
        log.warning(_SAID[status], extra={"attempt": delivery.attempt, "reason": error})


_OUTCOMES: dict[type[Told], str] = {Delivered: "delivered", Failed: "failed", GaveUp: "gave_up"}
_SAID = {
    DeliveryStatus.DELIVERED: "answer to a notice refused",
    DeliveryStatus.PENDING: "notice not taken, will be sent again",
    DeliveryStatus.DEAD: "notice dead",
}
