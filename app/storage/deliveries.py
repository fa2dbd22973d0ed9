"""Deliveries: claim the due ones, record an attempt, try a dead one again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.audit import Actor, data_text
from app.domain.delivery import DeliveryStatus
from app.domain.ids import DeliveryId, PauseId, RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.run import RunRef
from app.storage.audit import ONE_SEEN, one_entry
from app.storage.database import Database
from app.watching.traces import Carrier


@dataclass(frozen=True, kw_only=True)
class DueDelivery:
    """A notice that is to be sent now, by the worker that claimed it. `channel` None is the run's callback.

    `address` is what may be slow on its own: the channel, or the callback's host.
    """

    id: DeliveryId
    run: RunRef
    pause_id: PauseId | None
    event_type: str
    event_sequence: int
    channel: str | None
    callback: Json
    address: str
    workflow: str
    attempt: int
    at: datetime
    age: float
    """Seconds since it was written, when it was claimed."""
    trace: Carrier | None
    """The one that its run is in."""


def address(run: str) -> str:
    """Where a notice `d` goes, for the statement that writes it: its channel, else the host of the run's callback.

    `run` is the id of its run in that statement, whose `$1` is the thread.
    """
    host = f"select r.callback_host from runs r where r.thread_id = $1 and r.id = {run}"
    return f"coalesce(d.channel, ({host}), '')"


PER_ADDRESS: Final = 4
"""How many notices one worker sends to one address at the same time, so that a slow one delays no other."""

# Looks at the channels that are served here, and steps from address to address of callbacks in their index: notices
# that nobody here may send are not passed over, however many there are. Each address gives as many as it has hands
# left, and all give one before any gives a second. The attempt counts from here, and its claim ends by the clock if
# the worker does. The inner limit is a constant, and the run is looked at row by row, so that Postgres takes the
# first rows of the index and does not sort all that are due.
_CLAIM = f"""
with recursive callback as (
  (select address from deliveries where status = 'pending' and channel is null order by address limit 1)
  union all
  select (select d.address from deliveries d
          where d.status = 'pending' and d.channel is null and d.address > callback.address
          order by d.address limit 1)
  from callback where callback.address is not null
), known as (
  select address from callback where address is not null
  union
  select channel from unnest($7::text[]) channel
), picked as materialized (
  select due.thread_id, due.id
  from known
  left join unnest($4::text[], $5::int[]) as busy(address, hands) using (address)
  cross join lateral (
    select ripe.*, row_number() over (order by ripe.next_attempt_at) as n
    from (
      select d.thread_id, d.id, d.next_attempt_at
      from deliveries d
      where d.address = known.address and d.status = 'pending' and d.next_attempt_at <= now()
        and (d.channel is null
             or exists (select from runs r where r.thread_id = d.thread_id and r.id = d.run_id
                        and (r.workflow, d.channel) in (select * from unnest($6::text[], $7::text[]))))
      order by d.next_attempt_at limit {PER_ADDRESS}
      for update of d skip locked
    ) ripe
  ) due
  where coalesce(busy.hands, 0) < {PER_ADDRESS}
    and due.n <= {PER_ADDRESS} - coalesce(busy.hands, 0)
  order by due.n, due.next_attempt_at limit $2
)
update deliveries d
set attempts = d.attempts + 1, lease_owner = $1,
    next_attempt_at = clock_timestamp() + make_interval(secs => $3::float8)
from picked p, runs r, events e
where d.thread_id = p.thread_id and d.id = p.id and r.thread_id = d.thread_id and r.id = d.run_id
  and e.thread_id = d.thread_id and e.tenant = d.tenant and e.sequence = d.event_sequence
returning d.id, d.thread_id, d.tenant, d.run_id, d.pause_id, d.event_type, d.event_sequence, d.channel,
          d.address, d.attempts, r.callback, r.workflow, r.trace, e.at,
          extract(epoch from clock_timestamp() - d.created_at)::float8 as age
"""

_KEEP = """
update deliveries d set next_attempt_at = clock_timestamp() + make_interval(secs => $2::float8)
from unnest($3::text[], $4::text[]) as kept(thread_id, id)
where d.thread_id = kept.thread_id and d.id = kept.id and d.lease_owner = $1 and d.status = 'pending'
"""

_RECORD = """
with mine as (
  update deliveries
  set status = $5, last_error = $6, lease_owner = null,
      next_attempt_at = case when $5 = 'pending'
                             then clock_timestamp() + make_interval(secs => $7::float8) end,
      delivered_at = case when $5 = 'delivered' then clock_timestamp() end
  where thread_id = $1 and id = $2 and lease_owner = $3 and attempts = $4
  returning thread_id, id
)
insert into delivery_attempts (thread_id, delivery_id, attempt, status, error, excerpt)
select thread_id, id, $4, $8, $6, $9 from mine
on conflict do nothing
"""

_RETRIED_SEEN = one_entry(
    "retried, lk",
    run_id="retried.run_id",
    pause_id="retried.pause_id",
    action="'retried'::text",
    by="$3::text",
    via="$4::text",
    credential="$5::text",
    client="$6::text",
    request_id="$7::text",
    digest="null::text",
    data="$8::text::json",
)
_RETRY = f"""
with lk as materialized (
  select t.* from threads t join deliveries d on d.thread_id = t.id and d.tenant = t.tenant
  where d.tenant = $1 and d.id = $2 for update of t
), retried as (
  update deliveries d set status = 'pending', next_attempt_at = clock_timestamp(), lease_owner = null
  from lk where d.thread_id = lk.id and d.tenant = $1 and d.id = $2 and d.status = 'dead'
  returning d.id, d.run_id, d.pause_id
), {_RETRIED_SEEN}, seat as (
  update threads t set {ONE_SEEN} from linked where t.id = linked.thread_id and t.tenant = linked.tenant
)
select id from retried
"""


async def claim_due(
    database: Database,
    *,
    worker: str,
    most: int,
    under_way: Mapping[str, int],
    served: Collection[tuple[str, str]],
    lease_seconds: float,
) -> list[DueDelivery]:
    """Takes up to `most` due notices, and of one address at most `PER_ADDRESS` with those `under_way`.

    `served` are the channels that can be told from here, each with its workflow; callbacks anybody may tell.
    """
    rows = await database.fetch(
        _CLAIM,
        worker,
        most,
        lease_seconds,
        list(under_way),
        list(under_way.values()),
        [workflow for workflow, _ in served],
        [channel for _, channel in served],
    )
    return [
        DueDelivery(
            id=DeliveryId(row["id"]),
            run=RunRef(
                tenant=TenantId(row["tenant"]),
                thread_id=ThreadId(row["thread_id"]),
                run_id=RunId(row["run_id"]),
            ),
            pause_id=PauseId(row["pause_id"]) if row["pause_id"] else None,
            event_type=row["event_type"],
            event_sequence=row["event_sequence"],
            channel=row["channel"],
            callback=database.vault.open(row["callback"], "runs.callback", row["run_id"]),
            address=row["address"],
            workflow=row["workflow"],
            attempt=row["attempts"],
            at=row["at"],
            age=row["age"],
            trace=row["trace"],
        )
        for row in rows
    ]


async def keep(
    database: Database, under_way: Sequence[DueDelivery], *, worker: str, lease_seconds: float
) -> None:
    """Keeps the claims of notices that are still being sent."""
    threads = [each.run.thread_id for each in under_way]
    await database.fetch(_KEEP, worker, lease_seconds, threads, [each.id for each in under_way])


async def record(
    database: Database,
    delivery: DueDelivery,
    *,
    worker: str,
    status: DeliveryStatus,
    error: str | None,
    http_status: int | None,
    excerpt: str | None,
    wait: timedelta,
) -> None:
    """Writes what came of an attempt; nothing if another worker has the delivery by now."""
    await database.fetch(
        _RECORD,
        delivery.run.thread_id,
        delivery.id,
        worker,
        delivery.attempt,
        status,
        error,
        wait.total_seconds(),
        http_status,
        excerpt,
    )


async def retry(
    database: Database, tenant: TenantId, delivery_id: DeliveryId, actor: Actor
) -> bool:
    """Makes a dead delivery due at once, under the same id; False if it is not dead."""
    rows = await database.fetch(
        _RETRY,
        tenant,
        delivery_id,
        *actor.columns,
        data_text({"delivery_id": delivery_id}),
    )
    return bool(rows)
