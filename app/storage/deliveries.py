"""Deliveries: claim the due ones, record an attempt, try a dead one again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.delivery import DeliveryStatus
from app.domain.ids import DeliveryId, PauseId, RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.run import RunRef
from app.storage.database import Database


@dataclass(frozen=True, kw_only=True)
class DueDelivery:
    """A notice that is to be sent now, by the worker that claimed it. `channel` None is the run's callback."""

    id: DeliveryId
    run: RunRef
    pause_id: PauseId | None
    event_type: str
    event_sequence: int
    channel: str | None
    callback: Json
    host: str
    workflow: str
    attempt: int
    at: datetime

    @property
    def address(self) -> str:
        """What may be slow on its own: a channel, or the host of a run's own callback."""
        return self.channel or self.host


# At most $4 an address, so that a slow one cannot fill the hands of a worker; the attempt counts from here,
# and its claim ends by the clock if the worker does.
_CLAIM = """
with ripe as (
  select d.thread_id, d.id, d.next_attempt_at, coalesce(d.channel, {host}) as address
  from deliveries d join runs r on r.thread_id = d.thread_id and r.id = d.run_id
  where d.status = 'pending' and d.next_attempt_at <= clock_timestamp()
), due as (
  select thread_id, id, row_number() over (partition by address order by next_attempt_at) n
  from ripe where address <> all($3::text[])
), picked as (
  select d.thread_id, d.id from deliveries d join due on due.thread_id = d.thread_id and due.id = d.id
  where due.n <= $4 and d.status = 'pending' and d.next_attempt_at <= clock_timestamp()
  limit $2 for update of d skip locked
)
update deliveries d
set attempts = d.attempts + 1, lease_owner = $1,
    next_attempt_at = clock_timestamp() + make_interval(secs => $5::float8)
from picked p, runs r, events e
where d.thread_id = p.thread_id and d.id = p.id and r.thread_id = d.thread_id and r.id = d.run_id
  and e.thread_id = d.thread_id and e.tenant = d.tenant and e.sequence = d.event_sequence
returning d.id, d.thread_id, d.tenant, d.run_id, d.pause_id, d.event_type, d.event_sequence, d.channel,
          d.attempts, r.callback, coalesce({host}, '') as host, r.workflow, e.at
""".format(host="substring(r.callback->>'url' from '^[a-z]+://([^/?#]*)')")

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

_RETRY = """
update deliveries set status = 'pending', next_attempt_at = clock_timestamp(), lease_owner = null
where tenant = $1 and id = $2 and status = 'dead'
returning id
"""

_NEXT = "select min(next_attempt_at) - clock_timestamp() as wait from deliveries where status = 'pending'"


async def claim_due(
    database: Database,
    *,
    worker: str,
    most: int,
    busy: Sequence[str],
    per_address: int,
    lease_seconds: float,
) -> list[DueDelivery]:
    """Takes up to `most` due notices, passing over the `busy` addresses."""
    rows = await database.fetch(_CLAIM, worker, most, list(busy), per_address, lease_seconds)
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
            callback=row["callback"],
            host=row["host"],
            workflow=row["workflow"],
            attempt=row["attempts"],
            at=row["at"],
        )
        for row in rows
    ]


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


async def retry(database: Database, tenant: TenantId, delivery_id: DeliveryId) -> bool:
    """Makes a dead delivery due at once, under the same id; False if it is not dead."""
    return bool(await database.fetch(_RETRY, tenant, delivery_id))
