"""Encryption at rest as a whole: which keys the tables know of, and all true values sealed anew with the first.

`encryption_keys` has the id of every key that anything may be sealed with. A process writes its own there before
it starts, and does not start if it lacks one; an id goes once nothing is sealed with it any more.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import AuthoringError
from app.storage.database import Database, Row, Transaction
from app.storage.sealing import SEALED, SEALED_BYTES, Vault


class KeyMissing(AuthoringError):
    """Values are stored that nobody here could read."""

    code = "encryption_key_missing"


_TABLE = "select to_regclass('encryption_keys') is not null as is_there"
_KNOWN = "select id from encryption_keys"
_NOTE = "insert into encryption_keys (id) values ($1) on conflict do nothing"
_FORGET = "delete from encryption_keys where id <> $1"


async def admit(database: Database) -> bool:
    """Checks that all stored values can be read, and notes the key that new ones are sealed with.

    False if there are no tables yet. Raises `KeyMissing`.
    """
    if not (await database.fetch(_TABLE))[0]["is_there"]:
        return False
    if missing := await missing_keys(database):
        raise KeyMissing(
            f"Stored values are encrypted with the key {', '.join(missing)}, which is not among "
            "SIGNOFF_ENCRYPTION_KEYS: add it, behind the first one."
        )
    if database.vault.first:
        await database.fetch(_NOTE, database.vault.first)
    return True


async def missing_keys(database: Database) -> list[str]:
    """The ids of the keys that stored values may need and that are not here."""
    known = [each["id"] for each in await database.fetch(_KNOWN)]
    return sorted(each for each in known if database.vault.lacks(each))


# ── Sealing anew ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of true values, and the columns that name its row within a run, as its seal does."""

    table: str
    name: str
    row: tuple[str, ...] = ()
    is_bytes: bool = False
    run: str = "run_id"

    @property
    def full(self) -> str:
        return f"{self.table}.{self.name}"

    def stale(self, first: str) -> str:
        """Whether a value is sealed with another key than the first, or not at all."""
        if self.is_bytes:
            begins = f"{SEALED_BYTES.decode()}{first}:"
            return f"substring({self.name} for {len(begins)}) <> '{begins}'::bytea"
        begins = f'{{"{SEALED}":"{first}.'
        return f"{self.name} is not null and left({self.name}::text, {len(begins)}) <> '{begins}'"

    def anew(self, vault: Vault, row: Row) -> object:
        """A row's value, sealed with the first key."""
        place = (self.full, row[self.run], *(str(row[name]) for name in self.row))
        if self.is_bytes:
            return vault.seal_bytes(vault.open_bytes(row[self.name], *place), *place)
        return vault.seal(vault.open(row[self.name], *place), *place)


TRUE_COLUMNS = (
    _Column(table="runs", name="input", run="id"),
    _Column(table="runs", name="output", run="id"),
    _Column(table="runs", name="callback", run="id"),
    _Column(table="pauses", name="secret", row=("id",)),
    _Column(table="pauses", name="answer", row=("id",)),
    _Column(table="steps", name="output", row=("path",)),
    _Column(table="step_results", name="value", row=("call_id", "name")),
    _Column(table="history", name="messages", row=("agent",)),
    _Column(table="checkpoints", name="body", row=("line", "ns", "id"), is_bytes=True),
    _Column(
        table="checkpoint_writes",
        name="body",
        row=("line", "ns", "checkpoint_id", "task_id", "idx"),
        is_bytes=True,
    ),
)
"""Every column that holds true values."""

_PAGE = 500
"""How many threads are looked through at once."""

_THREADS = """
select id, tenant from threads where (id, tenant) > ($1, $2) order by id, tenant limit $3
"""
_LOCK = "select from threads where id = $1 and tenant = $2 for update"


async def seal_anew(database: Database, told: Callable[[int], None]) -> int:
    """Seals with the first key what is not yet, a thread at a time, beside running services; says how many values.

    Afterwards the other keys are not needed any more, unless a process still seals with one of them.
    `told` hears how many threads were looked through.
    """
    if database.vault.first is None:
        raise KeyMissing("SIGNOFF_ENCRYPTION_KEYS has no key to encrypt with.")
    values = threads = 0
    async for page in _pages(database):
        for thread in await _stale_of(database, [each["id"] for each in page]):
            values += await _seal_thread(database, thread["id"], thread["tenant"])
        threads += len(page)
        told(threads)
    values += await _seal_service_secrets(database)
    await database.fetch(_FORGET, database.vault.first)
    return values


async def _seal_service_secrets(database: Database) -> int:
    """Of no run, few, and never changed."""
    column = _Column(table="service_secrets", name="value", is_bytes=True, run="name")
    rows = await database.fetch(
        f"select name, value from service_secrets where {column.stale(database.vault.first or '')}"
    )
    for row in rows:
        await database.fetch(
            "update service_secrets set value = $2 where name = $1",
            row["name"],
            column.anew(database.vault, row),
        )
    return len(rows)


async def _pages(database: Database) -> AsyncGenerator[list[Row]]:
    last = ("", "")
    while page := await database.fetch(_THREADS, *last, _PAGE):
        yield page
        last = page[-1]["id"], page[-1]["tenant"]


def _runs_with(first: str, column: _Column) -> str:
    return f"select thread_id, {column.run} as run_id from {column.table} where thread_id = any($1::text[]) and {column.stale(first)}"


async def _stale_of(database: Database, thread_ids: Sequence[str]) -> list[Row]:
    """Those of the threads that have something to be sealed anew."""
    first = database.vault.first or ""
    stale = "\nunion ".join(_runs_with(first, column) for column in TRUE_COLUMNS)
    return await database.fetch(
        f"select distinct r.thread_id as id, r.tenant from ({stale}) s "
        "join runs r on r.thread_id = s.thread_id and r.id = s.run_id",
        list(thread_ids),
    )


async def _seal_thread(database: Database, thread_id: str, tenant: str) -> int:
    """Locks the thread first, as everybody does, so that nothing is written to its rows meanwhile."""
    async with database.transaction() as store:
        await store.fetch(_LOCK, thread_id, tenant)
        return sum(
            [await _seal_column(store, column, thread_id, tenant) for column in TRUE_COLUMNS]
        )


async def _seal_column(store: Transaction, column: _Column, thread_id: str, tenant: str) -> int:
    keys = tuple(dict.fromkeys((column.run, *column.row)))
    rows = await store.fetch(
        f"select {', '.join(keys)}, {column.name} from {column.table} "
        f"where thread_id = $1 and {column.stale(store.vault.first or '')} "
        f"and {column.run} in (select id from runs where thread_id = $1 and tenant = $2)",
        thread_id,
        tenant,
    )
    same = " and ".join(f"{key} = ${number}" for number, key in enumerate(keys, start=3))
    update = f"update {column.table} set {column.name} = $2 where thread_id = $1 and {same}"
    for row in rows:
        values: list[Any] = [row[key] for key in keys]
        await store.fetch(update, thread_id, column.anew(store.vault, row), *values)
    return len(rows)
