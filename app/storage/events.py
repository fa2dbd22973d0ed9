"""Events as they are read by who follows a run, or everything of a tenant.

Within a thread, events are numbered without gaps under the lock of its row, so a number is a place to go on
from. Over threads there is no such number: what is committed later may have begun earlier. There the place
is the transaction that wrote, and only what is older than every transaction under way is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.domain.ids import RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.run import ENDED, SETTLED, RunRef
from app.storage.database import Database, Row


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in everything of a tenant something stands."""

    transaction: int
    thread_id: str = ""
    sequence: int = 0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """An event as it was written."""

    thread_id: ThreadId
    run_id: RunId
    sequence: int
    type: str
    data: Mapping[str, Json]
    at: str
    place: Place


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a look gave. `has_more` where there was more than was taken at once."""

    events: list[Recorded]
    has_more: bool


@dataclass(frozen=True, kw_only=True)
class ReadOfTenant(Read):
    """All before `upto` has been seen; `is_held_up` where older things than the next ones may still come."""

    upto: Place
    is_held_up: bool


MOST: Final = 100
MOST_BYTES: Final = 1 << 20
"""How many events are taken at once, and how large they are together, as they are stored, but for the last."""

_COLUMNS = (
    "e.thread_id, e.run_id, e.sequence, e.type, e.data, e.at, coalesce(e.xid::text, '0') as xid"
)


def _taken(found: str, order: str) -> str:
    """The first of what was found that are not too large together, each beside how many were found."""
    return f"""
select * from (
  select f.*, count(*) over () as found,
         sum(pg_column_size(f.data)) over (order by {order}) - pg_column_size(f.data) as before
  from ({found}) f
) w where w.before < {MOST_BYTES} order by {order}"""


_OF_RUN = _taken(
    f"""
  select {_COLUMNS} from events e
  where e.thread_id = $1 and e.tenant = $2 and e.run_id = $3 and e.sequence > $4
  order by e.sequence limit {MOST}""",
    "sequence",
)


# The last of a tenant, from the end of the index. Asked whether there `exists` one after a place, Postgres would
# guess that a third of all is, and go through the table for the first.
def _last(tenant: str) -> str:
    return f"""(
  select l.xid from events l where l.tenant = {tenant} and l.xid is not null order by l.xid desc limit 1)"""


_OF_TENANT = f"""
with now as materialized (select pg_snapshot_xmin(pg_current_snapshot()) as horizon)
select now.horizon::text, e.*, coalesce({_last("$1")} >= now.horizon, false) as is_held_up
from now left join lateral ({
    _taken(
        f'''
  select {_COLUMNS}, e.xid as transaction from events e
  where e.tenant = $1 and e.xid >= $2::text::xid8 and e.xid < now.horizon
    and (e.xid, e.thread_id, e.sequence) > ($2::text::xid8, $3::text, $4::bigint)
    and ($5::text[] is null or e.type = any($5))
  order by e.xid, e.thread_id, e.sequence limit {MOST}''',
        "transaction, thread_id, sequence",
    )
}) e on true
"""

_HAS_MORE = """
select r.status, t.event_sequence as newest, exists (
  select from events e where e.thread_id = $1 and e.tenant = $2 and e.run_id = $3 and e.sequence > $4
) as has_more
from runs r join threads t on t.id = r.thread_id and t.tenant = r.tenant where r.thread_id = $1 and r.tenant = $2 and r.id = $3
"""

_HORIZON = "select pg_snapshot_xmin(pg_current_snapshot())::text as horizon"

_MOVED = """
select f.n, t.event_sequence from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as f(thread_id, tenant, seen, n)
join threads t on t.id = f.thread_id and t.tenant = f.tenant and t.event_sequence > f.seen
"""

_MOVED_TENANTS = f"""
select f.n from unnest($1::text[], $2::text[]) with ordinality as f(tenant, xid, n)
where {_last("f.tenant")} >= f.xid::xid8
"""


@dataclass(frozen=True, kw_only=True)
class Left:
    """How a run stands, whether it has events after a number, and the number of its thread's newest one."""

    is_over: bool
    is_settled: bool
    has_more: bool
    newest: int


async def left(database: Database, run: RunRef, *, after: int) -> Left | None:
    """What is left to follow of a run; None if there is no such run."""
    row = await database.fetch_row(_HAS_MORE, run.thread_id, run.tenant, run.run_id, after)
    if row is None:
        return None
    status = row["status"]
    return Left(
        is_over=status in ENDED,
        is_settled=status in SETTLED,
        has_more=row["has_more"],
        newest=row["newest"],
    )


async def of_run(database: Database, run: RunRef, *, after: int) -> Read:
    """The events of a run after a number, in order."""
    rows = await database.fetch(_OF_RUN, run.thread_id, run.tenant, run.run_id, after)
    return Read(events=[_recorded(row) for row in rows], has_more=_has_more(rows))


async def of_tenant(
    database: Database, tenant: TenantId, *, after: Place, types: Sequence[str] | None
) -> ReadOfTenant:
    """The events of a tenant after a place, in an order that nothing can be put into later."""
    rows = await database.fetch(
        _OF_TENANT,
        tenant,
        str(after.transaction),
        after.thread_id,
        after.sequence,
        types,
    )
    events = [_recorded(row) for row in rows if row["sequence"] is not None]
    horizon, has_more = Place(transaction=int(rows[0]["horizon"])), bool(events) and _has_more(rows)
    return ReadOfTenant(
        events=events,
        has_more=has_more,
        upto=events[-1].place if has_more else horizon,
        is_held_up=rows[0]["is_held_up"],
    )


def _has_more(rows: Sequence[Row]) -> bool:
    return bool(rows) and (rows[0]["found"] == MOST or len(rows) < rows[0]["found"])


async def now(database: Database) -> Place:
    """The place at which events stand that are written from now on."""
    row = await database.fetch_row(_HORIZON)
    return Place(transaction=int(row["horizon"] if row else 0))


async def moved(database: Database, runs: Sequence[tuple[RunRef, int]]) -> dict[int, int]:
    """Which of the runs have events beyond the number beside them, by index; with the number of the last."""
    rows = await database.fetch(
        _MOVED,
        [run.thread_id for run, _ in runs],
        [run.tenant for run, _ in runs],
        [seen for _, seen in runs],
    )
    return {row["n"] - 1: row["event_sequence"] for row in rows}


async def moved_tenants(
    database: Database, tenants: Sequence[tuple[TenantId, Place]]
) -> frozenset[int]:
    """Which of the tenants have events from the place beside them on, by index."""
    rows = await database.fetch(
        _MOVED_TENANTS,
        [tenant for tenant, _ in tenants],
        [str(place.transaction) for _, place in tenants],
    )
    return frozenset(row["n"] - 1 for row in rows)


def _recorded(row: Row) -> Recorded:
    thread_id, sequence = ThreadId(row["thread_id"]), int(row["sequence"])
    data: dict[str, Any] = row["data"]
    return Recorded(
        thread_id=thread_id,
        run_id=RunId(row["run_id"]),
        sequence=sequence,
        type=row["type"],
        data=data,
        at=row["at"].isoformat(),
        place=Place(transaction=int(row["xid"]), thread_id=thread_id, sequence=sequence),
    )
