"""The one statement by which a worker writes about its run, put together from the parts that are needed.

A part that has nothing to write costs its start all the same; so each combination is a text of its own, of
which a run meets a handful.
"""

from functools import cache
from typing import Final

from app.storage.audit import MANY_SEEN, many_entries
from app.storage.checkpoints import save_ctes
from app.storage.deliveries import address

STAY: Final = "stay"
PARK: Final = "park"
END: Final = "end"
HAND_BACK: Final = "hand back"

CHECKPOINTS: Final = "checkpoints"
CLOSING: Final = "closing"
RESULTS: Final = "results"

# $6 is the document of facts; what is decided on stands in the locked row.
_HEAD = """
with recursive lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), held as materialized (
  select * from lk
  where active_run_id = $3 and fence = $4 and active_status = 'running' and lease_until > clock_timestamp()
), ok as materialized (
  select held.*, $6::json as doc from held where $5::bigint is null or held.decisions = $5
)"""

# Of a pause that was there already, this was told before.
_SETTLED_SEEN = many_entries(
    """ok, rows from (json_to_recordset(ok.doc->'audit') as (
         pause_id text, action text, by text, via text, digest text, data text))
       with ordinality as s(pause_id, action, by, via, digest, data, n)
  where s.pause_id in (select id from pause)""",
    locked="ok",
    number="row_number() over (order by s.n)",
    run_id="$3::text",
    pause_id="s.pause_id",
    action="s.action",
    by="s.by",
    via="s.via",
    credential="null::text",
    client="null::text",
    request_id="null::text",
    digest="s.digest",
    data="s.data::json",
)

_PARTS: Final = {
    "pauses": """pause as (
  insert into pauses (thread_id, tenant, run_id, workflow, sequence, id, line, place, interrupt_id, kind, level,
                      status, channel, shown, secret, policy, digest, opened_at, expires_at, remind_at,
                      escalate_at, decision, answer, closed_at)
  select ok.id, ok.tenant, $3, r.workflow,
         (select count(*) from pauses p where p.thread_id = $1 and p.run_id = $3) + a.n,
         a.id, a.line, a.place, a.interrupt_id, a.kind, a.level, a.status, a.channel, a.shown, a.secret,
         a.policy, a.digest, clock_timestamp(),
         clock_timestamp() + make_interval(secs => a.expires_after),
         clock_timestamp() + make_interval(secs => a.remind_after),
         clock_timestamp() + make_interval(secs => a.escalate_after), a.decision, a.answer,
         case when a.status <> 'open' then clock_timestamp() end
  from ok join runs r on r.thread_id = ok.id and r.id = $3,
       rows from (json_to_recordset(ok.doc->'pauses') as (
         id text, line text, place text, interrupt_id text, kind text, level text, status text, channel text,
         shown json, secret json, policy json, digest text, expires_after float8, remind_after float8,
         escalate_after float8, decision json, answer json
       )) with ordinality as a(id, line, place, interrupt_id, kind, level, status, channel, shown, secret,
                               policy, digest, expires_after, remind_after, escalate_after, decision, answer, n)
  on conflict (run_id, place) do nothing
  returning id
)""",
    "events": """told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, f.sequence, $3, f.type, f.data from fact f
)""",
    "notices": f"""notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, address,
                          status, next_attempt_at)
  select $1, d.id, $2, $3, f.pause_id, f.type, f.sequence, d.channel, {address("$3")}, 'pending', clock_timestamp()
  from ok, json_to_recordset(ok.doc->'notices') as d(id text, event int, channel text)
       join fact f on f.n = d.event
)""",
    "ledger": """spent as (
  insert into ledger (thread_id, run_id, place, kind, agent, name, input_tokens, output_tokens,
                      cached_input_tokens, cost)
  select $1, $3, l.place, l.kind, l.agent, l.name, l.input_tokens, l.output_tokens, l.cached_input_tokens, l.cost
  from ok, json_to_recordset(ok.doc->'ledger') as l(place text, kind text, agent text, name text,
       input_tokens bigint, output_tokens bigint, cached_input_tokens bigint, cost numeric)
  on conflict do nothing
)""",
    "steps": """step as (
  insert into steps (thread_id, run_id, path, position, name, type, status, attempts, output, shown_output)
  select $1, $3, s.path, (select count(*) from steps b where b.thread_id = $1 and b.run_id = $3) + s.n,
         s.name, s.type, s.status, s.attempts, s.output, s.shown_output
  from ok, rows from (json_to_recordset(ok.doc->'steps') as (
         path text, name text, type text, status text, attempts int, output json, shown_output json))
       with ordinality as s(path, name, type, status, attempts, output, shown_output, n)
  on conflict (thread_id, run_id, path) do update
  set status = excluded.status, attempts = excluded.attempts, output = excluded.output,
      shown_output = excluded.shown_output
)""",
    "audit": _SETTLED_SEEN,
    "history": """said as (
  insert into history (thread_id, tenant, run_id, agent, messages)
  select $1, $2, $3, h.agent, h.messages
  from ok, json_to_recordset(ok.doc->'history') as h(agent text, messages json)
)""",
    CLOSING: f"""closing as materialized (
  select s.id, s.channel, s.escalated_to, ok.event_sequence + json_array_length(ok.doc->'events') - 1
         + row_number() over (order by s.sequence) as sequence
  from ok, shut s
), told_closing as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, c.sequence, $3, 'pause.cancelled', json_build_object('pause_id', c.id) from closing c
), notice_closing as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, address,
                          status, next_attempt_at)
  select $1, 'dlv_' || replace(gen_random_uuid()::text, '-', ''), $2, $3, c.id, 'pause.cancelled', c.sequence,
         d.channel, {address("$3")}, 'pending', clock_timestamp()
  from ok, closing c,
       lateral (select value as channel from json_array_elements_text(ok.doc->'addressees')) d
  where d.channel is null or d.channel in (c.channel, c.escalated_to)
)""",
    CHECKPOINTS: save_ctes(first_param=7, gate="ok"),
    RESULTS: """gone_results as (
  delete from step_results c using ok where c.thread_id = ok.id and c.run_id = $3
)""",
}
"""Each writes the list of its name in the document, but for the last three."""

_FIRST: Final = ("pauses", "audit")
"""What others go by: which pauses are new, and where the audit ends."""
_OPENED = ", (select json_agg(id) from pause) as opened"

_FACT = """fact as materialized (
  select e.type, e.data, e.pause_id, ok.event_sequence + e.n{shut} as sequence, e.n
  from ok, rows from (json_to_recordset(ok.doc->'events') as (type text, data json, pause_id text))
       with ordinality as e(type, data, pause_id, n)
{where}
)"""

_OF_NEW_PAUSES = "  where e.pause_id is null or e.pause_id in (select id from pause)"

# Closes what is open before the end, which is the last fact, is told.
_SHUT = """shut as (
  update pauses p set status = 'cancelled', closed_at = clock_timestamp()
  from ok where p.thread_id = ok.id and p.run_id = $3 and p.status = 'open'
  returning p.id, p.channel, p.escalated_to, p.sequence
)"""

_SHUT_BEFORE = """ + case when e.n = json_array_length(ok.doc->'events')
       then (select count(*) from shut) else 0 end"""

_SEAT = """seat as (
  update threads t
  set {move}
      event_sequence = t.event_sequence + json_array_length(ok.doc->'events'){shut}{seen}
  from ok where t.id = ok.id and t.tenant = ok.tenant
)"""

_FREE = "lease_owner = null, lease_until = null,"
_MOVES: Final = {
    STAY: "",
    PARK: f"active_status = 'paused', {_FREE}",
    END: f"active_run_id = null, active_status = null, {_FREE}",
    HAND_BACK: f"active_status = 'queued', ready_at = clock_timestamp(), {_FREE}",
}

_RUN_MOVES = """run as (
  update runs r set status = '{status}' from ok where r.thread_id = ok.id and r.id = $3
)"""

_RUN_ENDS = """run as (
  update runs r
  set status = e.status, output = e.output, shown_output = e.shown_output, stop_reason = e.stop_reason,
      error = e.error, finished_at = clock_timestamp()
  from ok, json_to_record(ok.doc->'end') as e(status text, output json, shown_output json, stop_reason text,
       error json)
  where r.thread_id = ok.id and r.id = $3
)"""

_GONE = """gone as (
  delete from checkpoints c using ok where c.thread_id = ok.id and c.run_id = $3
), gone_writes as (
  delete from checkpoint_writes c using ok where c.thread_id = ok.id and c.run_id = $3
)"""


@cache
def statement(move: str, parts: frozenset[str]) -> str:
    """The statement of a move that writes these parts."""
    ctes = [_HEAD]
    ctes += [_PARTS[name] for name in _FIRST if name in parts]
    is_closing = CLOSING in parts
    if is_closing:
        ctes.append(_SHUT)
    where = _OF_NEW_PAUSES if "pauses" in parts else ""
    ctes.append(_FACT.format(where=where, shut=_SHUT_BEFORE if is_closing else ""))
    shut = " + (select count(*) from shut)" if is_closing else ""
    seen = f",\n      {MANY_SEEN}" if "audit" in parts else ""
    ctes.append(_SEAT.format(move=_MOVES[move], shut=shut, seen=seen))
    ctes += [text for name, text in _PARTS.items() if name in parts and name not in _FIRST]
    ctes += _of_run(move)
    return (
        ",\n".join(ctes)
        + "\nselect exists (select 1 from ok) as done, exists (select 1 from held) as held"
        + (_OPENED if "pauses" in parts else "")
    )


def _of_run(move: str) -> list[str]:
    match move:
        case "park":
            return [_RUN_MOVES.format(status="paused")]
        case "hand back":
            return [_RUN_MOVES.format(status="queued")]
        case "end":
            return [_RUN_ENDS, _GONE]
        case _:
            return []
