"""Fills a database with some thousand rows in every table that grows, in the proportions of a busy service."""

import asyncpg

THREADS = 1500
RUNS = 3
"""Of each thread; the last of every third one has not ended."""

_POLICY = '{"approvers": [], "quorum": 1, "allow_requester": true, "on_expire": "reject"}'
_FILL = f"""
insert into threads (id, tenant, metadata, created_at, active_run_id, active_status, ready_at, lease_owner,
                     lease_until, event_sequence, audit_sequence)
select 'thread_' || i, case when i % 10 = 0 then 'other' else 'default' end, '{{}}',
       now() - make_interval(mins => {THREADS} - i),
       case when s.status is not null then format('run_%s_{RUNS - 1}', i) end, s.status,
       case when s.status = 'queued' then now() end, case when s.status = 'running' then 'worker_1' end,
       case when s.status = 'running' then now() + interval '1 hour' end, {4 * RUNS}, {RUNS}
from generate_series(1, {THREADS}) i, lateral (
  select case when i % 3 <> 0 then null when i % 150 = 0 then 'queued' when i % 150 = 3 then 'running'
              else 'paused' end as status) s;

insert into runs (thread_id, id, tenant, workflow, version, fingerprint, status, metadata, created_at, started_at,
                  finished_at)
select t.id, format('run_%s_%s', substr(t.id, 8), j), t.tenant, 'workflow_' || length(t.id) % 5, '1',
       'fingerprint_' || length(t.id) % 5, s.status, '{{}}', t.created_at + make_interval(secs => j), t.created_at,
       case when s.status = 'completed' then t.created_at + make_interval(secs => j) end
from threads t, generate_series(0, {RUNS - 1}) j, lateral (
  select case when j = {RUNS - 1} then coalesce(t.active_status, 'completed') else 'completed' end as status) s;

insert into pauses (thread_id, id, tenant, run_id, sequence, line, place, interrupt_id, kind, level, status,
                    workflow, channel, shown, policy, opened_at, expires_at, remind_at, escalate_at, decision,
                    answer, closed_at)
select r.thread_id, 'pause_' || r.id, r.tenant, r.id, 1, 'root', 'here', 'interrupt', 'approval', 'executor',
       s.status, r.workflow, 'channel_' || length(r.id) % 5, '{{"allowed": ["verdict"], "response_schema": {{}}}}', '{_POLICY}',
       r.created_at, case when length(r.thread_id) % 2 = 0 then now() + interval '1 day' end,
       case when length(r.thread_id) % 2 = 0 then now() + interval '1 hour' end,
       case when length(r.thread_id) % 2 = 0 then now() + interval '2 hours' end,
       case when s.status = 'decided' then '{{}}'::json end, case when s.status = 'decided' then '{{}}'::json end,
       case when s.status = 'decided' then now() end
from runs r, lateral (
  select case when r.status = 'completed' then 'decided' else 'open' end as status) s;

insert into events (thread_id, tenant, sequence, run_id, type, data, xid)
select r.thread_id, r.tenant, row_number() over (partition by r.thread_id order by r.created_at, e), r.id,
       'step.completed', '{{}}', (3 + row_number() over () % 600)::text::xid8
from runs r, generate_series(1, 4) e;

insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, address,
                        status, attempts, next_attempt_at, created_at)
select p.thread_id, 'delivery_' || p.id, p.tenant, p.run_id, p.id, 'pause.opened', 1, p.channel, p.channel, s.status,
       1, case when s.status = 'pending' then now() + interval '1 hour' end, p.opened_at
from pauses p, lateral (
  select case when p.status = 'open' and length(p.id) % 3 = 0 then 'pending'
              when p.id like 'pause_run_777%' then 'dead' else 'delivered' end as status) s;

insert into delivery_attempts (thread_id, delivery_id, attempt, status)
select thread_id, id, 1, 204 from deliveries;

insert into audit (thread_id, tenant, thread_created_at, sequence, run_id, pause_id, action, by, via, credential,
                   data, at, hash)
select p.thread_id, p.tenant, t.created_at, row_number() over (partition by p.thread_id), p.run_id, p.id, 'decided',
       'person_' || length(p.id) % 7, 'api', 'key:' || abs(hashtext(p.id)) % 50, '{{}}', p.opened_at, sha256(p.id::bytea)
from pauses p join threads t on t.id = p.thread_id and t.tenant = p.tenant;

insert into ledger (thread_id, run_id, place, kind, agent, name, input_tokens, output_tokens, cached_input_tokens, cost)
select thread_id, id, 'place_' || l, 'model', 'agent', 'model', 1, 1, 0, 0 from runs, generate_series(1, 2) l;

insert into steps (thread_id, run_id, path, position, name, type, status, attempts)
select thread_id, id, 'step_' || s, s, 'step', 'function', 'completed', 1 from runs, generate_series(1, 2) s;

insert into step_results (thread_id, run_id, call_id, name, value)
select thread_id, id, 'call', 'step', '1' from runs where status <> 'completed';

insert into history (thread_id, tenant, run_id, agent, messages)
select thread_id, tenant, id, 'agent', '[]' from runs where status = 'completed';

insert into checkpoints (thread_id, run_id, line, ns, id, body, metadata)
select thread_id, id, 'root', 'ns_' || c, 'checkpoint', '', '{{}}'
from runs, generate_series(1, 2) c where status <> 'completed';

insert into checkpoint_writes (thread_id, run_id, line, ns, checkpoint_id, task_id, idx, task_path, channel, body)
select thread_id, id, 'root', 'ns_1', 'checkpoint', 'task', w, '', 'channel', ''
from runs, generate_series(1, 2) w where status <> 'completed';

insert into idempotency_keys (tenant, key, request, thread_id, resource, created_at)
select tenant, id, 'request', thread_id, id, created_at from runs;

insert into api_keys (id, tenant, name, digest, groups, scopes)
select 'key_' || i, 'default', 'person_' || i, sha256(i::text::bytea), '[]', '[]' from generate_series(1, 500) i;

insert into sessions (digest, key_id, tenant, name, groups, scopes, credential, expires_at)
select sha256(i::text::bytea), 'key_' || i % 500, 'default', 'person_' || i % 500, '[]', '[]', 'key:' || i % 500,
       now() + make_interval(mins => i - 20)
from generate_series(1, 2000) i;
"""

GROWING = frozenset(
    {
        *(
            "threads",
            "runs",
            "pauses",
            "events",
            "deliveries",
            "delivery_attempts",
            "audit",
            "ledger",
        ),
        *(
            "steps",
            "step_results",
            "history",
            "checkpoints",
            "checkpoint_writes",
            "idempotency_keys",
        ),
        *("api_keys", "sessions"),
    }
)
"""The tables that grow with what is done; what is left has a handful of rows."""


async def fill(connection: asyncpg.Connection) -> None:
    """Fills the tables, and has Postgres look at what is in them."""
    async with connection.transaction():
        await connection.execute(_FILL)
    await connection.execute("vacuum (analyze)")
