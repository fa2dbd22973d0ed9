"""Threads: make, look up, delete. What a run does to its thread's row is in `runs`, `progress` and `pauses`."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import asyncpg

from app.domain.audit import Actor, AuditAction, GoneThread
from app.domain.ids import RunId, TenantId, ThreadId
from app.domain.json import Json
from app.storage import audit
from app.storage.database import Database, Row, Store
from app.storage.runs import Key, KeyTaken

_CREATE = """
with made as (
  insert into threads (id, tenant, workflow, metadata) values ($1, $2, $3, $4)
  on conflict do nothing
  returning id, tenant, workflow, metadata, created_at, active_run_id, active_status
), key as (
  insert into idempotency_keys (tenant, key, request, thread_id, resource)
  select $2, $5, $6, $1, $1 from made where $5::text is not null
)
select * from made
"""

_READ = """
select id, tenant, workflow, metadata, created_at, active_run_id, active_status from threads
where id = $1 and tenant = $2
"""

_ADD_METADATA = """
with merged as materialized (
  select id, tenant, (metadata::jsonb || $3::json::jsonb)::json as metadata
  from threads where id = $1 and tenant = $2 for update
), kept as (
  update threads t set metadata = m.metadata from merged m
  where t.id = m.id and t.tenant = m.tenant and octet_length(m.metadata::text) <= $4 returning t.id
)
select exists (select from kept) as is_kept from merged
"""

_RUNS = "(select id from runs where thread_id = $1 and tenant = $2)"
_DELETE = (
    *(
        f"delete from {table} where thread_id = $1 and run_id in {_RUNS}"
        for table in (
            "ledger",
            "steps",
            "step_results",
            "checkpoint_writes",
            "checkpoints",
            "pauses",
        )
    ),
    "delete from delivery_attempts where thread_id = $1 and delivery_id in "
    "(select id from deliveries where thread_id = $1 and tenant = $2)",
    *(
        f"delete from {table} where thread_id = $1 and tenant = $2"
        for table in ("deliveries", "events", "history", "runs")
    ),
    "delete from threads where id = $1 and tenant = $2",
)


@dataclass(frozen=True, kw_only=True)
class ThreadRow:
    """A thread, and the unfinished run it has, if any."""

    id: ThreadId
    workflow: str | None
    metadata: dict[str, Any]
    created_at: str
    active_run_id: RunId | None
    active_status: str | None


class Deleted(Enum):
    """What became of a deletion."""

    DONE = "done"
    UNKNOWN = "unknown"
    UNFINISHED = "unfinished"


async def create(
    database: Store,
    tenant: TenantId,
    thread_id: ThreadId,
    *,
    workflow: str | None,
    metadata: Json,
    key: Key | None,
) -> ThreadRow | None:
    """Makes a thread; None if the id is taken. Raises `KeyTaken` if the key was used before."""
    try:
        row = await database.fetch_row(
            _CREATE, thread_id, tenant, workflow, metadata, key and key.key, key and key.request
        )
    except asyncpg.UniqueViolationError as error:
        raise KeyTaken from error
    return _thread(row) if row else None


async def read(database: Database, tenant: TenantId, thread_id: ThreadId) -> ThreadRow | None:
    row = await database.fetch_row(_READ, thread_id, tenant)
    return _thread(row) if row else None


async def add_metadata(
    database: Database, tenant: TenantId, thread_id: ThreadId, metadata: Json, *, most_bytes: int
) -> bool | None:
    """Adds to the metadata of a thread, in the place of what has the same keys; None if there is no such thread.

    False where it would have more bytes than it may: then it stays as it is.
    """
    row = await database.fetch_row(_ADD_METADATA, thread_id, tenant, metadata, most_bytes)
    return None if row is None else bool(row["is_kept"])


async def delete(
    database: Database, tenant: TenantId, thread_id: ThreadId, actor: Actor
) -> Deleted:
    """Deletes a thread and everything of its runs but their audit, unless one of them is unfinished.

    Where its audit ends is written to the chain of the tenant: it can still be told whether that is whole.
    """
    async with database.transaction() as connection:
        seat = await connection.fetch_row(
            "select active_run_id, created_at, audit_sequence, encode(audit_head, 'hex') as audit_head "
            "from threads where id = $1 and tenant = $2 for update",
            thread_id,
            tenant,
        )
        if seat is None:
            return Deleted.UNKNOWN
        if seat["active_run_id"] is not None:
            return Deleted.UNFINISHED
        for statement in _DELETE:
            await connection.fetch(statement, thread_id, tenant)
        gone = GoneThread(
            thread_id=thread_id,
            thread_created_at=seat["created_at"],
            sequence=seat["audit_sequence"],
            hash=seat["audit_head"],
        )
        await audit.note(connection, tenant, AuditAction.THREAD_DELETED, actor, gone.as_json())
    return Deleted.DONE


def _thread(row: Row) -> ThreadRow:
    return ThreadRow(
        id=ThreadId(row["id"]),
        workflow=row["workflow"],
        metadata=row["metadata"],
        created_at=row["created_at"].isoformat(),
        active_run_id=row["active_run_id"],
        active_status=row["active_status"],
    )
