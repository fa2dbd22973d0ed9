"""The steps of a run as they went."""

from dataclasses import dataclass
from enum import StrEnum

from app.domain.json import Json


class StepStatus(StrEnum):
    """Where a step is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One step at one place. `output` is the true value, `shown_output` the masked one."""

    path: str
    name: str
    type: str  # function, agent
    index: int
    status: StepStatus
    attempts: int = 1
    output: Json = None
    shown_output: Json = None
