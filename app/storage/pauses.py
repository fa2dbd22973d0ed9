"""Pauses: read one for a decision, decide it or vote on it, refuse a decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from app.domain.audit import Actor, data_text
from app.domain.ids import PauseId, RunId, TenantId, ThreadId, new_delivery_id
from app.domain.json import Json
from app.domain.pause import Ask, PauseStatus, Settled
from app.domain.principal import Origin
from app.domain.run import Lease, RunRef
from app.storage.audit import ONE_SEEN, one_entry
from app.storage.database import Database, Row
from app.storage.deliveries import address
from app.storage.runs import Key, KeyTaken
from app.storage.sealing import Vault
from app.watching.traces import Carrier


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
    age: float
    """Seconds since it was opened, when it was read."""
    votes: list[dict[str, Any]]
    workflow: str
    fingerprint: str
    requested_by: str | None
    has_callback: bool
    trace: Carrier | None

    @classmethod
    def opened(
        cls,
        pause_id: PauseId,
        run: RunRef,
        ask: Ask,
        *,
        workflow: str,
        fingerprint: str,
        requested_by: str | None,
        has_callback: bool,
        trace: Carrier | None,
    ) -> "PauseRow":
        """The row of an ask without a deadline, as reading it a moment after it was opened would give it."""
        return cls(
            id=pause_id,
            run=run,
            kind=ask.kind,
            level=ask.level,
            status=PauseStatus.OPEN,
            shown=ask.shown,
            secret=ask.secret,
            policy=ask.policy.as_json(),
            digest=ask.digest,
            expires_at=None,
            is_late=False,
            age=0.0,
            votes=[],
            workflow=workflow,
            fingerprint=fingerprint,
            requested_by=requested_by,
            has_callback=has_callback,
            trace=trace,
        )


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision that was taken. `lease` where the run was claimed with it.

    It has not settled the pause where it was a vote and others have to agree.
    """

    run: RunRef
    has_settled: bool
    lease: Lease | None
    is_running: bool
    decisions: int
    """Of the thread, with this one."""


IS_LATE = "coalesce(p.expires_at <= clock_timestamp() and p.policy->>'on_expire' <> 'wait', false)"
"""Whether the deadline of a pause has passed, and its ask says what happens then."""

READ = f"""
select p.id, p.tenant, p.thread_id, p.run_id, p.kind, p.level, p.status, p.shown, p.secret, p.policy, p.digest,
       p.expires_at, {IS_LATE} as is_late, extract(epoch from clock_timestamp() - p.opened_at)::float8 as age,
       p.votes::json as votes, p.workflow, r.fingerprint, r.requested_by, r.callback is not null as has_callback, r.trace
from pauses p join runs r on r.thread_id = p.thread_id and r.id = p.run_id
"""
"""Pauses, for `pause_of`."""

_CLOSED = """status = case when $9 then 'expired' else 'decided' end, decision = $4, answer = $5,
      digest = coalesce($6, p.digest), closed_at = clock_timestamp()"""

# A rejection is enough by itself. The update works on the row as it is once the lock was waited for, so it
# counts every vote that was taken before, whatever the statement could see when it began.
_IS_ENOUGH = """not ($4::json->>'approved')::bool
                       or jsonb_array_length(p.votes) + 1 >= (p.policy->>'quorum')::int"""
_VOTED = f"""votes = p.votes || jsonb_build_object(
        'by', $7::text, 'approved', ($4::json->>'approved')::bool, 'feedback', $4::json->>'feedback',
        'sent_by', $4::json->>'sent_by', 'at', clock_timestamp()),
      status = case when {_IS_ENOUGH} then 'decided' else p.status end,
      decision = case when {_IS_ENOUGH} then $4::json end,
      answer = case when {_IS_ENOUGH} then $5::json end,
      digest = case when {_IS_ENOUGH} then coalesce($6, p.digest) else p.digest end,
      closed_at = case when {_IS_ENOUGH} then clock_timestamp() end"""
_FIRST_VOTE = "and not p.votes @> jsonb_build_array(jsonb_build_object('by', $7::text))"


_DECISION_SEEN = one_entry(
    "pause, lk",
    run_id="pause.run_id",
    pause_id="pause.id",
    action="case when $9 then 'expired' when pause.settles then 'decided' else 'voted' end",
    by="$7::text",
    via="$8::text",
    credential="$15::text",
    client="$16::text",
    request_id="$17::text",
    digest="$18::text",
    data="$19::text::json",
)


# Locks the thread, then changes the pause if it is still open: the row count decides every race. $9 says
# whether this is the deadline's own doing, which must come after the deadline, as everything else before it.
# A paused run becomes ready in the same statement, and is claimed at once where a slot is free ($10).
def _deciding(changed: str, only: str = "") -> str:
    return f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), pause as (
  update pauses p
  set {changed}
  from lk
  where p.thread_id = lk.id and p.tenant = lk.tenant and p.id = $3 and p.run_id = lk.active_run_id
    and p.status = 'open' and $9 = {IS_LATE} {only}
  returning p.run_id, p.id, p.channel, p.escalated_to, p.status <> 'open' as settles,
            p.status <> 'open' and lk.active_status = 'paused' as wakes
), {_DECISION_SEEN}, seat as (
  update threads t
  set decisions = t.decisions + pause.settles::int,
      active_status = case when not pause.wakes then t.active_status
                           when $10::text is null then 'queued' else 'running' end,
      ready_at = case when pause.wakes and $10::text is null then clock_timestamp() else t.ready_at end,
      fence = t.fence + case when pause.wakes and $10::text is not null then 1 else 0 end,
      lease_owner = case when pause.wakes then $10 else t.lease_owner end,
      lease_until = case when pause.wakes and $10::text is not null
                         then clock_timestamp() + make_interval(secs => $11::float8)
                         else t.lease_until end,
      {ONE_SEEN},
      event_sequence = t.event_sequence + pause.settles::int + pause.wakes::int
  from pause, lk, linked where t.id = lk.id and t.tenant = lk.tenant
  returning t.active_run_id, t.active_status, t.fence, t.decisions
), run as (
  update runs r set status = seat.active_status
  from seat, pause where r.thread_id = $1 and r.id = seat.active_run_id and pause.wakes
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, lk.event_sequence + 1, pause.run_id,
         case when $9 then 'pause.expired' else 'pause.decided' end,
         json_build_object('pause_id', pause.id, 'decision', $4::json)
  from pause, lk where pause.settles
  union all
  select $1, $2, lk.event_sequence + 2, seat.active_run_id, 'run.' || replace(seat.active_status, 'running',
         'started'), '{{}}'
  from seat, pause, lk where pause.wakes
), notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, address,
                          status, next_attempt_at)
  select $1, d.id, $2, pause.run_id, pause.id, case when $9 then 'pause.expired' else 'pause.decided' end,
         lk.event_sequence + 1, d.channel, {address("pause.run_id")}, 'pending', clock_timestamp()
  from pause, lk, json_to_recordset($12::json) as d(id text, channel text)
  where pause.settles and (d.channel is null or d.channel in (pause.channel, pause.escalated_to))
), key as (
  insert into idempotency_keys (tenant, key, request, thread_id, resource)
  select $2, $13, $14, $1, pause.run_id from pause where $13::text is not null
)
select seat.active_run_id, seat.active_status, seat.fence, seat.decisions, pause.settles, pause.wakes
from seat, pause
"""


_DECIDE = _deciding(_CLOSED)
_VOTE = _deciding(_VOTED, _FIRST_VOTE)

_REFUSED_SEEN = one_entry(
    "lk",
    run_id="$3::text",
    pause_id="$4::text",
    action="'refused'::text",
    by="$5::text",
    via="$6::text",
    credential="$7::text",
    client="$8::text",
    request_id="$9::text",
    digest="$10::text",
    data="$11::text::json",
)
_REFUSE = f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), {_REFUSED_SEEN}
update threads t set {ONE_SEEN} from linked where t.id = linked.thread_id and t.tenant = linked.tenant
"""


async def read(
    database: Database, tenant: TenantId, thread_id: ThreadId, pause_id: PauseId
) -> PauseRow | None:
    """One pause of a thread, as a decision needs it."""
    row = await database.fetch_row(
        READ + "where p.thread_id = $1 and p.id = $2 and p.tenant = $3",
        thread_id,
        pause_id,
        tenant,
    )
    return pause_of(row, database.vault) if row else None


async def exists(database: Database, tenant: TenantId, pause_id: PauseId) -> bool:
    """Whether there is such a pause."""
    query = "select from pauses p where p.id = $1 and p.tenant = $2"
    return bool(await database.fetch(query, pause_id, tenant))


async def find(database: Database, tenant: TenantId, pause_id: PauseId) -> PauseRow | None:
    """One pause, whatever its thread."""
    row = await database.fetch_row(READ + "where p.id = $1 and p.tenant = $2", pause_id, tenant)
    return pause_of(row, database.vault) if row else None


async def decide(
    database: Database,
    pause: PauseRow,
    settled: Settled,
    *,
    expired: bool,
    as_vote: bool,
    channels: Sequence[str | None],
    worker: str | None,
    lease_seconds: float,
    key: Key | None,
    origin: Origin,
) -> Decided | None:
    """Closes the pause with an answer and makes its run ready; None if it could not be closed so any more.

    `as_vote` keeps it open where it is an approval and the quorum wants more of them; None also where the
    same one has voted before. `channels` are told of the end, those of them that were asked (None is the
    run's callback). `worker` claims the run where it was paused.
    Raises `KeyTaken` if the idempotency key was used before.
    """
    notices = [{"id": new_delivery_id(), "channel": channel} for channel in channels]
    by, via, *whence = Actor(by=settled.answer.by, via=settled.answer.via, origin=origin).columns
    try:
        row = await database.fetch_row(
            _VOTE if as_vote else _DECIDE,
            pause.run.thread_id,
            pause.run.tenant,
            pause.id,
            settled.shown,
            database.vault.seal(
                settled.answer.as_json(), "pauses.answer", pause.run.run_id, pause.id
            ),
            settled.answer.digest,
            by,
            via,
            expired,
            worker,
            lease_seconds,
            notices,
            key and key.key,
            key and key.request,
            *whence,
            pause.digest,
            data_text({"decision": settled.shown, "effective_digest": settled.answer.digest}),
        )
    except asyncpg.UniqueViolationError as error:
        raise KeyTaken from error
    return _decided(row, pause.run, worker) if row else None


def _decided(row: Row, run: RunRef, worker: str | None) -> Decided:
    lease = Lease(run=run, worker=worker, fence=row["fence"]) if worker and row["wakes"] else None
    return Decided(
        run=run,
        has_settled=row["settles"],
        lease=lease,
        is_running=row["active_status"] == "running",
        decisions=row["decisions"],
    )


async def refuse(database: Database, pause: PauseRow, actor: Actor, *, code: str) -> None:
    """Records an attempt at a decision that was not taken."""
    await database.fetch(
        _REFUSE,
        pause.run.thread_id,
        pause.run.tenant,
        pause.run.run_id,
        pause.id,
        *actor.columns,
        pause.digest,
        data_text({"code": code}),
    )


def pause_of(row: Row, vault: Vault) -> PauseRow:
    """A row of `READ`."""
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
        secret=vault.open(row["secret"], "pauses.secret", row["run_id"], row["id"]),
        policy=row["policy"],
        digest=row["digest"],
        expires_at=row["expires_at"],
        is_late=row["is_late"],
        age=row["age"],
        votes=row["votes"],
        workflow=row["workflow"],
        fingerprint=row["fingerprint"],
        requested_by=row["requested_by"],
        has_callback=row["has_callback"],
        trace=row["trace"],
    )
