"""Pauses: read one for a decision, decide it, refuse a decision, list the due ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from app.domain.ids import PauseId, RunId, TenantId, ThreadId, new_delivery_id
from app.domain.json import Json
from app.domain.pause import Settled
from app.domain.run import Lease, RunRef
from app.storage.database import Database, Row
from app.storage.runs import Key, KeyTaken


@dataclass(frozen=True, kw_only=True)
class PauseRow:
    """One pause with the true values its decision is checked against."""

    id: PauseId
    run: RunRef
    kind: str
    level: str
    status: str
    shown: dict[str, Any]
    secret: Json
    policy: dict[str, Any]
    digest: str | None
    expires_at: datetime | None
    is_late: bool
    workflow: str
    fingerprint: str
    requested_by: str | None
    has_callback: bool


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision that was taken. `lease` where the run was claimed with it."""

    run: RunRef
    lease: Lease | None
    is_running: bool


_READ = """
select p.id, p.tenant, p.thread_id, p.run_id, p.kind, p.level, p.status, p.shown, p.secret, p.policy, p.digest,
       p.expires_at, coalesce(p.expires_at <= clock_timestamp() and p.policy->>'on_expire' <> 'wait', false)
       as is_late, p.workflow, r.fingerprint,
       r.requested_by, r.callback is not null as has_callback
from pauses p join runs r on r.thread_id = p.thread_id and r.id = p.run_id
"""

# Locks the thread, then closes the pause if it is still open: the row count decides every race. $9 says
# whether this is the deadline's own doing, which must come after the deadline, as everything else before it.
# A paused run becomes ready in the same statement, and is claimed at once where a slot is free ($10).
_DECIDE = """
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), pause as (
  update pauses p
  set status = case when $9 then 'expired' else 'decided' end, decision = $4, answer = $5,
      digest = coalesce($6, p.digest), closed_at = clock_timestamp()
  from lk
  where p.thread_id = lk.id and p.tenant = lk.tenant and p.id = $3 and p.run_id = lk.active_run_id
    and p.status = 'open'
    and $9 = coalesce(p.expires_at <= clock_timestamp() and p.policy->>'on_expire' <> 'wait', false)
  returning p.run_id, p.id
), seat as (
  update threads t
  set decisions = t.decisions + 1,
      active_status = case when t.active_status <> 'paused' then t.active_status
                           when $10::text is null then 'queued' else 'running' end,
      ready_at = case when t.active_status = 'paused' and $10::text is null then clock_timestamp()
                      else t.ready_at end,
      fence = t.fence + case when t.active_status = 'paused' and $10::text is not null then 1 else 0 end,
      lease_owner = case when t.active_status = 'paused' then $10 else t.lease_owner end,
      lease_until = case when t.active_status = 'paused' and $10::text is not null
                         then clock_timestamp() + make_interval(secs => $11::float8)
                         else t.lease_until end,
      audit_sequence = t.audit_sequence + 1,
      event_sequence = t.event_sequence + case when t.active_status = 'paused' then 2 else 1 end
  from pause, lk where t.id = lk.id and t.tenant = lk.tenant
  returning t.active_run_id, t.active_status, t.fence, t.lease_owner
), run as (
  update runs r set status = seat.active_status
  from seat, lk where r.thread_id = $1 and r.id = seat.active_run_id and lk.active_status = 'paused'
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, lk.event_sequence + 1, pause.run_id,
         case when $9 then 'pause.expired' else 'pause.decided' end,
         json_build_object('pause_id', pause.id, 'decision', $4::json)
  from pause, lk
  union all
  select $1, $2, lk.event_sequence + 2, seat.active_run_id, 'run.' || replace(seat.active_status, 'running',
         'started'), '{}'
  from seat, lk where lk.active_status = 'paused'
), notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, status,
                          next_attempt_at)
  select $1, d.id, $2, pause.run_id, pause.id, case when $9 then 'pause.expired' else 'pause.decided' end,
         lk.event_sequence + 1, d.channel, 'pending', clock_timestamp()
  from pause, lk, json_to_recordset($12::json) as d(id text, channel text)
), watched as (
  insert into audit (thread_id, tenant, sequence, run_id, pause_id, action, by, via, data)
  select $1, $2, lk.audit_sequence + 1, pause.run_id, pause.id,
         case when $9 then 'expired' else 'decided' end, $7, $8,
         json_build_object('decision', $4::json, 'digest', $6::text)
  from pause, lk
), key as (
  insert into idempotency_keys (tenant, key, request, thread_id, resource)
  select $2, $13, $14, $1, pause.run_id from pause where $13::text is not null
)
select seat.active_run_id, seat.active_status, seat.fence, lk.active_status as status_before from seat, lk
"""

_REFUSE = """
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), seat as (
  update threads t set audit_sequence = t.audit_sequence + 1 from lk where t.id = lk.id and t.tenant = lk.tenant
)
insert into audit (thread_id, tenant, sequence, run_id, pause_id, action, by, via, data)
select lk.id, lk.tenant, lk.audit_sequence + 1, $3, $4, 'refused', $5, $6, json_build_object('code', $7::text)
from lk
"""

_DUE = (
    _READ
    + """
where p.status = 'open' and p.expires_at <= clock_timestamp() and p.policy->>'on_expire' <> 'wait'
  and r.fingerprint = any($1::text[])
order by p.expires_at limit $2
"""
)


async def read(
    database: Database, tenant: TenantId, thread_id: ThreadId, pause_id: PauseId
) -> PauseRow | None:
    """One pause of a thread, as a decision needs it."""
    row = await database.fetch_row(
        _READ + "where p.thread_id = $1 and p.id = $2 and p.tenant = $3",
        thread_id,
        pause_id,
        tenant,
    )
    return _pause(row) if row else None


async def decide(
    database: Database,
    pause: PauseRow,
    settled: Settled,
    *,
    expired: bool,
    channels: Sequence[str | None],
    worker: str | None,
    lease_seconds: float,
    key: Key | None,
) -> Decided | None:
    """Closes the pause with an answer and makes its run ready; None if it could not be closed so any more.

    `channels` are told of it (None is the run's callback). `worker` claims the run where it was paused.
    Raises `KeyTaken` if the idempotency key was used before.
    """
    notices = [{"id": new_delivery_id(), "channel": channel} for channel in channels]
    try:
        row = await database.fetch_row(
            _DECIDE,
            pause.run.thread_id,
            pause.run.tenant,
            pause.id,
            settled.shown,
            settled.answer.as_json(),
            settled.answer.digest,
            settled.answer.by,
            settled.answer.via,
            expired,
            worker,
            lease_seconds,
            notices,
            key and key.key,
            key and key.request,
        )
    except asyncpg.UniqueViolationError as error:
        raise KeyTaken from error
    return _decided(row, pause.run, worker) if row else None


def _decided(row: Row, run: RunRef, worker: str | None) -> Decided:
    was_claimed = worker is not None and row["status_before"] == "paused"
    lease = Lease(run=run, worker=worker, fence=row["fence"]) if worker and was_claimed else None
    return Decided(run=run, lease=lease, is_running=row["active_status"] == "running")


async def refuse(
    database: Database, pause: PauseRow, *, by: str | None, via: str, code: str
) -> None:
    """Records an attempt at a decision that was not taken."""
    await database.fetch(
        _REFUSE, pause.run.thread_id, pause.run.tenant, pause.run.run_id, pause.id, by, via, code
    )


async def due(database: Database, *, fingerprints: Sequence[str], most: int) -> list[PauseRow]:
    """Open pauses whose deadline has passed and whose ask says what happens then, oldest first.

    Only those of the workflows that are served here: nobody else's can be closed.
    """
    return [_pause(row) for row in await database.fetch(_DUE, list(fingerprints), most)]


def _pause(row: Row) -> PauseRow:
    return PauseRow(
        id=PauseId(row["id"]),
        run=RunRef(
            tenant=TenantId(row["tenant"]),
            thread_id=ThreadId(row["thread_id"]),
            run_id=RunId(row["run_id"]),
        ),
        kind=row["kind"],
        level=row["level"],
        status=row["status"],
        shown=row["shown"],
        secret=row["secret"],
        policy=row["policy"],
        digest=row["digest"],
        expires_at=row["expires_at"],
        is_late=row["is_late"],
        workflow=row["workflow"],
        fingerprint=row["fingerprint"],
        requested_by=row["requested_by"],
        has_callback=row["has_callback"],
    )
