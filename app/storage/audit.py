"""The audit: rows in chains, each written by the statement of what it tells, with its hash worked out there.

A thread's chain has its head in the thread's row, which every phase locks first: so a chain never forks, and
threads do not wait for each other. What belongs to no thread, like keys, is in a chain of its tenant, whose
head is in `audit_heads`. That row is always the last one to be locked.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from app.domain.audit import FIELDS, NO_THREAD, Actor, AuditAction, Entry, data_text
from app.domain.ids import TenantId
from app.domain.json import Json
from app.storage.database import Database, Row, Transaction

# ── Parts of other statements ────────────────────────────────────────────────────────────────────

_COLUMNS = ", ".join([*FIELDS, "hash"])


def _item(field: str) -> str:
    """One field of a row's text; `app.domain.audit` says what that is."""
    text = f'w."{field}"::text'
    if field in ("at", "thread_created_at"):
        text = f"(extract(epoch from w.{field}) * 1000000)::bigint::text"
    return f"coalesce(length({text}) || ':' || {text}, '-')"


TEXT = " || ".join(_item(field) for field in FIELDS)
"""The text of a row `w`, of which the hash is made."""


def _hash(previous: str) -> str:
    return f"sha256(coalesce({previous}, '') || convert_to({TEXT}, 'UTF8'))"


def _entries(fields: str, source: str, *, locked: str, number: str) -> str:
    return f"""entry as materialized (
  select {locked}.tenant, {locked}.id as thread_id, {locked}.created_at as thread_created_at,
         {locked}.audit_sequence + {number} as sequence, {locked}.audit_head, {number} as n,
         clock_timestamp() as at, {fields}
  from {source}
)"""


_WATCHED = f"""watched as (
  insert into audit ({_COLUMNS}) select {_COLUMNS} from linked
)"""

ONE_SEEN = "audit_sequence = linked.sequence, audit_head = linked.hash"
"""How the locked row learns of the entry of `one_entry`, in an update that is joined with `linked`."""


def one_entry(source: str, **fields: str) -> str:
    """The CTEs that write one row of the audit, of the thread that the CTE `lk` has locked.

    `source` is what the entry is made from, `lk` among it: no row of it, no entry. `fields` are expressions,
    one for each column that the thread does not give.
    """
    listed = ", ".join(f"{value} as {name}" for name, value in fields.items())
    return f"""{_entries(listed, source, locked="lk", number="1")}, linked as materialized (
  select w.*, {_hash("w.audit_head")} as hash from entry w
), {_WATCHED}"""


MANY_SEEN = """audit_sequence = t.audit_sequence + (select count(*) from linked),
      audit_head = coalesce((select hash from linked order by n desc limit 1), t.audit_head)"""
"""How the locked row `t` learns of the entries of `many_entries`."""


def many_entries(source: str, *, locked: str, number: str, **fields: str) -> str:
    """The same for several rows, whose `number` counts from 1; the statement must begin `with recursive`."""
    listed = ", ".join(f"{value} as {name}" for name, value in fields.items())
    return f"""{_entries(listed, source, locked=locked, number=number)}, linked as (
  select w.*, {_hash("w.audit_head")} as hash from entry w where w.n = 1
  union all
  select w.*, {_hash("linked.hash")} from linked join entry w on w.n = linked.n + 1
), {_WATCHED}"""


# ── What belongs to no thread ────────────────────────────────────────────────────────────────────

_HEAD = "insert into audit_heads (tenant) values ($1) on conflict do nothing"

_NOTE = f"""
with lk as materialized (
  select tenant, '{NO_THREAD}'::text as id, 'epoch'::timestamptz as created_at,
         sequence as audit_sequence, head as audit_head
  from audit_heads where tenant = $1 for update
), {
    one_entry(
        "lk",
        run_id="$9::text",
        pause_id="$10::text",
        action="$2::text",
        by="$3::text",
        via="$4::text",
        credential="$5::text",
        client="$6::text",
        request_id="$7::text",
        digest="null::text",
        data="$8::text::json",
    )
}
update audit_heads h set sequence = linked.sequence, head = linked.hash
from linked where h.tenant = linked.tenant
"""


async def note(
    store: Transaction,
    tenant: TenantId,
    action: AuditAction,
    actor: Actor,
    data: dict[str, Json],
    *,
    run_id: str | None = None,
    pause_id: str | None = None,
) -> None:
    """Writes what belongs to no thread into the chain of its tenant; the last thing of a transaction."""
    await store.fetch(_HEAD, tenant)
    said = data_text(data)
    await store.fetch(_NOTE, tenant, action, *actor.columns, said, run_id, pause_id)


# ── The whole of it ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Head:
    """Where a chain ends, by the row that keeps count of it."""

    sequence: int
    hash: bytes | None


@dataclass(frozen=True, kw_only=True)
class Link:
    """One row of a chain as it is stored, and where the chain ends; None where nobody keeps count of it any more.

    A chain that has a head and no rows is one `Link` without an entry.
    """

    tenant: str
    thread_id: str
    thread_created_at: datetime
    entry: Entry | None
    hash: bytes | None
    head: Head | None


# One statement is one moment: rows and heads belong together, whatever is written meanwhile.
_ALL = f"""
with heads as (
  select tenant, id as thread_id, created_at as thread_created_at, audit_sequence as head_sequence,
         audit_head as head_hash
  from threads where audit_sequence > 0
  union all
  select tenant, '{NO_THREAD}', 'epoch', sequence, head from audit_heads
)
select tenant, thread_id, thread_created_at, a.sequence, a.at, a.action, a.run_id, a.pause_id, a.by, a.via,
       a.credential, a.client, a.request_id, a.digest, a.data::text as data, a.hash, h.head_sequence, h.head_hash
from audit a full join heads h using (tenant, thread_id, thread_created_at)
where ($1::text is null or tenant = $1) and ($2::text is null or thread_id in ($2, '{NO_THREAD}'))
order by thread_id, tenant, thread_created_at, a.sequence
"""

_PATIENCE = 3600.0
"""Seconds that Postgres may take to sort all of it."""


async def chains(
    database: Database, *, tenant: str | None = None, thread_id: str | None = None
) -> AsyncGenerator[Link]:
    """Every row in the order of its chain, one chain after the other, those of tenants first.

    A tenant's own chain comes along where a thread is named: it knows of threads that are gone.
    """
    async with database.transaction() as store:
        async for row in store.stream(_ALL, tenant, thread_id, seconds=_PATIENCE):
            yield _link(row)


def _link(row: Row) -> Link:
    has_head = row["head_sequence"] is not None
    return Link(
        tenant=row["tenant"],
        thread_id=row["thread_id"],
        thread_created_at=row["thread_created_at"],
        entry=None if row["hash"] is None else Entry(**{name: row[name] for name in FIELDS}),
        hash=row["hash"],
        head=Head(sequence=row["head_sequence"], hash=row["head_hash"]) if has_head else None,
    )
