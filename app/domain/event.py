"""Durable, ordered facts about a run: the same names in streams and in webhooks."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.domain.json import Json


class EventType(StrEnum):
    """What happened."""

    RUN_QUEUED = "run.queued"
    RUN_STARTED = "run.started"
    RUN_PAUSED = "run.paused"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    STEP_STARTED = "step.started"
    STEP_COMPLETED = "step.completed"
    STEP_FAILED = "step.failed"
    STEP_SKIPPED = "step.skipped"
    MODEL_ANSWERED = "model.answered"
    TOOL_STARTED = "tool.started"
    TOOL_FINISHED = "tool.finished"
    PAUSE_OPENED = "pause.opened"
    PAUSE_REMINDER = "pause.reminder"
    PAUSE_ESCALATED = "pause.escalated"
    PAUSE_DECIDED = "pause.decided"
    PAUSE_EXPIRED = "pause.expired"
    PAUSE_CANCELLED = "pause.cancelled"


ENDS: Final = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED})
"""The last event of a run is one of these."""

TOLD: Final = frozenset(each for each in EventType if each.startswith("pause.")) | ENDS
"""The events that webhooks carry."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One fact; `data` is masked. The store gives it its sequence and its time."""

    type: EventType
    data: dict[str, Json] = field(default_factory=dict[str, Json])
