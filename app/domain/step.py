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
    CANCELLED = "cancelled"  # its run ended before it did


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


def status_in_ended_run(status: str, path: str, failed_at: str | None) -> str:
    """How a step of a run that has ended stands, where nobody has noted its own end.

    A step that fails takes those around it with it; everything else that was under way was broken off.
    """
    if status != StepStatus.RUNNING:
        return status
    is_around = failed_at is not None and failed_at.startswith((f"{path}/", f"{path}[", f"{path}~"))
    return StepStatus.FAILED if is_around or failed_at == path else StepStatus.CANCELLED
