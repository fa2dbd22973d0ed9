"""What goes by itself after its time: the events and notices of runs that ended long ago, and old idempotency keys.

A few at a time: each statement holds the threads it touches for some milliseconds, and passes over those that
somebody else has. So several workers share the work.
"""

from datetime import timedelta

from app.storage.database import Database

AT_ONCE = 100

# Locks the threads first, as every phase does. A notice that is still to be sent keeps what it tells of.
_FORGET_RUNS = f"""
with old as materialized (
  select r.thread_id, r.tenant, r.id from runs r join threads t on t.id = r.thread_id and t.tenant = r.tenant
  where r.finished_at < now() - $1::interval and r.finished_at is not null and r.forgotten_at is null
    and not exists (select from deliveries d
                    where d.thread_id = r.thread_id and d.run_id = r.id and d.status = 'pending')
  order by r.finished_at limit {AT_ONCE}
  for update of t skip locked
), notices as (
  delete from deliveries d using old where d.thread_id = old.thread_id and d.run_id = old.id
  returning d.thread_id, d.id
), attempts as (
  delete from delivery_attempts a using notices n where a.thread_id = n.thread_id and a.delivery_id = n.id
), told as (
  delete from events e using old where e.thread_id = old.thread_id and e.tenant = old.tenant and e.run_id = old.id
), noted as (
  update runs r set forgotten_at = clock_timestamp()
  from old where r.thread_id = old.thread_id and r.id = old.id
)
select count(*) as number from old
"""

_FORGET_KEYS = f"""
with old as materialized (
  select k.tenant, k.key from idempotency_keys k where k.created_at < now() - $1::interval
  order by k.created_at limit {10 * AT_ONCE}
  for update skip locked
), gone as (
  delete from idempotency_keys k using old where k.tenant = old.tenant and k.key = old.key
)
select count(*) as number from old
"""


async def forget_runs(database: Database, *, after: timedelta) -> int:
    """Deletes the events and notices of some runs that ended longer ago than that; says of how many."""
    return await _forgotten(database, _FORGET_RUNS, after)


async def forget_keys(database: Database, *, after: timedelta) -> int:
    """Deletes some idempotency keys that are older than that; says how many."""
    return await _forgotten(database, _FORGET_KEYS, after)


async def _forgotten(database: Database, statement: str, after: timedelta) -> int:
    [row] = await database.fetch(statement, after)
    return row["number"]
