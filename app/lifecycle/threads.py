"""Makes and deletes threads."""

from dataclasses import dataclass
from typing import Any, Final

from app.domain.audit import API, Actor
from app.domain.ids import ThreadId, new_thread_id
from app.domain.json import Json
from app.domain.principal import Principal
from app.domain.run import RunStatus
from app.errors import Conflict, FieldError, Invalid
from app.lifecycle import read
from app.lifecycle.keys import earlier
from app.lifecycle.site import Site
from app.lifecycle.start import ThreadBusy, ThreadNotFound, ThreadPaused, open_pauses
from app.storage import threads
from app.storage.idempotency import KeyRow
from app.storage.runs import Key, KeyTaken
from app.storage.threads import Deleted

MAX_METADATA_BYTES: Final = 1024 * 1024
"""What a thread's metadata may grow to by what is added: as much as one request usually brings."""


class ThreadExists(Conflict):
    """A thread of that id was made before."""

    code = "thread_exists"


@dataclass(frozen=True, kw_only=True)
class ThreadRequest:
    """What a caller asks for. Without an `id` the thread gets a new one."""

    id: ThreadId | None = None
    workflow: str | None = None
    metadata: dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A thread as callers see it, made now or before under the same key."""

    thread: dict[str, Any]
    is_replay: bool = False


async def create(
    site: Site, principal: Principal, request: ThreadRequest, *, key: Key | None
) -> Made:
    """Makes a thread. Raises `UnknownWorkflow`, `ThreadExists` and `IdempotencyMismatch`."""
    if row := await earlier(site.database, principal.tenant, key):
        return await _replay(site, principal, row)
    if request.workflow is not None:
        site.catalog.named(request.workflow)
    thread_id = request.id or new_thread_id()
    try:
        made = await threads.create(
            site.database,
            principal.tenant,
            thread_id,
            workflow=request.workflow,
            metadata=request.metadata,
            key=key,
        )
    except KeyTaken:
        made = None
    if made is None:
        if row := await earlier(site.database, principal.tenant, key):
            return await _replay(site, principal, row)
        raise ThreadExists(f"There is a thread {thread_id!r} already.", thread_id=thread_id)
    return Made(thread=read.thread_view(made))


async def _replay(site: Site, principal: Principal, row: KeyRow) -> Made:
    thread = await read.thread(site, principal, ThreadId(row.resource or ""))
    return Made(thread=read.thread_view(thread), is_replay=True)


async def add_metadata(
    site: Site, principal: Principal, thread_id: ThreadId, metadata: dict[str, Json]
) -> None:
    """Adds to the metadata of a thread, in the place of what has the same keys.

    Raises `ThreadNotFound`; `Invalid` where it would become larger than `MAX_METADATA_BYTES`.
    """
    kept = await threads.add_metadata(
        site.database, principal.tenant, thread_id, metadata, most_bytes=MAX_METADATA_BYTES
    )
    if kept is None:
        raise ThreadNotFound(f"There is no thread {thread_id!r}.", thread_id=thread_id)
    if not kept:
        wrong = f"with what is there it has more than {MAX_METADATA_BYTES} bytes"
        raise Invalid(
            "The metadata was not added to.",
            fields=[FieldError(pointer="/metadata", message=wrong)],
        )


async def delete(site: Site, principal: Principal, thread_id: ThreadId) -> None:
    """Deletes a thread with all its runs; its audit stays. Raises `ThreadNotFound`, `ThreadBusy`, `ThreadPaused`."""
    actor = Actor(by=principal.name, via=API, origin=principal.origin)
    match await threads.delete(site.database, principal.tenant, thread_id, actor):
        case Deleted.DONE:
            return
        case Deleted.UNKNOWN:
            raise ThreadNotFound(f"There is no thread {thread_id!r}.", thread_id=thread_id)
        case Deleted.UNFINISHED:
            raise await _unfinished(site, principal, thread_id)


async def _unfinished(site: Site, principal: Principal, thread_id: ThreadId) -> Conflict:
    thread = await read.thread(site, principal, thread_id)
    if thread.active_run_id and thread.active_status == RunStatus.PAUSED:
        return ThreadPaused(
            "A run of this thread waits for a decision: decide or cancel it before the thread is deleted.",
            run_id=thread.active_run_id,
            pause_ids=await open_pauses(site, principal.tenant, thread.active_run_id),
        )
    return ThreadBusy(
        "A run of this thread is still going on: wait for it or cancel it before the thread is deleted.",
        run_id=thread.active_run_id,
    )
