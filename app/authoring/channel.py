"""Channels: who is asked, and how they are told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.domain.decision import Decision
from app.domain.ids import CallId, RunId, ThreadId
from app.domain.json import Json
from app.domain.pause import PauseKind


@dataclass(frozen=True, kw_only=True)
class AskRequest:
    """What is about to be asked, as a channel sees it: sensitive values are masked."""

    kind: PauseKind
    workflow: str
    thread_id: ThreadId
    run_id: RunId
    step: str
    message: str
    agent: str | None = None
    tool: str | None = None
    call_id: CallId | None = None
    arguments: Json = None
    options: tuple[str, ...] | None = None
    requested_by: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing that a channel is told. `id` is the same on every attempt, `data` is masked."""

    id: str
    type: str  # as the event: pause.opened, pause.decided, run.completed, …
    timestamp: datetime
    data: Mapping[str, Json]


class Channel:
    """Somebody who can be asked. A channel of one's own overrides `decide` or `notify`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def is_told(self) -> bool:
        """Whether anybody has to be told of what it is asked; an inbox is looked into instead."""
        return type(self).notify is not Channel.notify

    def decide(self, request: AskRequest) -> Decision | None:
        """The decision where it can be given at once, before anything pauses; else None.

        It must depend on the request alone: it may be called again after a crash.
        """
        return None

    async def notify(self, notice: Notice) -> Decision | None:
        """Tells the channel of a notice; may answer with the decision of the pause it speaks of.

        Called by a worker, outside any transaction, at least once: a notice may come again, with
        the same id. An exception is an attempt that failed, and is tried again later.
        """
        return None
