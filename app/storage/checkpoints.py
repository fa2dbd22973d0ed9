"""Where LangGraph's checkpoints live: one saver for whole histories, one for a single advance of a run.

LangGraph's thread id is `{run id}/{line}`. A checkpoint is one row that holds all its values, so nothing is
shared between rows; a write is what one task did since that checkpoint. The newest checkpoint of a line and
namespace and its writes are all that a run needs to go on:

    PostgresCheckpointer   writes at once, keeps everything
    RunCheckpointer        holds the newest in memory; `take` hands out what Postgres does not have yet,
                           the statement of the moment carries it (`save_ctes`), `saved` says it did

Both restore plain values only: a forged row runs no code. Neither serves `DeltaChannel`s, whose value is
spread over a history that is not kept.
"""

import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR

from app.domain.ids import RunId, ThreadId
from app.storage.database import Database, Row
from app.storage.sealing import PLAIN, Vault

# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointRow:
    """One checkpoint of a run; `body` is the type tag, a colon and the bytes, `metadata` JSON text."""

    line: str
    ns: str
    id: str
    parent_id: str | None
    body: bytes
    metadata: str

    def sealed(self, vault: Vault, run_id: RunId) -> bytes:
        """The body as it is stored."""
        return vault.seal_bytes(self.body, *self._place(run_id))

    def opened(self, vault: Vault, run_id: RunId) -> "CheckpointRow":
        """The row with the body that was sealed. Raises `CannotOpen`."""
        return replace(self, body=vault.open_bytes(self.body, *self._place(run_id)))

    def _place(self, run_id: RunId) -> tuple[str, str, str, str, str]:
        return ("checkpoints.body", run_id, self.line, self.ns, self.id)

    @classmethod
    def of(cls, record: Sequence[Any]) -> "CheckpointRow":
        """Reads one element of the `checkpoints` column of `load_columns`."""
        line, ns, id_, parent_id, body, metadata = record
        return cls(
            line=line, ns=ns, id=id_, parent_id=parent_id, body=bytes(body), metadata=metadata
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteRow:
    """One value that a task wrote since the checkpoint it started from."""

    line: str
    ns: str
    checkpoint_id: str
    task_id: str
    idx: int
    task_path: str
    channel: str
    body: bytes

    def sealed(self, vault: Vault, run_id: RunId) -> bytes:
        """The body as it is stored."""
        return vault.seal_bytes(self.body, *self._place(run_id))

    def opened(self, vault: Vault, run_id: RunId) -> "WriteRow":
        """The row with the body that was sealed. Raises `CannotOpen`."""
        return replace(self, body=vault.open_bytes(self.body, *self._place(run_id)))

    def _place(self, run_id: RunId) -> tuple[str, str, str, str, str, str, str]:
        task, idx = self.task_id, str(self.idx)
        return "checkpoint_writes.body", run_id, self.line, self.ns, self.checkpoint_id, task, idx

    @classmethod
    def of(cls, record: Sequence[Any]) -> "WriteRow":
        """Reads one element of the `writes` column of `load_columns`."""
        line, ns, checkpoint_id, task_id, idx, task_path, channel, body = record
        return cls(
            line=line,
            ns=ns,
            checkpoint_id=checkpoint_id,
            task_id=task_id,
            idx=idx,
            task_path=task_path,
            channel=channel,
            body=bytes(body),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaved:
    """What Postgres does not have yet.

    `prunes` are places whose older rows must go: line, namespace and the id to keep, "" for none.
    """

    thread_id: ThreadId
    run_id: RunId
    checkpoints: tuple[CheckpointRow, ...]
    writes: tuple[WriteRow, ...]
    prunes: tuple[tuple[str, str, str], ...]
    upto: int

    @property
    def empty(self) -> bool:
        return not (self.checkpoints or self.writes or self.prunes)

    def arguments(self, vault: Vault = PLAIN) -> tuple[object, ...]:
        """The `SAVE_PARAMETERS` arguments of `save_ctes`, in order."""
        rows, writes, prunes = self.checkpoints, self.writes, self.prunes
        return (
            self.thread_id,
            self.run_id,
            [row.line for row in rows],
            [row.ns for row in rows],
            [row.id for row in rows],
            [row.parent_id for row in rows],
            [row.sealed(vault, self.run_id) for row in rows],
            [row.metadata for row in rows],
            [write.line for write in writes],
            [write.ns for write in writes],
            [write.checkpoint_id for write in writes],
            [write.task_id for write in writes],
            [write.idx for write in writes],
            [write.task_path for write in writes],
            [write.channel for write in writes],
            [write.sealed(vault, self.run_id) for write in writes],
            [line for line, _, _ in prunes],
            [ns for _, ns, _ in prunes],
            [keep for _, _, keep in prunes],
        )


# ── Parts of other statements ────────────────────────────────────────────────────────────────────

SAVE_PARAMETERS = 19
"""How many parameters `save_ctes` takes."""

# The deletes meet other rows than the inserts (another id), as two CTEs of one statement must.
_SAVE_CTES = """
checkpoint_inserts as (
    insert into checkpoints (thread_id, run_id, line, ns, id, parent_id, body, metadata)
    select $1::text, $2::text, c.line, c.ns, c.id, c.parent_id, c.body, c.metadata::json
    from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[])
        as c (line, ns, id, parent_id, body, metadata)
    where exists (select 1 from {gate})
    on conflict (thread_id, run_id, line, ns, id) do update
    set parent_id = excluded.parent_id, body = excluded.body, metadata = excluded.metadata
),
write_inserts as (
    insert into checkpoint_writes
        (thread_id, run_id, line, ns, checkpoint_id, task_id, idx, task_path, channel, body)
    select $1::text, $2::text, w.line, w.ns, w.checkpoint_id, w.task_id, w.idx, w.task_path,
        w.channel, w.body
    from unnest($9::text[], $10::text[], $11::text[], $12::text[], $13::int[], $14::text[],
        $15::text[], $16::bytea[])
        as w (line, ns, checkpoint_id, task_id, idx, task_path, channel, body)
    where exists (select 1 from {gate})
    on conflict (thread_id, run_id, line, ns, checkpoint_id, task_id, idx) do update
    set task_path = excluded.task_path, channel = excluded.channel, body = excluded.body
),
checkpoint_prunes as (
    delete from checkpoints as c
    using unnest($17::text[], $18::text[], $19::text[]) as p (line, ns, keep)
    where c.thread_id = $1::text and c.run_id = $2::text and c.line = p.line and c.ns = p.ns
        and c.id <> p.keep and exists (select 1 from {gate})
),
write_prunes as (
    delete from checkpoint_writes as w
    using unnest($17::text[], $18::text[], $19::text[]) as p (line, ns, keep)
    where w.thread_id = $1::text and w.run_id = $2::text and w.line = p.line and w.ns = p.ns
        and w.checkpoint_id <> p.keep and exists (select 1 from {gate})
)"""

_LOAD_COLUMNS = """
array(
    select row(c.line, c.ns, c.id, c.parent_id, c.body, c.metadata::text)
    from checkpoints as c where c.thread_id = {thread} and c.run_id = {run}
) as checkpoints,
array(
    select row(w.line, w.ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.body)
    from checkpoint_writes as w where w.thread_id = {thread} and w.run_id = {run}
) as writes"""


def save_ctes(*, first_param: int, gate: str) -> str:
    """The CTEs that write an `Unsaved`, its parameters numbered from `first_param`.

    They write only if `gate` has a row: the CTE of the same statement that locked the thread and found that
    the writer holds the run.
    """
    shift = first_param - 1
    shifted = re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + shift}", _SAVE_CTES)
    return shifted.format(gate=gate)


def load_columns(*, thread_id: str, run_id: str) -> str:
    """Two columns, `checkpoints` and `writes`, with the rows of the run that these two expressions name."""
    return _LOAD_COLUMNS.format(thread=thread_id, run=run_id)


# ── Both savers ──────────────────────────────────────────────────────────────────────────────────


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's msgpack, restoring plain values and LangGraph's own types, whatever a row claims."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Raises `ValueError` for a type that `dumps_typed` does not write, JSON constructors among them."""
        if data[0] not in ("msgpack", "null", "bytes", "bytearray"):
            raise ValueError(
                f"A checkpoint row claims to be {data[0]!r}, which is never written here."
            )
        return super().loads_typed(data)


class _AsyncSaver(BaseCheckpointSaver[int]):
    """What both savers share: how values become bytes, and that nothing blocks.

    Versions are LangGraph's default, counted integers: no row shares a value with another, so they need not
    differ between forks.
    """

    serde: SerializerProtocol = StrictSerializer()

    def __init__(self, serde: SerializerProtocol | None = None) -> None:
        if serde is not None:  # checking its protocol costs more than the rest of a saver
            super().__init__(serde=serde)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "_AsyncSaver":
        """Returns itself: state holds plain JSON, so no graph needs more types."""
        return self

    def get_tuple(self, config: RunnableConfig) -> NoReturn:
        raise NotImplementedError(_ASYNC_ONLY)

    def put(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_ASYNC_ONLY)

    def put_writes(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_ASYNC_ONLY)

    def list(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_ASYNC_ONLY)

    def _pack(self, value: Any) -> bytes:
        tag, data = self.serde.dumps_typed(value)
        return b"%s:%s" % (tag.encode(), data)

    def _unpack(self, body: bytes) -> Any:
        tag, _, data = body.partition(b":")
        return self.serde.loads_typed((tag.decode(), data))


_ASYNC_ONLY = "These checkpoints are asynchronous only: use ainvoke, astream and aget_state."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Address:
    """What a LangGraph config points to; without a checkpoint id, the newest."""

    thread_id: str
    run_id: str
    line: str
    ns: str
    checkpoint_id: str | None

    def config(self, checkpoint_id: str) -> RunnableConfig:
        return _config(self.thread_id, self.ns, checkpoint_id)


def _address(config: RunnableConfig) -> _Address:
    configurable = _configurable(config)
    thread_id = str(configurable["thread_id"])
    run_id, line = _split(thread_id)
    return _Address(
        thread_id=thread_id,
        run_id=run_id,
        line=line,
        ns=configurable.get("checkpoint_ns", ""),
        checkpoint_id=configurable.get("checkpoint_id") or None,
    )


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    return {} if config is None else config.get("configurable", {})


def _split(thread_id: str) -> tuple[str, str]:
    run_id, _, line = thread_id.partition("/")
    return run_id, line


def _join(run_id: str, line: str) -> str:
    return f"{run_id}/{line}" if line else run_id


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def _by_index(writes: Sequence[tuple[str, Any]]) -> dict[int, tuple[str, Any]]:
    """The writes by the index they are stored under: errors, interrupts and resumes have fixed ones."""
    return {WRITES_IDX_MAP.get(write[0], index): write for index, write in enumerate(writes)}


# ── The whole history, at once ───────────────────────────────────────────────────────────────────

# Ids and task paths are compared as bytes, as LangGraph does in Python.
_SELECT = """
select c.run_id, c.line, c.ns, c.id, c.parent_id, c.body, c.metadata::text as metadata,
    array(
        select row(w.task_id, w.channel, w.body) from checkpoint_writes as w
        where w.thread_id = c.thread_id and w.run_id = c.run_id and w.line = c.line
            and w.ns = c.ns and w.checkpoint_id = c.id
        order by w.task_path collate "C", w.task_id collate "C", w.idx
    ) as writes
from checkpoints as c"""

_INSERT_CHECKPOINT = """
insert into checkpoints (thread_id, run_id, line, ns, id, parent_id, body, metadata)
values ($1, $2, $3, $4, $5, $6, $7, $8::text::json)
on conflict (thread_id, run_id, line, ns, id) do update
set body = excluded.body, metadata = excluded.metadata"""

# A result stays what it was first; errors, interrupts and resumes (below 0) are what they were last.
_INSERT_WRITES = """
insert into checkpoint_writes
    (thread_id, run_id, line, ns, checkpoint_id, task_id, idx, task_path, channel, body)
select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, w.idx, $7::text, w.channel, w.body
from unnest($8::int[], $9::text[], $10::bytea[]) as w (idx, channel, body)
on conflict (thread_id, run_id, line, ns, checkpoint_id, task_id, idx) do update
set task_path = excluded.task_path, channel = excluded.channel, body = excluded.body
where excluded.idx < 0"""

_DELETE = """
with lines as (select * from unnest($2::text[], $3::text[]) as l (run_id, line)),
gone as (
    delete from checkpoints as c using lines as l
    where c.thread_id = $1 and c.run_id = l.run_id and c.line = l.line
)
delete from checkpoint_writes as w using lines as l
where w.thread_id = $1 and w.run_id = l.run_id and w.line = l.line"""

_KEEP_LATEST = """
with lines as (select * from unnest($2::text[], $3::text[]) as l (run_id, line)),
latest as (
    select c.run_id, c.line, c.ns, max(c.id collate "C") as id
    from checkpoints as c join lines using (run_id, line)
    where c.thread_id = $1
    group by c.run_id, c.line, c.ns
),
gone as (
    delete from checkpoints as c using latest as l
    where c.thread_id = $1 and c.run_id = l.run_id and c.line = l.line and c.ns = l.ns
        and c.id <> l.id
)
delete from checkpoint_writes as w using latest as l
where w.thread_id = $1 and w.run_id = l.run_id and w.line = l.line and w.ns = l.ns
    and w.checkpoint_id <> l.id"""

_DELETE_RUNS = """
with gone as (
    delete from checkpoints
    where thread_id = $1 and (run_id = any($2::text[]) or metadata ->> 'run_id' = any($2::text[]))
    returning run_id, line, ns, id
)
delete from checkpoint_writes as w using gone as g
where w.thread_id = $1 and w.run_id = g.run_id and w.line = g.line and w.ns = g.ns
    and w.checkpoint_id = g.id"""

_COPY = """
with copied as (
    insert into checkpoints (thread_id, run_id, line, ns, id, parent_id, body, metadata)
    select thread_id, $4::text, $5::text, ns, id, parent_id, body, metadata
    from checkpoints where thread_id = $1 and run_id = $2 and line = $3
    on conflict do nothing
)
insert into checkpoint_writes
    (thread_id, run_id, line, ns, checkpoint_id, task_id, idx, task_path, channel, body)
select thread_id, $4::text, $5::text, ns, checkpoint_id, task_id, idx, task_path, channel, body
from checkpoint_writes where thread_id = $1 and run_id = $2 and line = $3
on conflict do nothing"""


class PostgresCheckpointer(_AsyncSaver):
    """Every checkpoint of one thread's runs, each written at once, over a pool and without a lock."""

    def __init__(
        self, database: Database, thread_id: ThreadId, *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde)
        self._database = database
        self._thread_id = thread_id

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread and namespace."""
        query = self._query(config)
        query.equal("c.ns", _address(config).ns)
        records = await self._database.fetch(query.text(limit=1), *query.arguments)
        return self._restore(records[0]) if records else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints that match, newest first; `filter` is contained in their metadata."""
        query = self._query(config)
        query.equal("c.ns", _configurable(config).get("checkpoint_ns"))
        if filter:
            query.holds("c.metadata::jsonb @> {}::text::jsonb", orjson.dumps(filter).decode())
        if bound := _configurable(before).get("checkpoint_id"):
            query.holds('c.id collate "C" < {}', bound)
        for record in await self._database.fetch(query.text(limit=limit), *query.arguments):
            yield self._restore(record)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint and returns the config that names it."""
        address = _address(config)
        full_metadata = get_serializable_checkpoint_metadata(config, metadata)
        await self._database.fetch(
            _INSERT_CHECKPOINT,
            self._thread_id,
            address.run_id,
            address.line,
            address.ns,
            checkpoint["id"],
            address.checkpoint_id,
            self._pack(checkpoint),
            orjson.dumps(full_metadata).decode(),
        )
        return address.config(checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores what a task wrote; results that are there already stay."""
        address = _address(config)
        indexed = _by_index(writes)
        await self._database.fetch(
            _INSERT_WRITES,
            self._thread_id,
            address.run_id,
            address.line,
            address.ns,
            address.checkpoint_id,
            task_id,
            task_path,
            list(indexed),
            [channel for channel, _ in indexed.values()],
            [self._pack(value) for _, value in indexed.values()],
        )

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes everything of one LangGraph thread."""
        await self.aprune([thread_id], strategy="delete")

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, by our run id or by the one in LangGraph's metadata."""
        await self._database.fetch(_DELETE_RUNS, self._thread_id, list(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies the whole history; what the target has under the same id stays."""
        source, target = _split(source_thread_id), _split(target_thread_id)
        await self._database.fetch(_COPY, self._thread_id, *source, *target)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all (`delete`) or all but the newest of each namespace (`keep_latest`)."""
        statements = {"keep_latest": _KEEP_LATEST, "delete": _DELETE}
        if strategy not in statements:
            raise ValueError(f"Unknown strategy {strategy!r}: use one of {', '.join(statements)}.")
        places = [_split(thread_id) for thread_id in thread_ids]
        await self._database.fetch(
            statements[strategy],
            self._thread_id,
            [run_id for run_id, _ in places],
            [line for _, line in places],
        )

    def _query(self, config: RunnableConfig | None) -> "_Query":
        query = _Query()
        query.equal("c.thread_id", self._thread_id)
        if config is not None:
            address = _address(config)
            query.equal("c.run_id", address.run_id)
            query.equal("c.line", address.line)
            query.equal("c.id", address.checkpoint_id)
        return query

    def _restore(self, record: Row) -> CheckpointTuple:
        thread_id = _join(record["run_id"], record["line"])
        ns, parent_id = record["ns"], record["parent_id"]
        return CheckpointTuple(
            config=_config(thread_id, ns, record["id"]),
            checkpoint=self._unpack(record["body"]),
            metadata=orjson.loads(record["metadata"]),
            parent_config=_config(thread_id, ns, parent_id) if parent_id else None,
            pending_writes=[
                (task_id, channel, self._unpack(body))
                for task_id, channel, body in record["writes"]
            ],
        )


@dataclass(kw_only=True, slots=True)
class _Query:
    """A selection of checkpoints, made of the conditions that are asked for."""

    conditions: list[str] = field(default_factory=list[str])
    arguments: list[object] = field(default_factory=list[object])

    def equal(self, column: str, value: str | None) -> None:
        if value is not None:
            self.holds(f"{column} = {{}}", value)

    def holds(self, condition: str, value: object) -> None:
        self.arguments.append(value)
        self.conditions.append(condition.format(f"${len(self.arguments)}"))

    def text(self, *, limit: int | None) -> str:
        where = f"where {' and '.join(self.conditions)}" if self.conditions else ""
        top = "" if limit is None else f"limit {limit:d}"
        return "\n".join([_SELECT, where, 'order by c.id collate "C" desc', top])


# ── One advance of one run, from memory ──────────────────────────────────────────────────────────


@dataclass(kw_only=True, slots=True)
class _Newest:
    """The newest checkpoint of a line and namespace, with the writes since.

    `at` says when each was put, counted. `stored` and `outdated` say what Postgres may hold, if a statement
    whose answer was lost did commit: this checkpoint, older ones in its place.
    """

    row: CheckpointRow
    metadata: CheckpointMetadata
    at: int
    writes: dict[tuple[str, int], tuple[int, WriteRow]]
    stored: bool
    outdated: bool


class RunCheckpointer(_AsyncSaver):
    """The checkpoints of one run while one worker advances it: read from memory, written when it says so.

    Values become bytes when they are put, so what a node does to its state afterwards changes nothing.
    A new checkpoint takes the place of the one before and of its writes, and ends the subgraphs that tasks
    of the one before had run, whether they had reached Postgres or not.

    Statements that carry what `take` returned must not overtake each other: one at a time.
    """

    def __init__(
        self,
        thread_id: ThreadId,
        run_id: RunId,
        *,
        checkpoints: Iterable[CheckpointRow] = (),
        writes: Iterable[WriteRow] = (),
        on_writes: Callable[[str], Awaitable[None]] | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        """Begins with what Postgres holds of the run, if anything.

        `on_writes` is awaited, with the task's id, whenever a task's result has come in, while its siblings
        may still run; not where it was broken off.
        """
        super().__init__(serde)
        self.on_writes = on_writes
        self._thread_id = thread_id
        self._run_id = run_id
        self._clock = 0  # counts what was put
        self._written = 0  # what Postgres has, by that count
        self._gone: dict[tuple[str, str], int] = {}  # places that Postgres may hold and that ended
        self._newest = _loaded(checkpoints, writes)

    @property
    def is_empty(self) -> bool:
        """Whether the run has no checkpoint yet."""
        return not self._newest

    def take(self) -> Unsaved:
        """Everything that Postgres does not have, as of now. It stays unsaved until `saved`."""
        fresh = [newest for newest in self._newest.values() if newest.at > self._written]
        for newest in fresh:
            newest.stored = True
        outdated = [newest.row for newest in fresh if newest.outdated]
        return Unsaved(
            thread_id=self._thread_id,
            run_id=self._run_id,
            checkpoints=tuple(newest.row for newest in fresh),
            writes=tuple(self._unsaved_writes()),
            prunes=(
                *((row.line, row.ns, row.id) for row in outdated),
                *((line, ns, "") for line, ns in self._gone),
            ),
            upto=self._clock,
        )

    def saved(self, unsaved: Unsaved) -> None:
        """Says that the statement which carried `unsaved` has committed."""
        self._written = max(self._written, unsaved.upto)
        self._gone = {place: at for place, at in self._gone.items() if at > unsaved.upto}

    @property
    def kept(self) -> tuple[tuple[CheckpointRow, ...], tuple[WriteRow, ...]]:
        """What Postgres has of the run once everything is saved, to begin with another time."""
        newest = self._newest.values()
        writes = tuple(row for each in newest for _, row in each.writes.values())
        return tuple(each.row for each in newest), writes

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of the line and namespace; an older one is not there any more."""
        address = self._mine(config)
        newest = self._newest.get((address.line, address.ns))
        if newest is None or address.checkpoint_id not in (None, newest.row.id):
            return None
        rows = sorted((row for _, row in newest.writes.values()), key=_in_live_order)
        parent_id = newest.row.parent_id
        return CheckpointTuple(
            config=address.config(newest.row.id),
            checkpoint=self._unpack(newest.row.body),
            metadata=newest.metadata,
            parent_config=address.config(parent_id) if parent_id else None,
            pending_writes=[(row.task_id, row.channel, self._unpack(row.body)) for row in rows],
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Takes a checkpoint in place of the one before it; returns the config that names it."""
        address = self._mine(config)
        row = CheckpointRow(
            line=address.line,
            ns=address.ns,
            id=checkpoint["id"],
            parent_id=address.checkpoint_id,
            body=self._pack(checkpoint),
            metadata=orjson.dumps(metadata).decode(),
        )
        self._replace(row, metadata.copy())
        self._end_subgraphs(row)
        return address.config(row.id)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Takes what a task wrote, unless a newer checkpoint holds it already; results that are there stay."""
        address = self._mine(config)
        newest = self._newest.get((address.line, address.ns))
        if newest is not None and newest.row.id == address.checkpoint_id:
            self._add_writes(newest, writes, task_id, task_path)
        if self.on_writes is not None and all(channel != ERROR for channel, _ in writes):
            await self.on_writes(task_id)

    def _add_writes(
        self, newest: _Newest, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        row, at = newest.row, self._tick()
        for idx, (channel, value) in _by_index(writes).items():
            if idx < 0 or (task_id, idx) not in newest.writes:
                write = WriteRow(
                    line=row.line,
                    ns=row.ns,
                    checkpoint_id=row.id,
                    task_id=task_id,
                    idx=idx,
                    task_path=task_path,
                    channel=channel,
                    body=self._pack(value),
                )
                newest.writes[task_id, idx] = at, write

    def _mine(self, config: RunnableConfig) -> _Address:
        address = _address(config)
        if address.run_id != self._run_id:
            raise ValueError(
                f"These are the checkpoints of {self._run_id}, not of {address.run_id}."
            )
        return address

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _replace(self, row: CheckpointRow, metadata: CheckpointMetadata) -> None:
        place = row.line, row.ns
        older = self._newest.get(place)
        again = older is not None and older.row.id == row.id
        self._newest[place] = _Newest(
            row=row,
            metadata=metadata,
            at=self._tick(),
            writes=older.writes if older is not None and again else {},
            stored=older is not None and again and older.stored,
            outdated=self._gone.pop(place, None) is not None
            or (older is not None and (older.outdated or (older.stored and not again))),
        )

    def _end_subgraphs(self, parent: CheckpointRow) -> None:
        """Forgets the subgraphs that ran in tasks of the checkpoints before `parent`.

        A task's id depends on the checkpoint it starts from, so nobody will ask for them again.
        """
        for place, newest in list(self._newest.items()):
            if (
                place[0] == parent.line
                and _runs_in_a_task(place[1], parent.ns)
                and newest.metadata.get("parents", {}).get(parent.ns) != parent.id
            ):
                del self._newest[place]
                if newest.stored or newest.outdated:
                    self._gone[place] = self._clock

    def _unsaved_writes(self) -> Iterator[WriteRow]:
        for newest in self._newest.values():
            for at, row in newest.writes.values():
                if at > self._written:
                    yield row


def _loaded(
    checkpoints: Iterable[CheckpointRow], writes: Iterable[WriteRow]
) -> dict[tuple[str, str], _Newest]:
    """What Postgres holds, the newest of each place and its writes."""
    newest: dict[tuple[str, str], _Newest] = {}
    for row in sorted(checkpoints, key=lambda row: row.id):
        newest[row.line, row.ns] = _Newest(
            row=row,
            metadata=cast(CheckpointMetadata, orjson.loads(row.metadata)),
            at=0,
            writes={},
            stored=True,
            outdated=(row.line, row.ns) in newest,
        )
    for write in writes:
        place = newest.get((write.line, write.ns))
        if place is not None and place.row.id == write.checkpoint_id:
            place.writes[write.task_id, write.idx] = 0, write
    return newest


def _in_live_order(row: WriteRow) -> tuple[str, str, int]:
    return writes_sort_key(row.task_path, row.task_id, row.idx)


def _runs_in_a_task(ns: str, parent: str) -> bool:
    """Whether `ns`, at any depth, was run by a task of the graph at `parent`.

    A namespace is `node:task|node:task…`; a step without a task is a subgraph that outlives its calls.
    """
    prefix = f"{parent}|" if parent else ""
    below = ns.removeprefix(prefix)
    return ns != parent and ns.startswith(prefix) and ":" in below.partition("|")[0]
