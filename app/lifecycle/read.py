"""What callers, approvers and operators see."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.ids import DeliveryId, PauseId, RunId, ThreadId
from app.domain.json import Json
from app.domain.pause import PauseStatus
from app.domain.principal import Principal
from app.domain.run import ENDED, SETTLED, WAITING_FOR_ANSWER, WAITING_FOR_APPROVAL, RunRef
from app.domain.step import status_in_ended_run
from app.errors import NotFound
from app.lifecycle.cancel import (
    RunNotFound as RunNotFound,
)  # for whoever names a run in another way
from app.lifecycle.decide import PauseNotFound
from app.lifecycle.deciders import may_decide
from app.lifecycle.site import Site
from app.lifecycle.start import ThreadNotFound
from app.lifecycle.waiting import LOOK_AGAIN
from app.storage import encryption, migrate, reads, threads
from app.storage.database import StoreUnavailable
from app.storage.reads import Listed, Page
from app.storage.reads import Position as Position  # for whoever makes a `Page`
from app.storage.reads import ThreadFilter as ThreadFilter
from app.storage.threads import ThreadRow


class DeliveryNotFound(NotFound):
    """There is no such delivery."""


View = dict[str, Any]


async def run(site: Site, principal: Principal, thread_id: ThreadId, run_id: RunId) -> View:
    """One run as it is now. Raises `RunNotFound`."""
    view = await reads.run(site.database, principal.tenant, thread_id, run_id)
    if view is None:
        raise RunNotFound("There is no such run in this thread.", run_id=run_id)
    return run_view(view, site, principal)


async def settled_run(
    site: Site, principal: Principal, ref: RunRef, woken: asyncio.Event, *, seconds: float
) -> View:
    """One run, once it is paused or ended, or as it is when the time is up.

    `woken` was registered before whatever is waited for could happen.
    """
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    if site.hands.has(ref.run_id):
        await _wait(woken, min(seconds, LOOK_AGAIN))
    while True:
        woken.clear()
        view = await run(site, principal, ref.thread_id, ref.run_id)
        left = ends - clock()
        if view["status"] in SETTLED or left <= 0:
            return view
        await _wait(woken, min(left, LOOK_AGAIN))


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return


async def thread(site: Site, principal: Principal, thread_id: ThreadId) -> ThreadRow:
    """One thread. Raises `ThreadNotFound`."""
    row = await threads.read(site.database, principal.tenant, thread_id)
    if row is None:
        raise ThreadNotFound(f"There is no thread {thread_id!r}.", thread_id=thread_id)
    return row


def thread_view(row: ThreadRow) -> View:
    """A thread as callers see it, with the unfinished run it has, if any."""
    is_active = row.active_run_id is not None
    return {
        "id": row.id,
        "workflow": row.workflow,
        "metadata": row.metadata,
        "active_run": {"id": row.active_run_id, "status": row.active_status} if is_active else None,
        "created_at": row.created_at,
    }


async def list_threads(site: Site, principal: Principal, page: Page) -> Listed:
    """Threads, newest first."""
    listed = await reads.list_threads(site.database, principal.tenant, page)
    return Listed(items=[thread_view(ThreadRow(**item)) for item in listed.items], next=listed.next)


async def find_threads(site: Site, principal: Principal, wanted: ThreadFilter) -> list[View]:
    """Threads that are looked for, each with its newest `run`, or None."""
    found = await reads.find_threads(site.database, principal.tenant, wanted)
    return [_with_run(each, site, principal) for each in found]


def _with_run(found: View, site: Site, principal: Principal) -> View:
    run = found.pop("run")
    shown = thread_view(ThreadRow(**found))
    return {**shown, "run": run and run_view(run, site, principal)}


async def count_threads(
    site: Site,
    principal: Principal,
    *,
    metadata: Mapping[str, Json],
    last: Sequence[str | None] | None,
) -> int:
    """How many threads have some metadata, and one of some statuses of their newest run."""
    return await reads.count_threads(site.database, principal.tenant, metadata=metadata, last=last)


async def thread_and_run(site: Site, principal: Principal, thread_id: ThreadId) -> View:
    """One thread with its newest `run`, or None. Raises `ThreadNotFound`."""
    found = await find_threads(site, principal, ThreadFilter(limit=1, ids=[thread_id]))
    if not found:
        raise ThreadNotFound(f"There is no thread {thread_id!r}.", thread_id=thread_id)
    return found[0]


async def list_runs(
    site: Site,
    principal: Principal,
    thread_id: ThreadId,
    page: Page,
    *,
    statuses: Sequence[str] | None = None,
    offset: int = 0,
) -> Listed:
    """The runs of a thread, newest first; those of some statuses, after the first few, where it is said.

    Raises `ThreadNotFound`.
    """
    await thread(site, principal, thread_id)
    listed = await reads.list_runs(
        site.database, principal.tenant, thread_id, page, statuses=statuses, offset=offset
    )
    return Listed(
        items=[run_view(item, site, principal) for item in listed.items], next=listed.next
    )


async def pause(site: Site, principal: Principal, pause_id: PauseId) -> View:
    """One pause. Raises `PauseNotFound`."""
    view = await reads.pause(site.database, principal.tenant, pause_id)
    if view is None:
        raise PauseNotFound("There is no such pause.", pause_id=pause_id)
    return pause_view(view, site, principal)


async def list_pauses(
    site: Site, principal: Principal, filters: Mapping[str, str], page: Page
) -> Listed:
    """Pauses over all runs, the longest waiting first."""
    listed = await reads.list_pauses(site.database, principal.tenant, filters, page)
    return Listed(
        items=[pause_view(item, site, principal) for item in listed.items], next=listed.next
    )


async def delivery(site: Site, principal: Principal, delivery_id: DeliveryId) -> View:
    """One delivery with its attempts. Raises `DeliveryNotFound`."""
    view = await reads.delivery(site.database, principal.tenant, delivery_id)
    if view is None:
        raise DeliveryNotFound("There is no such delivery.", delivery_id=delivery_id)
    return view


async def list_deliveries(
    site: Site, principal: Principal, filters: Mapping[str, str], page: Page
) -> Listed:
    """Deliveries over all runs, newest first."""
    return await reads.list_deliveries(site.database, principal.tenant, filters, page)


def workflows(site: Site) -> list[View]:
    """The workflows that are served here, without their parts."""
    return [
        {"name": each.name, "version": each.version, "fingerprint": each.fingerprint}
        for each in site.catalog.latest
    ]


def workflow(site: Site, name: str) -> View:
    """Everything that may be known of a workflow. Raises `UnknownWorkflow`."""
    return site.catalog.named(name).workflow.description()


async def why_not_ready(site: Site) -> str | None:
    """Why this process can take no requests, or None if it can."""
    try:
        if not await migrate.is_current(site.database):
            return "migrations are missing"
        missing = await encryption.missing_keys(site.database)
    except StoreUnavailable:
        return "Postgres cannot be reached"
    return f"the encryption key {', '.join(missing)} is missing" if missing else None


def run_view(row: View, site: Site, principal: Principal) -> View:
    """A run as callers see it."""
    shown = [pause_view(each, site, principal) for each in row["pauses"]]
    first_open = next((each for each in shown if each["status"] == PauseStatus.OPEN), None)
    return {
        "id": row["id"],
        "thread_id": row["thread_id"],
        "workflow": {"name": row["workflow"], "version": row["version"]},
        "status": row["status"],
        "input": row["input"],
        "output": row["output"],
        "error": row["error"],
        "stop_reason": row["stop_reason"] or (first_open and _waiting_for(first_open)),
        "pause": first_open,
        "pauses": shown,
        "steps": _steps_view(row),
        "usage": row["usage"],
        "metadata": row["metadata"],
        "requested_by": row["requested_by"],
        "created_at": row["created_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
    }


def _steps_view(row: View) -> list[View]:
    """The steps as they went; none is running in a run that has ended."""
    if row["status"] not in ENDED:
        return row["steps"]
    error: View = row["error"] or {}
    failed_at = error.get("step")
    return [
        {**step, "status": status_in_ended_run(step["status"], step["path"], failed_at)}
        for step in row["steps"]
    ]


def _waiting_for(pause: View) -> str:
    return WAITING_FOR_APPROVAL if "verdict" in pause["allowed"] else WAITING_FOR_ANSWER


def pause_view(row: View, site: Site, principal: Principal) -> View:
    """A pause as approvers see it: enough to show it and to answer it."""
    shown, policy, decision = row["shown"], row["policy"], row["decision"]
    return {
        "id": row["id"],
        "thread_id": row["thread_id"],
        "run_id": row["run_id"],
        "workflow": row["workflow"],
        "sequence": row["sequence"],
        "status": row["status"],
        "level": row["level"],
        "kind": row["kind"],
        **{name: shown.get(name) for name in _SHOWN},
        "response_schema": _taken_from(principal, shown["response_schema"]),
        "channel": row["channel"],
        "policy": {name: policy[name] for name in ("approvers", "quorum", "allow_requester")},
        "votes": row["votes"],
        "requested_by": row["requested_by"],
        "metadata": row["metadata"],
        "you_may_decide": may_decide(site, principal, row),
        "resume_url": f"{site.base_url}/threads/{row['thread_id']}/resume",
        "opened_at": row["opened_at"],
        "expires_at": row["expires_at"],
        "escalated_to": row["escalated_to"],
        "digest": row["digest"],
        "decision": decision and {**decision, "decided_at": row["closed_at"]},
    }


def _taken_from(principal: Principal, schema: View) -> View:
    """The schema of a decision; whom the service does not know has to say who decides."""
    if principal.name is not None:
        return schema
    return {**schema, "required": [*schema.get("required", ()), "by"]}


_SHOWN = (
    "step",
    "agent",
    "call",
    "position",
    "message",
    "options",
    "choices",
    "output",
    "error",
    "branch",
    "allowed",
)
