"""Starts a run: one statement that writes it, queued, or leased to this process where it has a slot free."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from app.domain.audit import API, Actor
from app.domain.ids import PauseId, RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.pause import PauseStatus
from app.domain.principal import NOBODY, Origin, Principal
from app.domain.run import RunRef, RunStatus
from app.engine.program import CheckedInput, Program
from app.errors import Conflict, NotFound
from app.lifecycle.callback import host_of
from app.lifecycle.hands import Work
from app.lifecycle.keys import earlier
from app.lifecycle.site import READY, Site
from app.storage import reads, runs, threads
from app.storage.database import Store
from app.storage.runs import Key, KeyTaken, Loaded, NewRun, Started


class ThreadNotFound(NotFound):
    """There is no such thread."""


class ThreadBusy(Conflict):
    """A run of the thread is still going on."""

    code = "thread_busy"


class ThreadPaused(Conflict):
    """A run of the thread waits for a decision."""

    code = "thread_paused"


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """What a caller asks for. `creates` makes an unknown thread, `supersedes` ends a paused run first."""

    thread_id: ThreadId
    workflow: str
    input: Json
    metadata: dict[str, Json]
    callback: Json = None
    creates: bool = False
    supersedes: bool = False
    requested_by: str | None = None
    origin: Origin = NOBODY


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A request that was taken, or was taken before under the same key."""

    run: RunRef
    is_replay: bool = False


async def start(
    site: Site, principal: Principal, request: StartRequest, *, run_id: RunId, key: Key | None
) -> Accepted:
    """Starts a run as `run_id`, or finds the one that the same key started before.

    Raises `UnknownWorkflow`, `InvalidInput`, `ThreadNotFound`, `ThreadBusy`, `ThreadPaused` and
    `IdempotencyMismatch`.
    """
    if row := await earlier(site.database, principal.tenant, key):
        return _replay(principal.tenant, row.thread_id, row.resource)
    program = site.catalog.named(request.workflow)
    checked = program.check_input(request.input)
    run = RunRef(tenant=principal.tenant, thread_id=request.thread_id, run_id=run_id)
    try:
        return await _start(site, program, checked, request, run, key)
    except (KeyTaken, Conflict):
        # The same request may have come twice at once: then the other one is what made the thread busy.
        if row := await earlier(site.database, principal.tenant, key):
            return _replay(principal.tenant, row.thread_id, row.resource)
        raise


async def _start(
    site: Site,
    program: Program,
    checked: CheckedInput,
    request: StartRequest,
    run: RunRef,
    key: Key | None,
) -> Accepted:
    new = NewRun(
        run=run,
        workflow=program.name,
        version=program.version,
        fingerprint=program.fingerprint,
        input=checked.true,
        shown_input=checked.shown,
        metadata=request.metadata,
        callback=request.callback,
        requested_by=request.requested_by,
        history=program.workflow.history,
        callback_host=host_of(request.callback),
        trace=site.traces.carried(),
    )
    with site.hands.slot() as slot:
        worker = slot and slot.worker
        started = await _write(site, new, worker, key, request)
        site.metrics.run_started(program.name)
        if slot and started.lease:
            loaded = Loaded(
                input=new.input,
                metadata=request.metadata,
                requested_by=new.requested_by,
                has_callback=new.callback is not None,
                history=started.history,
            )
            slot.use(
                Work(
                    lease=started.lease,
                    fingerprint=program.fingerprint,
                    workflow=program.name,
                    loaded=loaded,
                    trace=new.trace,
                )
            )
        else:
            site.tell_others(READY)
    site.happened(run)
    return Accepted(run=run)


async def _write(
    site: Site, new: NewRun, worker: str | None, key: Key | None, request: StartRequest
) -> Started:
    """Writes the run, and why not if it cannot be."""

    async def write(store: Store) -> Started | None:
        return await runs.start(
            store, new, worker=worker, lease_seconds=site.lease_seconds, key=key
        )

    started = await write(site.database)
    if request.creates:
        while started is None and await _made(site, new.run):
            started = await write(site.database)  # unless it was deleted again meanwhile
    if started is None and request.supersedes:
        actor = Actor(by=request.requested_by, via=API, origin=request.origin)
        started = await _supersede(site, new.run, actor, write)
    if started is None:
        raise await _not_free(site, new.run)
    return started


async def _made(site: Site, run: RunRef) -> bool:
    """Makes the run's thread; False if it is there."""
    made = await threads.create(
        site.database, run.tenant, run.thread_id, workflow=None, metadata={}, key=None
    )
    return made is not None


async def _supersede(
    site: Site, run: RunRef, actor: Actor, write: Callable[[Store], Awaitable[Started | None]]
) -> Started | None:
    """Ends the paused run of the thread and writes the new one, both or neither."""
    thread = await threads.read(site.database, run.tenant, run.thread_id)
    if thread is None or thread.active_run_id is None or thread.active_status != RunStatus.PAUSED:
        return None
    paused = replace(run, run_id=thread.active_run_id)
    view = await reads.run(site.database, run.tenant, run.thread_id, paused.run_id)
    told = site.catalog.channels_to_tell(view["workflow"]) if view else frozenset[str]()
    async with site.database.transaction() as both:
        await runs.supersede(both, paused, actor, told=sorted(told))
        started = await write(both)
    site.waiters.wake(paused.run_id)
    site.happened(paused)
    site.deliveries_due.set()
    return started


async def _not_free(site: Site, run: RunRef) -> NotFound | Conflict:
    thread = await threads.read(site.database, run.tenant, run.thread_id)
    if thread is None:
        return ThreadNotFound(
            f'There is no thread {run.thread_id!r}; if_not_exists: "create" makes one.',
            thread_id=run.thread_id,
        )
    if thread.active_status == RunStatus.PAUSED and thread.active_run_id:
        return ThreadPaused(
            "A run of this thread waits for a decision: decide it, cancel it, or start with "
            'if_paused: "supersede".',
            run_id=thread.active_run_id,
            pause_ids=await open_pauses(site, run.tenant, thread.active_run_id),
        )
    return ThreadBusy(
        "A run of this thread is still going on: wait for it, or cancel it.",
        run_id=thread.active_run_id,
    )


async def open_pauses(site: Site, tenant: TenantId, run_id: RunId) -> list[PauseId]:
    """The ids of the pauses that a run waits at."""
    listed = await reads.list_pauses(
        site.database,
        tenant,
        {"run_id": run_id, "status": PauseStatus.OPEN},
        reads.Page(limit=100),
    )
    return [PauseId(pause["id"]) for pause in listed.items]


def _replay(tenant: TenantId, thread_id: str | None, run_id: str | None) -> Accepted:
    run = RunRef(tenant=tenant, thread_id=ThreadId(thread_id or ""), run_id=RunId(run_id or ""))
    return Accepted(run=run, is_replay=True)
