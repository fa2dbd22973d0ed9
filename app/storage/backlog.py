"""Reads what waits, over all tenants: every count from an index that has nothing else in it."""

from typing import Any

import asyncpg

from app.storage.database import Database
from app.watching.backlog import AGES, Backlog, OpenPauses

_OLDER = ", ".join(
    f"'{age}', count(*) filter (where p.opened_at <= clock.now - interval '{seconds} s')"
    for age, seconds in AGES.items()
)

_BACKLOG = f"""
with clock as materialized (select clock_timestamp() as now)
select
  (select coalesce(json_agg(w), '[]') from (
     select p.workflow, count(*) as count, json_build_object({_OLDER}) as older,
            extract(epoch from max(clock.now - p.opened_at))::float8 as oldest
     from pauses p, clock where p.status = 'open' group by p.workflow) w) as open_pauses,
  queued.count as queued, queued.longest as longest_queued,
  running.count as running, running.lapsed as without_worker,
  pending.count as pending_deliveries, pending.longest as longest_due,
  (select count(*) from deliveries where status = 'dead') as dead_deliveries
from
  (select count(*), coalesce(extract(epoch from max(clock.now - ready_at)), 0)::float8 as longest
   from threads, clock where active_status = 'queued') queued,
  (select count(*), count(*) filter (where lease_until < clock.now) as lapsed
   from threads, clock where active_status = 'running') running,
  (select count(*),
          greatest(coalesce(extract(epoch from max(clock.now - next_attempt_at)), 0), 0)::float8 as longest
   from deliveries, clock where status = 'pending') pending
"""


async def read(database: Database) -> Backlog | None:
    """What waits at this moment; None where the tables are not there yet, or are older than this process."""
    try:
        [row] = await database.fetch(_BACKLOG)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        return None
    found: dict[str, Any] = dict(row)
    pauses = {each.pop("workflow"): OpenPauses(**each) for each in found.pop("open_pauses")}
    return Backlog(open_pauses=pauses, **found)
