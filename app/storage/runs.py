"""Runs: start, claim, keep, give back, cancel, load."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import asyncpg

from app.domain.audit import Actor, data_text
from app.domain.ids import CallId, RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.ledger import NOTHING_SPENT, Spent
from app.domain.message import Message
from app.domain.pause import Answer
from app.domain.run import Lease, RunRef
from app.storage.audit import ONE_SEEN, one_entry
from app.storage.checkpoints import CheckpointRow, WriteRow, load_columns
from app.storage.database import Database, Row, Store, Transaction
from app.storage.deliveries import address
from app.storage.sealing import Vault
from app.watching.traces import Carrier


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run as it is asked for. `history` is how many completed runs of the thread it wants to know."""

    run: RunRef
    workflow: str
    version: str
    fingerprint: str
    input: Json
    shown_input: Json
    metadata: Json
    callback: Json
    requested_by: str | None
    history: int
    callback_host: str | None = None
    trace: Carrier | None = None


@dataclass(frozen=True, kw_only=True)
class Key:
    """An idempotency key, and the digest of the request it came with."""

    key: str
    request: str


@dataclass(frozen=True, kw_only=True)
class Started:
    """What became of a start. `lease` where the run was claimed as it was written."""

    lease: Lease | None
    history: dict[str, list[Message]]


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A run that was taken from the queue."""

    lease: Lease
    fingerprint: str
    workflow: str
    waited: float
    """Seconds in the queue."""
    trace: Carrier | None


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a worker hears about a run it holds, each time it renews its leases."""

    run: RunRef
    fence: int
    decisions: int


_HISTORY = """
  select coalesce(json_agg(json_build_object('run_id', h.run_id, 'agent', h.agent, 'messages', h.messages) order by h.at), '[]')
  from history h
  where h.thread_id = {thread} and h.tenant = {tenant} and h.run_id in (
    select r.id from runs r
    where r.thread_id = {thread} and r.tenant = {tenant} and r.status = 'completed'
    order by r.finished_at desc limit {runs})
"""

# Inserted already leased where the process at hand has a free slot ($13), else queued.
_START = f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), free as materialized (
  select * from lk where active_run_id is null
), run as (
  insert into runs (thread_id, tenant, id, workflow, version, fingerprint, status, input, shown_input,
                    metadata, callback, callback_host, requested_by, trace, started_at)
  select $1, $2, $3, $4, $5, $6, case when $13::text is null then 'queued' else 'running' end,
         $7, $8, $9, $10, $17, $11, $18, case when $13::text is not null then clock_timestamp() end
  from free
), seat as (
  update threads t
  set active_run_id = $3,
      active_status = case when $13::text is null then 'queued' else 'running' end,
      ready_at = case when $13::text is null then clock_timestamp() end,
      fence = t.fence + case when $13::text is null then 0 else 1 end,
      lease_owner = $13,
      lease_until = case when $13::text is not null
                         then clock_timestamp() + make_interval(secs => $14::float8) end,
      decisions = 0,
      event_sequence = t.event_sequence + case when $13::text is null then 1 else 2 end
  from free where t.id = free.id and t.tenant = free.tenant
  returning t.fence
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, free.event_sequence + e.n, $3, e.type,
         json_build_object('workflow', $4::text, 'version', $5::text)
  from free, unnest(array['run.queued', 'run.started']) with ordinality as e(type, n)
  where e.n = 1 or $13::text is not null
), key as (
  insert into idempotency_keys (tenant, key, request, thread_id, resource)
  select $2, $15, $16, $1, $3 from free where $15::text is not null
)
select seat.fence, case when $12::int > 0 then ({_HISTORY.format(thread="$1", tenant="$2", runs="$12")}) end
       as history
from seat
"""

# Only this moves a run from queued to running; a row that is being decided on is passed over.
_CLAIM = """
with picked as materialized (
  select t.id, t.tenant, t.active_run_id, t.event_sequence, r.fingerprint, r.workflow, r.trace,
         extract(epoch from clock_timestamp() - t.ready_at)::float8 as waited
  from threads t join runs r on r.thread_id = t.id and r.id = t.active_run_id
  where t.active_status = 'queued' and r.fingerprint = any($1::text[])
  order by t.ready_at limit $2
  for update of t skip locked
), seat as (
  update threads t
  set active_status = 'running', ready_at = null, fence = t.fence + 1, lease_owner = $3,
      lease_until = clock_timestamp() + make_interval(secs => $4::float8),
      event_sequence = t.event_sequence + 1
  from picked p where t.id = p.id and t.tenant = p.tenant and t.active_status = 'queued'
  returning t.id, t.tenant, t.active_run_id, t.fence, t.event_sequence, p.fingerprint, p.workflow, p.waited,
            p.trace
), run as (
  update runs r set status = 'running', started_at = coalesce(r.started_at, clock_timestamp())
  from seat s where r.thread_id = s.id and r.id = s.active_run_id
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select s.id, s.tenant, s.event_sequence, s.active_run_id, 'run.started', '{}' from seat s
)
select id, tenant, active_run_id, fence, fingerprint, workflow, waited, trace from seat
"""

# A lease that has ended by the database's clock gives its run back to whoever claims it next.
_REQUEUE = """
with lost as materialized (
  select t.id, t.tenant, t.active_run_id, t.event_sequence from threads t
  where t.active_status = 'running' and t.lease_until < clock_timestamp()
  limit 100 for update skip locked
), seat as (
  update threads t
  set active_status = 'queued', ready_at = clock_timestamp(), lease_owner = null, lease_until = null,
      event_sequence = t.event_sequence + 1
  from lost where t.id = lost.id and t.tenant = lost.tenant
  returning t.id, t.tenant, t.active_run_id, t.event_sequence
), run as (
  update runs r set status = 'queued' from seat s where r.thread_id = s.id and r.id = s.active_run_id
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select s.id, s.tenant, s.event_sequence, s.active_run_id, 'run.queued', '{"reason": "lease ended"}'
  from seat s
)
select active_run_id from seat
"""

_RENEW = """
update threads set lease_until = clock_timestamp() + make_interval(secs => $2::float8)
where lease_owner = $1 and active_run_id = any($3::text[]) and active_status = 'running'
  and lease_until > clock_timestamp()
returning id, tenant, active_run_id, fence, decisions
"""

_HELD = """
select id, tenant, active_run_id, fence, decisions from threads
where lease_owner = $1 and active_status = 'running' and lease_until > clock_timestamp()
"""

_LOCK = "select from threads where id = $1 and tenant = $2 for update"

_CLOSED_SEEN = one_entry(
    "run, mine, lk",
    run_id="$3::text",
    pause_id="null::text",
    action="$4::text",
    by="$7::text",
    via="$8::text",
    credential="$9::text",
    client="$10::text",
    request_id="$11::text",
    digest="null::text",
    data="$12::text::json",
)
# Ends a run from outside, whatever it is doing: a worker that has it finds its fence gone.
_CLOSE = f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), mine as materialized (
  select * from lk where active_run_id = $3 and ($4 = 'cancelled' or active_status = 'paused')
), shut as (
  update pauses p set status = $4, closed_at = clock_timestamp()
  from mine where p.thread_id = mine.id and p.run_id = $3 and p.status = 'open'
  returning p.id, p.channel, p.escalated_to, p.sequence
), run as (
  update runs r set status = 'cancelled', finished_at = clock_timestamp(), stop_reason = $5
  from mine where r.thread_id = mine.id and r.id = $3
  returning r.callback is not null as has_callback
), {_CLOSED_SEEN}, seat as (
  update threads t
  set active_run_id = null, active_status = null, ready_at = null, lease_owner = null, lease_until = null,
      fence = t.fence + 1, event_sequence = t.event_sequence + 1 + (select count(*) from shut), {ONE_SEEN}
  from mine, linked where t.id = mine.id and t.tenant = mine.tenant
), fact as materialized (
  select shut.id as pause_id, shut.channel, shut.escalated_to, 'pause.cancelled' as type,
         row_number() over (order by shut.sequence) + mine.event_sequence as sequence
  from shut, mine
  union all
  select null, null, null, 'run.cancelled', mine.event_sequence + 1 + (select count(*) from shut) from mine
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, f.sequence, $3, f.type,
         case when f.pause_id is null then json_build_object('reason', $5::text)
              else json_build_object('pause_id', f.pause_id, 'status', $4::text) end
  from fact f
), notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel,
                          address, status, next_attempt_at)
  select $1, 'dlv_' || replace(gen_random_uuid()::text, '-', ''), $2, $3, f.pause_id, f.type, f.sequence,
         d.channel, {address("$3")}, 'pending', clock_timestamp()
  from fact f, run,
       lateral (select name from unnest($6::text[]) name where name in (f.channel, f.escalated_to)
                union all select null where run.has_callback) d(channel)
), gone as (
  delete from checkpoints c using mine where c.thread_id = mine.id and c.run_id = $3
), gone_writes as (
  delete from checkpoint_writes c using mine where c.thread_id = mine.id and c.run_id = $3
)
select exists (select 1 from run) as done
"""

# What was decided, and what is still open, by interrupt.
_ANSWERS = """
  (select coalesce(json_agg(json_build_object('id', p.id, 'interrupt_id', p.interrupt_id, 'answer', p.answer)), '[]')
   from pauses p where p.thread_id = $1 and p.run_id = $3 and p.interrupt_id is not null
     and (p.answer is not null or p.status = 'open')) as answers"""

_LOAD = f"""
select r.input, r.metadata, r.requested_by, r.callback is not null as has_callback, t.decisions,
  ({_HISTORY.format(thread="$1", tenant="$2", runs="$4")}) as history,
  {_ANSWERS},
  {load_columns(thread_id="$1", run_id="$3")},
  (select coalesce(json_agg(json_build_object('call_id', s.call_id, 'name', s.name, 'value', s.value)), '[]')
   from step_results s where s.thread_id = $1 and s.run_id = $3) as step_results,
  (select coalesce(json_object_agg(s.path, s.output order by s.position), '{{}}')
   from steps s where s.thread_id = $1 and s.run_id = $3 and s.status = 'completed') as outputs,
  case when $5 then (
    select json_build_object('cost', coalesce(sum(l.cost), 0)::text,
                             'reports', coalesce(json_agg(l.place) filter (where l.kind = 'report'), '[]'))
    from ledger l where l.thread_id = $1 and l.run_id = $3) end as spent
from threads t join runs r on r.thread_id = t.id and r.id = $3
where t.id = $1 and t.tenant = $2
"""


# Read without the lock: a decision that is missed here has raised the count, so no park goes through.
_DECISIONS = f"""
select t.decisions, {_ANSWERS}
from threads t where t.id = $1 and t.tenant = $2
"""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a worker needs to go on with a run."""

    input: Json
    metadata: dict[str, Json]
    requested_by: str | None
    has_callback: bool
    decisions: int = 0
    history: dict[str, list[Message]]
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    open: frozenset[str] = frozenset()
    step_results: dict[tuple[CallId, str], Json] = field(
        default_factory=dict[tuple[CallId, str], Json]
    )
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    spent: Spent = NOTHING_SPENT
    checkpoints: tuple[CheckpointRow, ...] = ()
    writes: tuple[WriteRow, ...] = ()


async def start(
    database: Store, new: NewRun, *, worker: str | None, lease_seconds: float, key: Key | None
) -> Started | None:
    """Writes a run, leased to `worker` if one is named; None if the thread is unknown or not free.

    Raises `KeyTaken` if the idempotency key was used before.
    """
    try:
        row = await database.fetch_row(
            _START,
            new.run.thread_id,
            new.run.tenant,
            new.run.run_id,
            new.workflow,
            new.version,
            new.fingerprint,
            database.vault.seal(new.input, "runs.input", new.run.run_id),
            new.shown_input,
            new.metadata,
            database.vault.seal(new.callback, "runs.callback", new.run.run_id),
            new.requested_by,
            new.history,
            worker,
            lease_seconds,
            key and key.key,
            key and key.request,
            new.callback_host,
            new.trace,
        )
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "idempotency_keys_pkey":
            raise KeyTaken from error
        raise
    if row is None:
        return None
    lease = Lease(run=new.run, worker=worker, fence=row["fence"]) if worker else None
    return Started(lease=lease, history=_by_agent(row["history"] or [], database.vault))


class LeaseLost(Exception):
    """The run belongs to somebody else by now: nothing was written, and nothing may be done for it."""


class KeyTaken(Exception):
    """The idempotency key stands already: the request was made before, or another one with its key."""


async def claim(
    database: Database, *, fingerprints: Sequence[str], worker: str, lease_seconds: float, most: int
) -> list[Claimed]:
    """Takes up to `most` queued runs of the workflows that are served here, oldest first."""
    rows = await database.fetch(_CLAIM, list(fingerprints), most, worker, lease_seconds)
    return [
        Claimed(
            lease=Lease(run=_ref(row), worker=worker, fence=row["fence"]),
            fingerprint=row["fingerprint"],
            workflow=row["workflow"],
            waited=row["waited"],
            trace=row["trace"],
        )
        for row in rows
    ]


async def requeue_lost(database: Database) -> list[RunId]:
    """Queues the runs whose lease has ended, and says which."""
    return [RunId(row["active_run_id"]) for row in await database.fetch(_REQUEUE)]


async def renew(
    database: Database, *, worker: str, advancing: Sequence[RunId], lease_seconds: float
) -> list[Held]:
    """Renews the leases of the runs that a worker is advancing; a run that is not in the answer is lost.

    A lease that the worker does not know of, since the answer to its claim was lost, is left to end.
    """
    rows = await database.fetch(_RENEW, worker, lease_seconds, list(advancing))
    return [_held(row) for row in rows]


async def held(database: Database, *, worker: str) -> list[Held]:
    """The runs a worker holds, with how many decisions each has by now."""
    return [_held(row) for row in await database.fetch(_HELD, worker)]


async def cancel(
    store: Transaction, run: RunRef, actor: Actor, *, reason: str, told: Sequence[str]
) -> bool:
    """Ends an unfinished run as cancelled; False if it is not the thread's unfinished run."""
    return await _close(store, run, actor, status="cancelled", reason=reason, told=told)


async def supersede(store: Transaction, run: RunRef, actor: Actor, *, told: Sequence[str]) -> bool:
    """Ends a paused run to make room for a newer one; False if it is not paused any more."""
    return await _close(store, run, actor, status="superseded", reason="superseded", told=told)


async def _close(
    store: Transaction,
    run: RunRef,
    actor: Actor,
    *,
    status: str,
    reason: str,
    told: Sequence[str],
) -> bool:
    """Locks the thread first: one statement would not see the pauses that a park wrote while it waited."""
    await store.fetch_row(_LOCK, run.thread_id, run.tenant)
    row = await store.fetch_row(
        _CLOSE,
        run.thread_id,
        run.tenant,
        run.run_id,
        status,
        reason,
        list(told),
        *actor.columns,
        data_text({"reason": reason}),
    )
    return bool(row and row["done"])


async def load(database: Database, run: RunRef, *, history: int, has_budget: bool) -> Loaded:
    """Everything about a run that its worker needs; what it has spent where it has a budget."""
    row = await database.fetch_row(
        _LOAD, run.thread_id, run.tenant, run.run_id, history, has_budget
    )
    if row is None:
        raise LookupError(run.run_id)
    vault, run_id = database.vault, run.run_id
    return Loaded(
        input=vault.open(row["input"], "runs.input", run_id),
        metadata=row["metadata"],
        requested_by=row["requested_by"],
        has_callback=row["has_callback"],
        decisions=row["decisions"],
        history=_by_agent(row["history"], vault),
        answers=_answers(row["answers"], vault, run_id),
        open=_open(row["answers"]),
        step_results={
            (CallId(each["call_id"]), each["name"]): vault.open(
                each["value"], "step_results.value", run_id, each["call_id"], each["name"]
            )
            for each in row["step_results"]
        },
        spent=_spent(row["spent"]) if row["spent"] else NOTHING_SPENT,
        outputs={
            path: vault.open(output, "steps.output", run_id, path)
            for path, output in row["outputs"].items()
        },
        checkpoints=tuple(
            CheckpointRow.of(each).opened(vault, run_id) for each in row["checkpoints"]
        ),
        writes=tuple(WriteRow.of(each).opened(vault, run_id) for each in row["writes"]),
    )


async def decisions(database: Database, run: RunRef) -> tuple[int, dict[str, Answer]]:
    """How many decisions the run has by now, and the answers by the interrupt they are for."""
    row = await database.fetch_row(_DECISIONS, run.thread_id, run.tenant, run.run_id)
    if row is None:
        raise LookupError(run.run_id)
    return row["decisions"], _answers(row["answers"], database.vault, run.run_id)


def _answers(rows: list[dict[str, Any]], vault: Vault, run_id: RunId) -> dict[str, Answer]:
    return {
        each["interrupt_id"]: Answer.from_json(
            vault.open(each["answer"], "pauses.answer", run_id, each["id"])
        )
        for each in rows
        if each["answer"]
    }


def _open(rows: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(each["interrupt_id"] for each in rows if not each["answer"])


def _spent(found: dict[str, Any]) -> Spent:
    return Spent(cost=Decimal(found["cost"]), reports=frozenset(found["reports"]))


def _by_agent(entries: list[dict[str, Any]], vault: Vault) -> dict[str, list[Message]]:
    said: dict[str, list[Message]] = {}
    for entry in entries:
        agent = entry["agent"]
        messages = vault.open(entry["messages"], "history.messages", entry["run_id"], agent)
        said.setdefault(agent, []).extend(messages)
    return said


def _ref(row: Row) -> RunRef:
    return RunRef(
        tenant=TenantId(row["tenant"]),
        thread_id=ThreadId(row["id"]),
        run_id=RunId(row["active_run_id"]),
    )


def _held(row: Row) -> Held:
    return Held(run=_ref(row), fence=row["fence"], decisions=row["decisions"])


_SAVE_STEP_RESULT = """
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
)
insert into step_results (thread_id, run_id, call_id, name, value)
select lk.id, $3, $5, $6, $7 from lk
where active_run_id = $3 and fence = $4 and active_status = 'running' and lease_until > clock_timestamp()
on conflict (thread_id, run_id, call_id, name) do update set value = step_results.value
returning call_id
"""


async def save_step_result(
    database: Database, lease: Lease, call_id: CallId, name: str, value: Json
) -> None:
    """Keeps what `context.step` returned. Raises `LeaseLost`."""
    run = lease.run
    row = await database.fetch_row(
        _SAVE_STEP_RESULT,
        run.thread_id,
        run.tenant,
        run.run_id,
        lease.fence,
        call_id,
        name,
        database.vault.seal(value, "step_results.value", run.run_id, call_id, name),
    )
    if row is None:
        raise LeaseLost(run.run_id)
