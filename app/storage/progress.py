"""The one statement by which a worker writes about its run.

Whatever the phase (go on, park, end, hand back), it locks the thread, checks the fence and the lease by the
database's clock, and writes everything that belongs together: facts, notices, checkpoints, and the move.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.domain.event import TOLD, Event, EventType
from app.domain.facts import Facts, RunEnd
from app.domain.ids import PauseId, new_delivery_id, new_pause_id
from app.domain.json import Json
from app.domain.ledger import LedgerEntry
from app.domain.pause import Ask, PauseStatus
from app.domain.run import Lease, RunStatus
from app.domain.step import StepRecord
from app.storage.checkpoints import Unsaved, save_ctes
from app.storage.database import Database
from app.storage.runs import LeaseLost


class Wrote(Enum):
    """What became of a write."""

    DONE = "done"
    DECIDED_MEANWHILE = (
        "decided meanwhile"  # a decision came that this worker has not seen: not parked
    )


@dataclass(frozen=True, kw_only=True)
class Addressees:
    """Who hears of a run: the channels that have to be told, and whether the run has a callback."""

    channels: frozenset[str]
    callback: bool


# The phase's move of the run, as columns of the seat and of the run. `$6` is the document of facts.
_STAY, _PARK, _END, _HAND_BACK = "stay", "park", "end", "hand back"

_WRITE = """
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), held as materialized (
  select * from lk
  where active_run_id = $3 and fence = $4 and active_status = 'running' and lease_until > clock_timestamp()
), ok as materialized (
  select held.*, $6::json as doc from held where $5::bigint is null or held.decisions = $5
), pause as (
  insert into pauses (thread_id, tenant, run_id, workflow, sequence, id, line, place, interrupt_id, kind, level,
                      status, channel, shown, secret, policy, digest, opened_at, expires_at, decision, answer,
                      closed_at)
  select ok.id, ok.tenant, $3, r.workflow,
         (select count(*) from pauses p where p.thread_id = $1 and p.run_id = $3) + a.n,
         a.id, a.line, a.place, a.interrupt_id, a.kind, a.level, a.status, a.channel, a.shown, a.secret,
         a.policy, a.digest, clock_timestamp(),
         clock_timestamp() + make_interval(secs => a.expires_after), a.decision, a.answer,
         case when a.status <> 'open' then clock_timestamp() end
  from ok join runs r on r.thread_id = ok.id and r.id = $3,
       rows from (json_to_recordset(ok.doc->'pauses') as (
         id text, line text, place text, interrupt_id text, kind text, level text, status text, channel text,
         shown json, secret json, policy json, digest text, expires_after float8, decision json, answer json
       )) with ordinality as a(id, line, place, interrupt_id, kind, level, status, channel, shown, secret,
                               policy, digest, expires_after, decision, answer, n)
  on conflict (run_id, place) do nothing
  returning id
), fact as materialized (
  select e.type, e.data, e.pause_id, ok.event_sequence + e.n as sequence, e.n
  from ok, rows from (json_to_recordset(ok.doc->'events') as (type text, data json, pause_id text))
       with ordinality as e(type, data, pause_id, n)
  where e.pause_id is null or e.pause_id in (select id from pause)
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, f.sequence, $3, f.type, f.data from fact f
), notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, status,
                          next_attempt_at)
  select $1, d.id, $2, $3, f.pause_id, f.type, f.sequence, d.channel, 'pending', clock_timestamp()
  from ok, json_to_recordset(ok.doc->'notices') as d(id text, event int, channel text)
       join fact f on f.n = d.event
), spent as (
  insert into ledger (thread_id, run_id, place, kind, agent, name, input_tokens, output_tokens,
                      cached_input_tokens, cost)
  select $1, $3, l.place, l.kind, l.agent, l.name, l.input_tokens, l.output_tokens, l.cached_input_tokens, l.cost
  from ok, json_to_recordset(ok.doc->'ledger') as l(place text, kind text, agent text, name text,
       input_tokens bigint, output_tokens bigint, cached_input_tokens bigint, cost numeric)
  on conflict do nothing
), step as (
  insert into steps (thread_id, run_id, path, position, name, type, status, attempts, output, shown_output)
  select $1, $3, s.path, (select count(*) from steps b where b.thread_id = $1 and b.run_id = $3) + s.n,
         s.name, s.type, s.status, s.attempts, s.output, s.shown_output
  from ok, rows from (json_to_recordset(ok.doc->'steps') as (
         path text, name text, type text, status text, attempts int, output json, shown_output json))
       with ordinality as s(path, name, type, status, attempts, output, shown_output, n)
  on conflict (thread_id, run_id, path) do update
  set status = excluded.status, attempts = excluded.attempts, output = excluded.output,
      shown_output = excluded.shown_output
), watched as (
  insert into audit (thread_id, tenant, sequence, run_id, pause_id, action, by, via, data)
  select $1, $2, ok.audit_sequence + w.n, $3, w.pause_id, w.action, w.by, w.via, w.data
  from ok, rows from (json_to_recordset(ok.doc->'audit') as (
         pause_id text, action text, by text, via text, data json))
       with ordinality as w(pause_id, action, by, via, data, n)
){before}, seat as (
  update threads t
  set {seat}
      event_sequence = t.event_sequence + json_array_length(ok.doc->'events'){shut},
      audit_sequence = t.audit_sequence + json_array_length(ok.doc->'audit')
  from ok where t.id = ok.id and t.tenant = ok.tenant
)
{rest}
select exists (select 1 from ok) as done, exists (select 1 from held) as held
"""

_FREE_LEASE = "lease_owner = null, lease_until = null,"

_RUN_MOVES = """, run as (
  update runs r set status = '{status}' from ok where r.thread_id = ok.id and r.id = $3
)"""

_RUN_ENDS = """, run as (
  update runs r
  set status = e.status, output = e.output, shown_output = e.shown_output, stop_reason = e.stop_reason,
      error = e.error, finished_at = clock_timestamp()
  from ok, json_to_record(ok.doc->'end') as e(status text, output json, shown_output json, stop_reason text,
       error json)
  where r.thread_id = ok.id and r.id = $3
), said as (
  insert into history (thread_id, tenant, run_id, agent, messages)
  select $1, $2, $3, h.agent, h.messages
  from ok, json_to_recordset(ok.doc->'history') as h(agent text, messages json)
), closing as materialized (
  select s.id, s.channel, ok.event_sequence + json_array_length(ok.doc->'events')
         + row_number() over (order by s.sequence) as sequence
  from ok, shut s
), told_closing as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, c.sequence, $3, 'pause.cancelled', json_build_object('pause_id', c.id) from closing c
), notice_closing as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, status,
                          next_attempt_at)
  select $1, 'dlv_' || replace(gen_random_uuid()::text, '-', ''), $2, $3, c.id, 'pause.cancelled', c.sequence,
         a.channel, 'pending', clock_timestamp()
  from ok, closing c,
       lateral (select value as channel from json_array_elements_text(ok.doc->'addressees')) a
  where a.channel is null or a.channel = c.channel
), gone as (
  delete from checkpoints c using ok where c.thread_id = ok.id and c.run_id = $3
), gone_writes as (
  delete from checkpoint_writes c using ok where c.thread_id = ok.id and c.run_id = $3
), gone_results as (
  delete from step_results c using ok where c.thread_id = ok.id and c.run_id = $3
)"""

_SHUT = """, shut as (
  update pauses p set status = 'cancelled', closed_at = clock_timestamp()
  from ok where p.thread_id = ok.id and p.run_id = $3 and p.status = 'open'
  returning p.id, p.channel, p.sequence
)"""

_CHECKPOINTS = ", " + save_ctes(first_param=7, gate="ok")

_STATEMENTS: Mapping[str, str] = {
    _STAY: _WRITE.format(seat="", before="", shut="", rest=_CHECKPOINTS),
    _PARK: _WRITE.format(
        seat="active_status = 'paused'," + _FREE_LEASE,
        before="",
        shut="",
        rest=_RUN_MOVES.format(status="paused") + _CHECKPOINTS,
    ),
    _END: _WRITE.format(
        seat="active_run_id = null, active_status = null," + _FREE_LEASE,
        before=_SHUT,
        shut=" + (select count(*) from shut)",
        rest=_RUN_ENDS,
    ),
    _HAND_BACK: _WRITE.format(
        seat="active_status = 'queued', ready_at = clock_timestamp()," + _FREE_LEASE,
        before="",
        shut="",
        rest=_RUN_MOVES.format(status="queued") + _CHECKPOINTS,
    ),
}


async def save(
    database: Database,
    lease: Lease,
    facts: Facts,
    unsaved: Unsaved,
    addressees: Addressees,
    *,
    asks: Sequence[Ask] = (),
) -> None:
    """Writes what is unwritten and opens pauses, if any; the run goes on. Raises `LeaseLost`."""
    document = _document(facts, addressees, asks=asks)
    await _write(database, _STAY, lease, document, seen=None, unsaved=unsaved)


async def park(
    database: Database,
    lease: Lease,
    facts: Facts,
    unsaved: Unsaved,
    addressees: Addressees,
    *,
    asks: Sequence[Ask],
    seen: int,
) -> Wrote:
    """Opens the pauses and gives the run up as paused, unless a decision came that is not among `seen`."""
    document = _document(facts, addressees, asks=asks, last=[Event(type=EventType.RUN_PAUSED)])
    return await _write(database, _PARK, lease, document, seen=seen, unsaved=unsaved)


async def end(
    database: Database, lease: Lease, facts: Facts, addressees: Addressees, *, end: RunEnd
) -> None:
    """Ends the run; its checkpoints go. Raises `LeaseLost`."""
    document = _document(
        facts, addressees, last=[Event(type=_END_EVENTS[end.status], data=_end_data(end))]
    )
    document["end"] = {
        "status": end.status,
        "output": end.output,
        "shown_output": end.shown_output,
        "stop_reason": end.stop_reason,
        "error": end.error and end.error.as_json(),
    }
    document["addressees"] = [*addressees.channels, *([None] if addressees.callback else [])]
    document["history"] = [{"agent": said.agent, "messages": said.messages} for said in end.history]
    await _write(database, _END, lease, document, seen=None, unsaved=None)


async def hand_back(
    database: Database, lease: Lease, facts: Facts, unsaved: Unsaved, addressees: Addressees
) -> None:
    """Writes what is unwritten and queues the run for another worker. Raises `LeaseLost`."""
    document = _document(facts, addressees, last=[Event(type=EventType.RUN_QUEUED)])
    await _write(database, _HAND_BACK, lease, document, seen=None, unsaved=unsaved)


_END_EVENTS = {
    RunStatus.COMPLETED: EventType.RUN_COMPLETED,
    RunStatus.FAILED: EventType.RUN_FAILED,
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
}


def _end_data(end: RunEnd) -> dict[str, Json]:
    return {"error": end.error.as_json()} if end.error else {}


async def _write(
    database: Database,
    move: str,
    lease: Lease,
    document: Json,
    *,
    seen: int | None,
    unsaved: Unsaved | None,
) -> Wrote:
    run = lease.run
    arguments = unsaved.arguments() if unsaved else ()
    row = await database.fetch_row(
        _STATEMENTS[move],
        run.thread_id,
        run.tenant,
        run.run_id,
        lease.fence,
        seen,
        document,
        *arguments,
    )
    if row is None or not row["held"]:
        raise LeaseLost(run.run_id)
    return Wrote.DONE if row["done"] else Wrote.DECIDED_MEANWHILE


def _document(
    facts: Facts, addressees: Addressees, *, asks: Sequence[Ask] = (), last: Sequence[Event] = ()
) -> dict[str, Any]:
    """Facts as the statement reads them: lists of flat records, notices naming their event by its place."""
    pauses = [(new_pause_id(), ask) for ask in (*facts.settled, *asks)]
    events: list[dict[str, Json]] = [
        {"type": each.type, "data": each.data} for each in facts.events
    ]
    channels: list[str | None] = [None] * len(events)
    for pause_id, ask in pauses:
        for event in _pause_events(pause_id, ask):
            events.append(event)
            channels.append(None if ask.settled else ask.policy.channel)
    events += [{"type": each.type, "data": each.data} for each in last]
    channels += [None] * len(last)
    return {
        "pauses": [_pause(pause_id, ask) for pause_id, ask in pauses],
        "events": events,
        "notices": _notices(events, channels, addressees),
        "ledger": [_entry(entry) for entry in facts.ledger],
        "steps": [_step(step) for step in facts.steps],
        "audit": [_watched(pause_id, ask) for pause_id, ask in pauses if ask.settled],
    }


def _pause_events(pause_id: PauseId, ask: Ask) -> list[dict[str, Json]]:
    opened = _pause_event(EventType.PAUSE_OPENED, pause_id, ask)
    if ask.settled is None:
        return [opened]
    decided = _pause_event(EventType.PAUSE_DECIDED, pause_id, ask)
    return [opened, decided | {"data": {"pause_id": pause_id, "decision": ask.settled.shown}}]


def _pause_event(event: EventType, pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    data = {"pause_id": pause_id, "kind": ask.kind, "channel": ask.policy.channel}
    return {"type": event, "pause_id": pause_id, "data": data}


def _notices(
    events: Sequence[dict[str, Json]], channels: Sequence[str | None], addressees: Addressees
) -> list[dict[str, Json]]:
    """One notice an address: the pause's channel where it has to be told, and the run's callback."""
    notices: list[dict[str, Json]] = []
    for number, (event, channel) in enumerate(zip(events, channels, strict=True), start=1):
        if event["type"] not in TOLD:
            continue
        if channel in addressees.channels:
            notices.append({"id": new_delivery_id(), "event": number, "channel": channel})
        if addressees.callback:
            notices.append({"id": new_delivery_id(), "event": number, "channel": None})
    return notices


def _pause(pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    expires_after = ask.policy.expires_after
    return {
        "id": pause_id,
        "line": ask.line,
        "place": ask.place,
        "interrupt_id": ask.interrupt_id,
        "kind": ask.kind,
        "level": ask.level,
        "status": PauseStatus.DECIDED if ask.settled else PauseStatus.OPEN,
        "channel": ask.policy.channel,
        "shown": ask.shown,
        "secret": ask.secret,
        "policy": ask.policy.as_json(),
        "digest": ask.digest,
        "expires_after": expires_after and expires_after.total_seconds(),
        "decision": ask.settled and ask.settled.shown,
        "answer": ask.settled and ask.settled.answer.as_json(),
    }


def _entry(entry: LedgerEntry) -> dict[str, Json]:
    return {
        "place": entry.place,
        "kind": entry.kind,
        "agent": entry.agent,
        "name": entry.name,
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "cached_input_tokens": entry.cached_input_tokens,
        "cost": str(entry.cost),
    }


def _step(step: StepRecord) -> dict[str, Json]:
    return {
        "path": step.path,
        "name": step.name,
        "type": step.type,
        "status": step.status,
        "attempts": step.attempts,
        "output": step.output,
        "shown_output": step.shown_output,
    }


def _watched(pause_id: PauseId, ask: Ask) -> dict[str, Json]:
    settled = ask.settled
    return {
        "pause_id": pause_id,
        "action": "decided",
        "by": settled and settled.answer.by,
        "via": settled and settled.answer.via,
        "data": {"decision": settled and settled.shown, "digest": ask.digest},
    }
