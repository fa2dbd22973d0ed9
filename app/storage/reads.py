"""What is shown: runs with their pauses and steps, and lists by filter and page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, asc, desc, literal, or_, select, tuple_
from sqlalchemy.sql import ColumnElement

from app.domain.ids import DeliveryId, PauseId, RunId, TenantId, ThreadId
from app.domain.json import Json
from app.domain.run import RunStatus
from app.storage.database import Database, Row
from app.storage.tables import audit, deliveries, delivery_attempts, pauses, runs, threads


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in a list: the time and the id of the last item seen."""

    at: datetime
    id: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Which part of a list is wanted."""

    limit: int
    after: Position | None = None


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One page of a list, and where the next one begins."""

    items: list[dict[str, Any]]
    next: Position | None


@dataclass(frozen=True, kw_only=True)
class ThreadFilter:
    """Which threads are wanted, in which order, and from which place of the list on.

    `last` are statuses of a thread's newest run, with None for a thread without runs. The order is by `created_at`,
    `updated_at`, when the newest run was made, taken up, or ended, or `id`.
    """

    limit: int
    offset: int = 0
    ids: Sequence[str] | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    last: Sequence[str | None] | None = None
    order: str = "created_at"
    newest_first: bool = True


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which rows of the audit are wanted: columns that equal something, from one time and until another."""

    equal: Mapping[str, str]
    since: datetime | None = None
    until: datetime | None = None


# A pause as it is shown; what its run knows of it stands beside it.
_PAUSE_JSON = """json_build_object(
  'id', p.id, 'thread_id', p.thread_id, 'run_id', p.run_id, 'workflow', p.workflow, 'sequence', p.sequence,
  'status', p.status, 'level', p.level, 'kind', p.kind, 'channel', p.channel, 'policy', p.policy,
  'shown', p.shown, 'digest', p.digest, 'opened_at', p.opened_at, 'expires_at', p.expires_at,
  'escalated_to', p.escalated_to, 'votes', p.votes,
  'decision', p.decision, 'closed_at', p.closed_at, 'requested_by', r.requested_by, 'metadata', r.metadata)"""

_RUN_JSON = f"""json_build_object(
  'id', r.id, 'thread_id', r.thread_id, 'workflow', r.workflow, 'version', r.version, 'status', r.status,
  'input', r.shown_input, 'output', r.shown_output, 'error', r.error, 'stop_reason', r.stop_reason,
  'metadata', r.metadata, 'requested_by', r.requested_by, 'created_at', r.created_at,
  'started_at', r.started_at, 'finished_at', r.finished_at,
  'pauses', (select coalesce(json_agg({_PAUSE_JSON} order by p.sequence), '[]') from pauses p
             where p.thread_id = r.thread_id and p.run_id = r.id),
  'steps', (select coalesce(json_agg(json_build_object('name', s.name, 'path', s.path, 'type', s.type,
                   'status', s.status, 'output', s.shown_output, 'attempts', s.attempts,
                   'cost', coalesce(c.cost, 0)::text) order by s.position, s.path), '[]')
            from steps s
            left join (select split_part(l.place, '#', 1) as path, sum(l.cost) as cost from ledger l
                       where l.thread_id = r.thread_id and l.run_id = r.id group by 1) c on c.path = s.path
            where s.thread_id = r.thread_id and s.run_id = r.id),
  'usage', (select json_build_object('model_calls', count(*) filter (where l.kind = 'model'),
                   'tool_calls', count(*) filter (where l.kind = 'tool'),
                   'input_tokens', coalesce(sum(l.input_tokens), 0),
                   'output_tokens', coalesce(sum(l.output_tokens), 0),
                   'cost', coalesce(sum(l.cost), 0)::text)
            from ledger l where l.thread_id = r.thread_id and l.run_id = r.id)) as item"""


async def run(
    database: Database, tenant: TenantId, thread_id: ThreadId, run_id: RunId
) -> dict[str, Any] | None:
    """One run with its pauses, its steps and what it cost."""
    row = await database.fetch_row(
        f"select {_RUN_JSON} from runs r where r.thread_id = $1 and r.id = $2 and r.tenant = $3",
        thread_id,
        run_id,
        tenant,
    )
    return row["item"] if row else None


async def pause(database: Database, tenant: TenantId, pause_id: PauseId) -> dict[str, Any] | None:
    """One pause, whatever its thread."""
    row = await database.fetch_row(
        f"select {_PAUSE_JSON} as item from pauses p "
        "join runs r on r.thread_id = p.thread_id and r.id = p.run_id where p.id = $1 and p.tenant = $2",
        pause_id,
        tenant,
    )
    return row["item"] if row else None


async def delivery(
    database: Database, tenant: TenantId, delivery_id: DeliveryId
) -> dict[str, Any] | None:
    """One delivery with its attempts."""
    rows = await database.fetch_composed(
        select(*_DELIVERY).where(deliveries.c.id == delivery_id, deliveries.c.tenant == tenant)
    )
    if not rows:
        return None
    tries = await database.fetch_composed(
        select(*_ATTEMPT)
        .where(
            delivery_attempts.c.thread_id == rows[0]["thread_id"],
            delivery_attempts.c.delivery_id == delivery_id,
        )
        .order_by(delivery_attempts.c.attempt)
    )
    return {**_plain(rows[0]), "attempts": [_plain(row) for row in tries]}


async def list_runs(
    database: Database,
    tenant: TenantId,
    thread_id: ThreadId,
    page: Page,
    *,
    statuses: Sequence[str] | None = None,
    offset: int = 0,
) -> Listed:
    """The runs of a thread, newest first; those of some statuses, after the first few, where it is said."""
    wanted = select(runs.c.id, runs.c.created_at.label("at")).where(
        runs.c.tenant == tenant, runs.c.thread_id == thread_id
    )
    if statuses is not None:
        wanted = wanted.where(runs.c.status.in_(statuses))
    found = await database.fetch_composed(
        _paged(wanted, runs, "created_at", page, newest_first=True).offset(offset)
    )
    rows = await database.fetch(
        f"select {_RUN_JSON} from runs r where r.thread_id = $1 and r.tenant = $2 and r.id = any($3::text[]) "
        "order by r.created_at desc, r.id desc",
        thread_id,
        tenant,
        [row["id"] for row in found[: page.limit]],
    )
    return Listed(items=[row["item"] for row in rows], next=_next(found, page))


async def list_threads(database: Database, tenant: TenantId, page: Page) -> Listed:
    """Threads, newest first."""
    wanted = select(
        threads.c.id,
        threads.c.workflow,
        threads.c.metadata,
        threads.c.created_at,
        threads.c.active_run_id,
        threads.c.active_status,
        threads.c.created_at.label("at"),
    ).where(threads.c.tenant == tenant)
    found = await database.fetch_composed(
        _paged(wanted, threads, "created_at", page, newest_first=True)
    )
    return Listed(items=[_plain(row) for row in found[: page.limit]], next=_next(found, page))


async def find_threads(
    database: Database, tenant: TenantId, wanted: ThreadFilter
) -> list[dict[str, Any]]:
    """Threads, each with its newest run, if it has one."""
    way = "desc" if wanted.newest_first else "asc"
    order = f"{_THREAD_ORDERS[wanted.order]} {way}, t.id {way}"
    last = _without_none(wanted.last)
    rows = await database.fetch(
        _FIND_THREADS.replace(":order", order).replace(":status", _status(last)),
        tenant,
        wanted.ids,
        wanted.metadata,
        last,
        wanted.limit,
        wanted.offset,
    )
    return [_plain(row) for row in rows]


async def count_threads(
    database: Database,
    tenant: TenantId,
    *,
    metadata: Mapping[str, Json],
    last: Sequence[str | None] | None,
) -> int:
    """How many threads there are with some metadata, and with one of some statuses of their newest run."""
    statuses = _without_none(last)
    statement = _COUNT_THREADS.replace(":status", _status(statuses))
    row = await database.fetch_row(statement, tenant, None, metadata, statuses)
    return int(row["count"]) if row else 0


def _without_none(statuses: Sequence[str | None] | None) -> list[str] | None:
    """Statuses as the statements have them: an empty one where there is no run."""
    return None if statuses is None else [each or "" for each in statuses]


def _status(wanted: Sequence[str] | None) -> str:
    """Where a thread has the status of its newest run: in its own row as long as the run is unfinished."""
    is_seated = set(wanted or ()) <= {RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED}
    return "t.active_status" if is_seated else "coalesce(l.status, '')"


_THREAD_ORDERS = {
    "created_at": "t.created_at",
    "updated_at": "coalesce(l.finished_at, l.started_at, l.created_at, t.created_at)",
    "id": "t.id",
}
_WANTED = """
  from threads t left join lateral (
    select r.id, r.status, r.created_at, r.started_at, r.finished_at from runs r
    where r.thread_id = t.id and r.tenant = t.tenant order by r.created_at desc, r.id desc limit 1
  ) l on true
  where t.tenant = $1 and ($2::text[] is null or t.id = any($2)) and t.metadata::jsonb @> $3::json::jsonb
    and ($4::text[] is null or :status = any($4))"""
_COUNT_THREADS = f"select count(*) {_WANTED}"
_FIND_THREADS = f"""
with page as materialized (
  select t.id, t.workflow, t.metadata, t.created_at, t.active_run_id, t.active_status, l.id as last,
         row_number() over (order by :order) as place {_WANTED}
  order by :order limit $5 offset $6
)
select p.id, p.workflow, p.metadata, p.created_at, p.active_run_id, p.active_status,
  (select {_RUN_JSON} from runs r where r.thread_id = p.id and r.tenant = $1 and r.id = p.last) as run
from page p order by p.place
"""


async def list_pauses(
    database: Database, tenant: TenantId, filters: Mapping[str, str], page: Page
) -> Listed:
    """Pauses over all threads, the longest open first. Filters name columns of the table.

    The filter by channel finds also what was escalated to it.
    """
    others = {name: value for name, value in filters.items() if name != "channel"}
    asked = [_asks(filters["channel"])] if "channel" in filters else []
    wanted = select(pauses.c.id, pauses.c.opened_at.label("at")).where(
        pauses.c.tenant == tenant, *_equal(pauses, others), *asked
    )
    found = await database.fetch_composed(
        _paged(wanted, pauses, "opened_at", page, newest_first=False)
    )
    rows = await database.fetch(
        f"select {_PAUSE_JSON} as item from pauses p "
        "join runs r on r.thread_id = p.thread_id and r.id = p.run_id "
        "where p.tenant = $1 and p.id = any($2::text[]) order by p.opened_at, p.id",
        tenant,
        [row["id"] for row in found[: page.limit]],
    )
    return Listed(items=[row["item"] for row in rows], next=_next(found, page))


async def list_deliveries(
    database: Database, tenant: TenantId, filters: Mapping[str, str], page: Page
) -> Listed:
    """Deliveries over all threads, newest first. Filters name columns of the table."""
    wanted = select(*_DELIVERY, deliveries.c.created_at.label("at")).where(
        deliveries.c.tenant == tenant, *_equal(deliveries, filters)
    )
    found = await database.fetch_composed(
        _paged(wanted, deliveries, "created_at", page, newest_first=True)
    )
    return Listed(items=[_plain(row) for row in found[: page.limit]], next=_next(found, page))


async def list_audit(
    database: Database, tenant: TenantId, wanted: AuditFilter, page: Page
) -> Listed:
    """Rows of the audit over all threads, newest first, also of threads that are gone.

    The id of a row, where a page begins, is its hash.
    """
    since = [] if wanted.since is None else [audit.c.at >= wanted.since]
    until = [] if wanted.until is None else [audit.c.at < wanted.until]
    rows = select(audit).where(
        audit.c.tenant == tenant, *_equal(audit, wanted.equal), *since, *until
    )
    if page.after:
        last = tuple_(literal(page.after.at, audit.c.at.type), literal(_bytes(page.after.id)))
        rows = rows.where(tuple_(audit.c.at, audit.c.hash) < last)
    found = await database.fetch_composed(
        rows.order_by(desc(audit.c.at), desc(audit.c.hash)).limit(page.limit + 1)
    )
    more = found[page.limit - 1] if len(found) > page.limit else None
    return Listed(
        items=[dict(row) for row in found[: page.limit]],
        next=Position(at=more["at"], id=more["hash"].hex()) if more else None,
    )


def _bytes(hexadecimal: str) -> bytes:
    """The hash that a cursor names; of one that no list gave, some other place."""
    try:
        return bytes.fromhex(hexadecimal)
    except ValueError:
        return b""


_DELIVERY = [
    deliveries.c[name]
    for name in (
        "id",
        "thread_id",
        "run_id",
        "pause_id",
        "event_type",
        "event_sequence",
        "channel",
        "status",
        "attempts",
        "next_attempt_at",
        "last_error",
        "created_at",
        "delivered_at",
    )
]
_ATTEMPT = [delivery_attempts.c[name] for name in ("attempt", "at", "status", "error", "excerpt")]


def _equal(table: Table, filters: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in filters.items()]


def _asks(channel: str) -> ColumnElement[bool]:
    """Whether a pause asks a channel, from the beginning or since it was escalated."""
    return or_(pauses.c.channel == channel, pauses.c.escalated_to == channel)


def _paged(
    wanted: Select[*tuple[Any, ...]], table: Table, time: str, page: Page, *, newest_first: bool
) -> Select[*tuple[Any, ...]]:
    """One row more than the page holds, which tells whether there is a next one."""
    order = desc if newest_first else asc
    if page.after:
        here = tuple_(table.c[time], table.c.id)
        last = tuple_(literal(page.after.at, table.c[time].type), literal(page.after.id))
        wanted = wanted.where(here < last if newest_first else here > last)
    return wanted.order_by(order(table.c[time]), order(table.c.id)).limit(page.limit + 1)


def _next(found: Sequence[Row], page: Page) -> Position | None:
    if len(found) <= page.limit:
        return None
    last = found[page.limit - 1]
    return Position(at=last["at"], id=last["id"])


def _plain(row: Row) -> dict[str, Json]:
    return {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in row.items()
        if key != "at" or "attempt" in row
    }
