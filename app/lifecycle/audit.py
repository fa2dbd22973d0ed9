"""The audit: listed, exported, and verified from its first row to its last."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import orjson

from app.domain.audit import FIELDS, NO_THREAD, AuditAction, GoneThread
from app.domain.principal import Principal
from app.lifecycle.site import Site
from app.storage import audit, reads
from app.storage.audit import Head, Link
from app.storage.database import Database
from app.storage.reads import AuditFilter as AuditFilter  # for whoever asks
from app.storage.reads import Listed, Page

View: TypeAlias = dict[str, Any]


async def list_audit(site: Site, principal: Principal, wanted: AuditFilter, page: Page) -> Listed:
    """Rows of the tenant's audit, newest first."""
    listed = await reads.list_audit(site.database, principal.tenant, wanted, page)
    return Listed(items=[_view(row) for row in listed.items], next=listed.next)


def _view(row: Mapping[str, Any]) -> View:
    """A row as auditors see it."""
    is_of_thread = row["thread_id"] != NO_THREAD
    return {
        "at": row["at"].isoformat(),
        "action": row["action"],
        "by": row["by"],
        "via": row["via"],
        "credential": row["credential"],
        "client": row["client"],
        "request_id": row["request_id"],
        "thread_id": row["thread_id"] if is_of_thread else None,
        "run_id": row["run_id"],
        "pause_id": row["pause_id"],
        "digest": row["digest"],
        "data": row["data"],
        "thread_created_at": row["thread_created_at"].isoformat() if is_of_thread else None,
        "sequence": row["sequence"],
        "hash": row["hash"].hex(),
    }


# ── Exporting ────────────────────────────────────────────────────────────────────────────────────


async def exported(
    database: Database, *, tenant: str | None = None, thread_id: str | None = None
) -> AsyncGenerator[str]:
    """Every row as a line of JSON, chain after chain, as of one moment."""
    async for link in audit.chains(database, tenant=tenant, thread_id=thread_id):
        if link.entry and link.hash and thread_id in (None, link.thread_id):
            row = {name: getattr(link.entry, name) for name in FIELDS}
            row |= {"data": orjson.Fragment(link.entry.data), "hash": link.hash}
            yield orjson.dumps({"tenant": link.tenant, **_view(row)}).decode()


Chain: TypeAlias = tuple[str, str, str]
"""What names a chain: its tenant, its thread, and when that was made; both empty for a tenant's own."""


def ends_of(lines: Iterable[str]) -> dict[Chain, Head]:
    """Where the chains ended when they were exported: a hash stands for everything before it.

    Raises `ValueError` for what is not an export.
    """
    ends: dict[Chain, Head] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = orjson.loads(line)
            chain = row["tenant"], row["thread_id"] or "", row["thread_created_at"] or ""
            head = Head(sequence=row["sequence"], hash=bytes.fromhex(row["hash"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {number} is not of an export") from error
        if chain not in ends or ends[chain].sequence < head.sequence:
            ends[chain] = head
    return ends


# ── Verifying ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong with a chain, in words."""

    tenant: str
    thread_id: str | None
    what: str


@dataclass(kw_only=True)
class Verified:
    """What was looked at, and what is wrong with it."""

    chains: int = 0
    rows: int = 0
    faults: list[Fault] = field(default_factory=list[Fault])


async def verify(
    database: Database,
    *,
    tenant: str | None = None,
    thread_id: str | None = None,
    earlier: Mapping[Chain, Head] | None = None,
) -> Verified:
    """Works every hash out again, and compares where each chain ends with the row that keeps count of it.

    `earlier` is where chains ended at an export: against that, even a chain is found out whose hashes somebody
    worked out anew.
    """
    walk = _Walk(earlier=dict(earlier or {}), result=Verified())
    async for link in audit.chains(database, tenant=tenant, thread_id=thread_id):
        walk.take(link)
    walk.end(tenant=tenant, thread_id=thread_id)
    return walk.result


@dataclass(kw_only=True)
class _Walk:
    """The way through all chains. `gone` is where those of deleted threads ended, as their tenant's chain says."""

    earlier: dict[Chain, Head]
    result: Verified
    gone: dict[Chain, Head] = field(default_factory=dict[Chain, Head])
    current: "_ChainWalk | None" = None

    def take(self, link: Link) -> None:
        chain = _chain(link.tenant, link.thread_id, link.thread_created_at)
        if self.current is None or self.current.chain != chain:
            self._finish()
            self.current = _ChainWalk(
                chain=chain, earlier=self.earlier.pop(chain, None), result=self.result
            )
        self.current.take(link)
        if link.entry and link.entry.action == AuditAction.THREAD_DELETED:
            thread = GoneThread.from_json(orjson.loads(link.entry.data))
            end = Head(sequence=thread.sequence, hash=bytes.fromhex(thread.hash or ""))
            self.gone[_chain(link.tenant, thread.thread_id, thread.thread_created_at)] = end

    def end(self, *, tenant: str | None, thread_id: str | None) -> None:
        """Finds the chains of which nothing is there at all."""
        self._finish()
        for chain, head in {**self.earlier, **self.gone}.items():
            is_wanted = tenant in (None, chain[0]) and thread_id in (None, chain[1])
            if is_wanted and head.sequence:
                what = f"all its rows are missing, 1 to {head.sequence}"
                self.result.faults.append(_fault(chain, what))

    def _finish(self) -> None:
        if self.current:
            self.current.end(self.gone.pop(self.current.chain, None))


@dataclass(kw_only=True)
class _ChainWalk:
    """The way along one chain."""

    chain: Chain
    earlier: Head | None
    result: Verified
    sequence: int = 0
    previous: bytes = b""
    head: Head | None = None

    def take(self, link: Link) -> None:
        self.head = link.head
        if link.entry is None or link.hash is None:
            return
        at, expected = link.entry.sequence, self.sequence + 1
        if at != expected:
            self._wrong(f"{_rows(expected, at - 1)} missing")
        elif link.entry.link(self.previous) != link.hash:
            self._wrong(f"row {at} is not as it was written, or not where")
        if self.earlier and self.earlier.sequence == at and self.earlier.hash != link.hash:
            self._wrong(f"row {at} or one before it is another one than was exported")
        self.sequence, self.previous = at, link.hash
        self.result.rows += 1

    def end(self, gone: Head | None) -> None:
        """Compares where the chain ends with where it should."""
        self.result.chains += 1
        head = self.head or gone
        if head is None:
            self._wrong(
                "nothing says where it ends: its thread is gone without having been deleted"
            )
        elif head.sequence > self.sequence:
            self._wrong(f"{_rows(self.sequence + 1, head.sequence)} missing at the end")
        elif head.sequence < self.sequence:
            self._wrong(f"{_rows(head.sequence + 1, self.sequence)} beyond its end")
        elif head.hash != self.previous:
            self._wrong(f"row {self.sequence} is not the one that it ended with")
        if self.earlier and self.earlier.sequence > self.sequence:
            self._wrong(f"row {self.earlier.sequence} was exported, and is missing")

    def _wrong(self, what: str) -> None:
        self.result.faults.append(_fault(self.chain, what))


def _chain(tenant: str, thread_id: str, made: datetime) -> Chain:
    return (tenant, thread_id, "" if thread_id == NO_THREAD else made.isoformat())


def _fault(chain: Chain, what: str) -> Fault:
    return Fault(tenant=chain[0], thread_id=chain[1] or None, what=what)


def _rows(first: int, last: int) -> str:
    return f"row {first} is" if first == last else f"rows {first} to {last} are"
