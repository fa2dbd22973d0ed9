"""Deadlines of open pauses: which are due, what is told before them, and how they are moved."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import asyncpg

from app.domain.audit import Actor, data_text
from app.domain.event import EventType
from app.domain.ids import PauseId, new_delivery_id
from app.domain.json import Json
from app.storage.audit import ONE_SEEN, one_entry
from app.storage.database import Database
from app.storage.deliveries import address
from app.storage.pauses import IS_LATE, READ, PauseRow, pause_of
from app.storage.runs import Key, KeyTaken

Warned: TypeAlias = Literal[EventType.PAUSE_REMINDER, EventType.PAUSE_ESCALATED]
"""What is told before a deadline, once."""

# `now()`, which unlike the clock is the same for the whole statement, so that an index can be asked.
_DUE = (
    READ
    + """
where p.status = 'open' and p.expires_at <= now() and p.policy->>'on_expire' <> 'wait'
  and r.fingerprint = any($1::text[])
order by p.expires_at limit $2
"""
)


def _to_warn(column: str) -> str:
    return f"""{READ}
where p.status = 'open' and p.{column} <= now() and not {IS_LATE} and r.fingerprint = any($1::text[])
order by p.{column} limit $2
"""


# Locks the thread, then clears what says when, if nobody has yet: the row count decides who tells.
def _warning(column: str, further: str = "") -> str:
    return f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), pause as (
  update pauses p set {column} = null {further}
  from lk
  where p.thread_id = lk.id and p.tenant = lk.tenant and p.id = $3 and p.run_id = lk.active_run_id
    and p.status = 'open' and p.{column} <= clock_timestamp() and not {IS_LATE}
  returning p.id, p.run_id
), seat as (
  update threads t set event_sequence = t.event_sequence + 1
  from pause, lk where t.id = lk.id and t.tenant = lk.tenant
), told as (
  insert into events (thread_id, tenant, sequence, run_id, type, data)
  select $1, $2, lk.event_sequence + 1, pause.run_id, $4::text, $5::json from pause, lk
), notice as (
  insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, address,
                          status, next_attempt_at)
  select $1, d.id, $2, pause.run_id, pause.id, $4::text, lk.event_sequence + 1, d.channel,
         {address("pause.run_id")}, 'pending', clock_timestamp()
  from pause, lk, json_to_recordset($6::json) as d(id text, channel text)
)
select id from pause
"""


_COLUMNS: dict[Warned, str] = {
    EventType.PAUSE_REMINDER: "remind_at",
    EventType.PAUSE_ESCALATED: "escalate_at",
}
_TO_WARN = {event: _to_warn(column) for event, column in _COLUMNS.items()}
_WARN: dict[Warned, str] = {
    EventType.PAUSE_REMINDER: _warning("remind_at"),
    EventType.PAUSE_ESCALATED: _warning("escalate_at", ", escalated_to = p.policy->>'escalate_to'"),
}


# What was told already is told again only where there is time for it; what was not, at once if need be.
def _moved(column: str, before: str) -> str:
    moment = f"$4 - make_interval(secs => (p.policy->>'{before}')::float8)"
    return f"""{column} = case when p.{column} is not null or {moment} > clock_timestamp()
                      then {moment} end"""


_EXTENDED_SEEN = one_entry(
    "pause, lk",
    run_id="pause.run_id",
    pause_id="pause.id",
    action="'extended'::text",
    by="$5::text",
    via="$6::text",
    credential="$7::text",
    client="$8::text",
    request_id="$9::text",
    digest="pause.digest",
    data="$12::text::json",
)

_EXTEND = f"""
with lk as materialized (
  select * from threads where id = $1 and tenant = $2 for update
), pause as (
  update pauses p
  set expires_at = $4,
      {_moved("remind_at", "remind_before")},
      {_moved("escalate_at", "escalate_before")}
  from lk
  where p.thread_id = lk.id and p.tenant = lk.tenant and p.id = $3 and p.run_id = lk.active_run_id
    and p.status = 'open' and p.expires_at is not null and not {IS_LATE}
    and $4::timestamptz > clock_timestamp()
  returning p.id, p.run_id, p.digest
), {_EXTENDED_SEEN}, seat as (
  update threads t set {ONE_SEEN}
  from linked where t.id = linked.thread_id and t.tenant = linked.tenant
), key as (
  insert into idempotency_keys (tenant, key, request, thread_id, resource)
  select $2, $10, $11, $1, pause.id from pause where $10::text is not null
)
select id from pause
"""


async def due(database: Database, *, fingerprints: Sequence[str], most: int) -> list[PauseRow]:
    """Open pauses whose deadline has passed and whose ask says what happens then, oldest first.

    Only those of the workflows that are served here: nobody else's can be closed.
    """
    rows = await database.fetch(_DUE, list(fingerprints), most)
    return [pause_of(row, database.vault) for row in rows]


async def to_warn(
    database: Database, event: Warned, *, fingerprints: Sequence[str], most: int
) -> list[PauseRow]:
    """Open pauses of which something is to be told by now, before their deadline, oldest first."""
    rows = await database.fetch(_TO_WARN[event], list(fingerprints), most)
    return [pause_of(row, database.vault) for row in rows]


async def warn(
    database: Database,
    event: Warned,
    pause: PauseRow,
    *,
    data: dict[str, Json],
    channels: Sequence[str | None],
) -> bool:
    """Writes that a deadline comes near, with the notices; False if it was written before, or is too late.

    `channels` are told (None is the run's callback).
    """
    notices = [{"id": new_delivery_id(), "channel": channel} for channel in channels]
    run = pause.run
    rows = await database.fetch(
        _WARN[event], run.thread_id, run.tenant, pause.id, event, data, notices
    )
    return bool(rows)


async def extend(
    database: Database,
    pause: PauseRow,
    expires_at: datetime,
    actor: Actor,
    *,
    key: Key | None,
) -> PauseId | None:
    """Moves the deadline of an open pause; None if it has none, is not open any more, or the time has passed.

    Raises `KeyTaken` if the idempotency key was used before.
    """
    try:
        row = await database.fetch_row(
            _EXTEND,
            pause.run.thread_id,
            pause.run.tenant,
            pause.id,
            expires_at,
            *actor.columns,
            key and key.key,
            key and key.request,
            data_text({"expires_at": expires_at.astimezone(UTC).isoformat()}),
        )
    except asyncpg.UniqueViolationError as error:
        raise KeyTaken from error
    return PauseId(row["id"]) if row else None
