"""The tables.

Rows that people and receivers read hold masked values; the columns marked *true* hold what the engine
alone reads. Keys begin with the thread, which is what a distributed Postgres would shard by. JSON is kept
as `json`, so that it reads as it was written.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import UserDefinedType

from app.domain.audit import AuditAction
from app.domain.delivery import DeliveryStatus
from app.domain.pause import PauseKind, PauseLevel, PauseStatus
from app.domain.run import ENDED, RunStatus

metadata = MetaData()


def _one_of(column: str, values: list[str]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in sorted(values))
    return CheckConstraint(f"{column} in ({listed})", name=f"{column}_is_known")


def _time(name: str, *, required: bool = False) -> Column[object]:
    """A moment by the database's clock; a required one is stamped when the row is written."""
    default = text("clock_timestamp()") if required else None
    return Column(name, DateTime(timezone=True), nullable=not required, server_default=default)


def _text(name: str, *, required: bool = True) -> Column[str]:
    return Column(name, Text, nullable=not required)


def _json(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, JSON(none_as_null=True), nullable=not required)


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


class _Transaction(UserDefinedType[str]):
    """The number of a transaction, which does not wrap around."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def _table(name: str, *items: Any, **options: Any) -> Table[Any]:
    return Table(name, metadata, *items, **options)


# A conversation, and the seat of its one unfinished run: the row that every phase locks first. The lease,
# the fence, the counters of events, decisions and audit rows stand here because phases decide on them.
threads = _table(
    "threads",
    _text("id"),
    _text("tenant"),
    _text("workflow", required=False),
    _json("metadata", required=True),
    _time("created_at", required=True),
    _text("active_run_id", required=False),
    _text("active_status", required=False),
    _time("ready_at"),  # since when its run is queued
    _count("fence"),
    _text("lease_owner", required=False),
    _time("lease_until"),
    _count("decisions"),  # stored for the active run; a park that has seen fewer does not park
    _count("event_sequence"),
    _count("audit_sequence"),
    Column("audit_head", LargeBinary, nullable=True),  # the hash of the last audit row
    PrimaryKeyConstraint("id", "tenant"),
    # No run, no status; a lease exactly while a worker has it.
    CheckConstraint("(active_run_id is null) = (active_status is null)", name="seat_is_whole"),
    CheckConstraint(
        "(active_status is not distinct from 'running') = (lease_until is not null)",
        name="lease_while_running",
    ),
    _one_of("active_status", [status for status in RunStatus if status not in ENDED]),
    Index("threads_by_time", "tenant", "created_at", "id"),
    Index("threads_ready", "ready_at", postgresql_where=text("active_status = 'queued'")),
    Index("threads_leased", "lease_until", postgresql_where=text("active_status = 'running'")),
    postgresql_with={"fillfactor": "70"},
)

# One execution of a workflow, from POST to its end.
runs = _table(
    "runs",
    _text("thread_id"),
    _text("id"),
    _text("tenant"),
    _text("workflow"),
    _text("version"),
    _text("fingerprint"),
    _text("status"),
    _json("input"),  # true
    _json("shown_input"),
    _json("output"),  # true
    _json("shown_output"),
    _json("error"),
    _text("stop_reason", required=False),
    _json("metadata", required=True),
    _json("callback"),  # true: it may hold a signing secret
    _text("callback_host", required=False),
    _text("requested_by", required=False),
    _json("trace"),  # W3C Trace Context of the request that started it
    _time("created_at", required=True),
    _time("started_at"),
    _time("finished_at"),
    _time("forgotten_at"),  # since when its events and notices are gone
    PrimaryKeyConstraint("thread_id", "id"),
    ForeignKeyConstraint(["thread_id", "tenant"], ["threads.id", "threads.tenant"]),
    _one_of("status", list(RunStatus)),
    # An end has its time, and only an end.
    CheckConstraint(
        "(finished_at is not null) = (status in ('completed', 'failed', 'cancelled'))",
        name="ended_has_time",
    ),
    # At most one unfinished run a thread.
    Index(
        "runs_one_unfinished",
        "thread_id",
        "tenant",
        unique=True,
        postgresql_where=text("status in ('queued', 'running', 'paused')"),
    ),
    Index(
        "runs_to_forget",
        "finished_at",
        postgresql_where=text("finished_at is not null and forgotten_at is null"),
    ),
)

# One open question, then its answer.
pauses = _table(
    "pauses",
    _text("thread_id"),
    _text("id"),
    _text("tenant"),
    _text("run_id"),
    Column("sequence", BigInteger, nullable=False),  # in its run, from 1
    _text("line"),
    _text("place"),
    _text("interrupt_id", required=False),
    _text("kind"),
    _text("level"),
    _text("status"),
    _text("workflow"),
    _text("channel"),
    _json("shown", required=True),
    _json("secret"),  # true
    _json("policy", required=True),
    _text("digest", required=False),
    _time("opened_at", required=True),
    _time("expires_at"),
    _time("remind_at"),  # cleared when it was done
    _time("escalate_at"),  # cleared when it was done
    _text("escalated_to", required=False),  # the channel that was asked too
    # Each `{by, approved, at, feedback}`; one that is added is looked for in the same breath, so not `json`.
    Column("votes", JSONB, nullable=False, server_default=text("'[]'")),
    _json("decision"),
    _json("answer"),  # true
    _time("closed_at"),
    PrimaryKeyConstraint("thread_id", "id"),
    UniqueConstraint("run_id", "place", name="pauses_one_a_place"),
    ForeignKeyConstraint(["thread_id", "run_id"], ["runs.thread_id", "runs.id"]),
    _one_of("kind", list(PauseKind)),
    _one_of("level", list(PauseLevel)),
    _one_of("status", list(PauseStatus)),
    # Closed has its time; decided has its decision and its answer.
    CheckConstraint("(status = 'open') = (closed_at is null)", name="closed_has_time"),
    CheckConstraint(
        "status <> 'decided' or (decision is not null and answer is not null)", name="decided_whole"
    ),
    Index("pauses_by_id", "id"),
    Index("pauses_by_time", "tenant", "opened_at", "id"),
    Index(
        "pauses_open",
        "tenant",
        "opened_at",
        "id",
        postgresql_include=["workflow"],  # so that they are counted by it without the rows
        postgresql_where=text("status = 'open'"),
    ),
    # What is open is a small part of all, and a page of one channel's a small part of that.
    *(
        Index(
            f"pauses_open_by_{column}",
            "tenant",
            column,
            "opened_at",
            "id",
            postgresql_where=text("status = 'open'"),
        )
        for column in ("workflow", "channel", "kind")
    ),
    Index(
        "pauses_open_escalated",
        "tenant",
        "escalated_to",
        "opened_at",
        "id",
        postgresql_where=text("status = 'open' and escalated_to is not null"),
    ),
    # Without those that wait on past their deadline: they would be passed over each time.
    Index(
        "pauses_due",
        "expires_at",
        postgresql_where=text(
            "status = 'open' and expires_at is not null and policy->>'on_expire' <> 'wait'"
        ),
    ),
    Index(
        "pauses_to_remind",
        "remind_at",
        postgresql_where=text("status = 'open' and remind_at is not null"),
    ),
    Index(
        "pauses_to_escalate",
        "escalate_at",
        postgresql_where=text("status = 'open' and escalate_at is not null"),
    ),
)

# A durable, ordered fact about a run. Who follows a whole tenant reads them by the transaction that wrote.
events = _table(
    "events",
    _text("thread_id"),
    _text("tenant"),
    Column("sequence", BigInteger, nullable=False),
    _text("run_id"),
    _text("type"),
    _json("data", required=True),
    _time("at", required=True),
    Column("xid", _Transaction(), nullable=True, server_default=text("pg_current_xact_id()")),
    PrimaryKeyConstraint("thread_id", "tenant", "sequence"),
    Index("events_in_order", "tenant", "xid"),
)

# One notice to one address.
deliveries = _table(
    "deliveries",
    _text("thread_id"),
    _text("id"),
    _text("tenant"),
    _text("run_id"),
    _text("pause_id", required=False),
    _text("event_type"),
    Column("event_sequence", BigInteger, nullable=False),
    _text("channel", required=False),  # null: the run's own callback
    _text("address"),  # what may be slow on its own: the channel, or the callback's host
    _text("status"),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    _time("next_attempt_at"),
    _text("lease_owner", required=False),
    _text("last_error", required=False),
    _time("created_at", required=True),
    _time("delivered_at"),
    PrimaryKeyConstraint("thread_id", "id"),
    _one_of("status", list(DeliveryStatus)),
    # Only what is pending has a next attempt.
    CheckConstraint(
        "(status = 'pending') = (next_attempt_at is not null)", name="pending_has_attempt"
    ),
    Index("deliveries_by_id", "id"),
    Index("deliveries_by_time", "tenant", "created_at", "id"),
    Index(
        "deliveries_due", "address", "next_attempt_at", postgresql_where=text("status = 'pending'")
    ),
    Index(
        "deliveries_due_callbacks",
        "address",
        "next_attempt_at",
        postgresql_where=text("status = 'pending' and channel is null"),
    ),
    Index(
        "deliveries_dead",
        "tenant",
        "created_at",
        "id",
        postgresql_where=text("status = 'dead'"),
    ),
)

# One try of a delivery, and what came of it.
delivery_attempts = _table(
    "delivery_attempts",
    _text("thread_id"),
    _text("delivery_id"),
    Column("attempt", Integer, nullable=False),
    _time("at", required=True),
    Column("status", Integer, nullable=True),
    _text("error", required=False),
    _text("excerpt", required=False),
    PrimaryKeyConstraint("thread_id", "delivery_id", "attempt"),
)

# Every decision and vote, every attempt at one that was refused, and what else somebody is answerable for. Each
# row has a hash over itself and the hash before it; the rows of a thread are a chain, and outlive the thread.
audit = _table(
    "audit",
    _text("thread_id"),  # empty: it belongs to none
    _text("tenant"),
    Column(
        "thread_created_at", DateTime(timezone=True), nullable=False
    ),  # tells a thread from an earlier one of the same id
    Column("sequence", BigInteger, nullable=False),
    _text("run_id", required=False),
    _text("pause_id", required=False),
    _text("action"),
    _text("by", required=False),
    _text("via"),
    _text("credential", required=False),
    _text("client", required=False),
    _text("request_id", required=False),
    _text("digest", required=False),  # of what was shown
    _json("data", required=True),
    _time("at", required=True),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_id", "tenant", "thread_created_at", "sequence"),
    _one_of("action", list(AuditAction)),
    Index("audit_by_time", "tenant", "at"),
    Index("audit_by_person", "tenant", "by", "at", postgresql_where=text("by is not null")),
    Index(
        "audit_by_credential",
        "tenant",
        "credential",
        "at",
        postgresql_where=text("credential is not null"),
    ),
    Index("audit_of_run", "run_id", postgresql_where=text("run_id is not null")),
    Index("audit_of_pause", "pause_id", postgresql_where=text("pause_id is not null")),
)

# Where the chain of a tenant ends: of what belongs to no thread.
audit_heads = _table(
    "audit_heads",
    _text("tenant"),
    _count("sequence"),
    Column("head", LargeBinary, nullable=True),
    PrimaryKeyConstraint("tenant"),
)

# What the service makes for itself and all its processes share.
service_secrets = _table(
    "service_secrets",
    _text("name"),
    Column("value", LargeBinary, nullable=False),  # true
    _time("created_at", required=True),
    PrimaryKeyConstraint("name"),
)

# The keys that anything may be encrypted with, by their ids; the keys themselves are nowhere.
encryption_keys = _table(
    "encryption_keys",
    _text("id"),
    _time("noted_at", required=True),
    PrimaryKeyConstraint("id"),
)

# What each model call and tool call cost; one row a call, however often it was written.
ledger = _table(
    "ledger",
    _text("thread_id"),
    _text("run_id"),
    _text("place"),
    _text("kind"),
    _text("agent"),
    _text("name"),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_input_tokens", BigInteger, nullable=False),
    Column("cost", Numeric, nullable=False),
    _time("at", required=True),
    PrimaryKeyConstraint("thread_id", "run_id", "place"),
)

# The steps of a run as they went.
steps = _table(
    "steps",
    _text("thread_id"),
    _text("run_id"),
    _text("path"),
    Column("position", Integer, nullable=False),
    _text("name"),
    _text("type"),
    _text("status"),
    Column("attempts", Integer, nullable=False),
    _json("output"),  # true
    _json("shown_output"),
    PrimaryKeyConstraint("thread_id", "run_id", "path"),
)

# What `context.step` stored: run once, over pauses and crashes.
step_results = _table(
    "step_results",
    _text("thread_id"),
    _text("run_id"),
    _text("call_id"),
    _text("name"),
    _json("value"),  # true
    PrimaryKeyConstraint("thread_id", "run_id", "call_id", "name"),
)

# What was said in a completed run, by agent: handed to the thread's next runs.
history = _table(
    "history",
    _text("thread_id"),
    _text("tenant"),
    _text("run_id"),
    _text("agent"),
    _json("messages", required=True),  # true
    _time("at", required=True),
    PrimaryKeyConstraint("thread_id", "tenant", "run_id", "agent"),
)

# LangGraph's checkpoints of unfinished runs; they go when their run ends.
checkpoints = _table(
    "checkpoints",
    _text("thread_id"),
    _text("run_id"),
    _text("line"),
    _text("ns"),
    _text("id"),
    _text("parent_id", required=False),
    Column("body", LargeBinary, nullable=False),  # true
    _json("metadata", required=True),
    PrimaryKeyConstraint("thread_id", "run_id", "line", "ns", "id"),
)

# What the tasks of a checkpoint's next superstep have written so far.
checkpoint_writes = _table(
    "checkpoint_writes",
    _text("thread_id"),
    _text("run_id"),
    _text("line"),
    _text("ns"),
    _text("checkpoint_id"),
    _text("task_id"),
    Column("idx", Integer, nullable=False),
    _text("task_path"),
    _text("channel"),
    Column("body", LargeBinary, nullable=False),  # true
    PrimaryKeyConstraint("thread_id", "run_id", "line", "ns", "checkpoint_id", "task_id", "idx"),
)

# A caller's key, written with what it made: the same request again finds it.
idempotency_keys = _table(
    "idempotency_keys",
    _text("tenant"),
    _text("key"),  # digest of the principal's name and of what they sent
    _text("request"),  # digest of method, path and body
    _text("thread_id", required=False),
    _text("resource", required=False),  # the id of what it made or touched
    _time("created_at", required=True),
    PrimaryKeyConstraint("tenant", "key"),
    Index("idempotency_keys_by_time", "created_at"),
)

# A credential of a principal, who may have several. The secret is shown once, when the key is made.
api_keys = _table(
    "api_keys",
    _text("id"),
    _text("tenant"),
    _text("name"),  # the principal's
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the secret
    _json("groups", required=True),
    _json("scopes", required=True),
    _time("created_at", required=True),
    _time("expires_at"),
    _time("revoked_at"),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("digest", name="api_keys_one_a_secret"),
)

# Somebody who has signed in on the page, with a key (`key_id`) or a token: who that is, until when. The
# secret is in a cookie of their browser alone.
sessions = _table(
    "sessions",
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the secret
    _text("key_id", required=False),
    _text("tenant"),
    _text("name"),  # the principal's
    _json("groups", required=True),
    _json("scopes", required=True),
    _text("credential"),
    _time("created_at", required=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("digest"),
    Index("sessions_by_end", "expires_at"),
)
