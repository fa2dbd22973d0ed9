"""A run's states and moves.

queued ──► running ──► completed | failed | cancelled
  ▲ │         │ ▲
  │ └─────────┼─┼──► cancelled
  │           ▼ │
  └─────── paused ──► cancelled
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.ids import RunId, TenantId, ThreadId
from app.domain.json import Json


class RunStatus(StrEnum):
    """Where a run is."""

    QUEUED = "queued"  # ready to go on; any worker that serves its workflow may claim it
    RUNNING = "running"  # a worker holds its lease
    PAUSED = "paused"  # no line of it can go on without a decision
    COMPLETED = "completed"  # ended with an output
    FAILED = "failed"  # ended with an error
    CANCELLED = "cancelled"  # ended by a person or by a newer run


FOLLOWS: Final = {
    RunStatus.QUEUED: {RunStatus.RUNNING, RunStatus.CANCELLED},
    RunStatus.RUNNING: {
        RunStatus.QUEUED,
        RunStatus.PAUSED,
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
    },
    RunStatus.PAUSED: {RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLED},
    RunStatus.COMPLETED: set[RunStatus](),
    RunStatus.FAILED: set[RunStatus](),
    RunStatus.CANCELLED: set[RunStatus](),
}
"""Which state may follow which; the guarded writes of `storage` say the same."""

ENDED: Final = frozenset(status for status, following in FOLLOWS.items() if not following)
SETTLED: Final = ENDED | {RunStatus.PAUSED}
"""The states a caller waits for."""

WAITING_FOR_APPROVAL: Final = "waiting for approval"
WAITING_FOR_ANSWER: Final = "waiting for an answer"


@dataclass(frozen=True, kw_only=True)
class RunRef:
    """Names one run wherever it is spoken of."""

    tenant: TenantId
    thread_id: ThreadId
    run_id: RunId


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A worker's timed right to write one run: every write carries it and is refused once it is gone."""

    run: RunRef
    worker: str
    fence: int


@dataclass(frozen=True, kw_only=True)
class RunError:
    """Why a run failed, as callers read it."""

    code: str
    message: str
    step: str | None = None
    details: Json = None

    def as_json(self) -> dict[str, Json]:
        optional: dict[str, Json] = {"step": self.step, "details": self.details}
        told = {key: value for key, value in optional.items() if value is not None}
        return {"code": self.code, "message": self.message, **told}
