"""Ends a run from outside, whatever it is doing."""

from app.domain.audit import API, Actor
from app.domain.ids import RunId, ThreadId
from app.domain.principal import Principal
from app.domain.run import ENDED, RunRef
from app.errors import NotFound
from app.lifecycle.keys import earlier, note
from app.lifecycle.site import Site, settled_hint
from app.lifecycle.start import Accepted
from app.storage import reads, runs
from app.storage.runs import Key


class RunNotFound(NotFound):
    """There is no such run in that thread."""


async def cancel(
    site: Site, principal: Principal, thread_id: ThreadId, run_id: RunId, *, key: Key | None = None
) -> Accepted:
    """Cancels a run; one that has ended is left as it is. Raises `RunNotFound`, `IdempotencyMismatch`.

    A worker that has the run finds its right to write gone, and stops.
    """
    run = RunRef(tenant=principal.tenant, thread_id=thread_id, run_id=run_id)
    if await earlier(site.database, principal.tenant, key):
        return Accepted(run=run, is_replay=True)
    view = await reads.run(site.database, run.tenant, thread_id, run_id)
    if view is None:
        raise RunNotFound("There is no such run in this thread.", run_id=run_id)
    if view["status"] not in ENDED:
        told = sorted(site.catalog.channels_to_tell(view["workflow"]))
        actor = Actor(by=principal.name, via=API, origin=principal.origin)
        async with site.database.transaction() as store:
            await runs.cancel(store, run, actor, reason="cancelled by a caller", told=told)
        site.hands.stop(run_id)
        site.waiters.wake(run_id)
        site.happened(run)
        site.deliveries_due.set()
        site.tell_others(settled_hint(run_id))
    is_replay = await note(
        site.database, principal.tenant, key, thread_id=thread_id, resource=run_id
    )
    return Accepted(run=run, is_replay=is_replay)
