"""Keeps this worker's leases: takes queued runs, renews, notices what it has lost, queues what others lost."""

import asyncio
import logging
import time

from app.domain.ids import RunId
from app.lifecycle.hands import Work
from app.lifecycle.site import READY, Site
from app.storage import runs
from app.storage.runs import Held

log = logging.getLogger(__name__)


async def claim_queued(site: Site) -> bool:
    """Takes one queued run of a workflow that is served here, if there is one and a slot for it."""
    with site.hands.slot() as slot:
        if slot is None:
            return False
        claimed = await runs.claim(
            site.database,
            fingerprints=site.catalog.fingerprints,
            worker=slot.worker,
            lease_seconds=site.lease_seconds,
            most=1,
        )
        for each in claimed:
            site.metrics.claimed(each.waited)
            slot.use(
                Work(
                    lease=each.lease,
                    fingerprint=each.fingerprint,
                    workflow=each.workflow,
                    trace=each.trace,
                    from_queue=True,
                )
            )
            site.happened(each.lease.run)
        return bool(claimed)


async def renew(site: Site) -> None:
    """Renews the leases of all runs that are advanced here; a run whose lease is gone is let go."""
    if busy := site.hands.busy:
        since = time.monotonic()
        held = await runs.renew(
            site.database,
            worker=site.hands.worker,
            advancing=list(busy),
            lease_seconds=site.lease_seconds,
        )
        for each in held:
            if each.run.run_id in busy:
                site.hands.holds(each.run.run_id, since)
        _let_go(site, busy, held)


async def watch(site: Site) -> None:
    """Notices soon when a run that is advanced here was decided upon, cancelled or taken over."""
    if busy := site.hands.busy:
        held = await runs.held(site.database, worker=site.hands.worker)
        _let_go(site, busy, held)
        for each in held:
            if each.decisions != site.hands.known_decisions.get(each.run.run_id, each.decisions):
                site.hands.tell(each.run.run_id)


async def recover_lost(site: Site) -> None:
    """Queues the runs whose lease has ended, wherever their workers are."""
    lost = await runs.requeue_lost(site.database)
    if lost:
        site.metrics.leases_ended(len(lost))
        log.warning("leases ended", extra={"run_ids": lost})
        site.runs_due.set()
        site.tell_others(READY)


def _let_go(site: Site, busy: dict[RunId, asyncio.Task[None]], held: list[Held]) -> None:
    """Stops the tasks, of those that ran when the leases were looked at, whose run is not held any more."""
    still = {each.run.run_id for each in held}
    for run_id, task in busy.items():
        if run_id not in still and not task.done() and not task.cancelling():
            site.metrics.lease_lost()
            log.warning("run let go", extra={"run_id": run_id})
            task.cancel()
