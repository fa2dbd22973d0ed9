"""Events as they happen, and where a stream of them stands: what to ask for next, and when to give up."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import httpx
from httpx_sse import ServerSentEvent
from pydantic import BaseModel

from signoff_client.models import Decided, Json, RunError
from signoff_client.plans import COME_BACK, LONGEST_WAIT, Request, backoff
from signoff_client.problems import Problem, Unreachable, problem_of, retry_after_of


class Event(BaseModel, frozen=True, extra="allow"):
    """A fact about a run, of a type that has no class of its own here.

    `id` is what to go on after. `event_sequence` grows within a thread.
    """

    id: str
    type: str
    timestamp: datetime
    event_sequence: int
    thread_id: str
    run_id: str


class RunEvent(Event, frozen=True):
    """A run is queued, begun, paused, or over. `error` is why it failed."""

    type: Literal[
        "run.queued",
        "run.started",
        "run.paused",
        "run.completed",
        "run.failed",
        "run.cancelled",
    ]
    error: RunError | None = None

    @property
    def is_end(self) -> bool:
        """Whether it is the last of its run."""
        return self.type in _ENDS


class StepEvent(Event, frozen=True):
    """A step has begun or ended; `path` has the steps around it."""

    type: Literal["step.started", "step.completed", "step.failed", "step.skipped"]
    path: str
    name: str
    index: int


class ModelAnswered(Event, frozen=True):
    """A model has answered, with so many calls of tools."""

    type: Literal["model.answered"]
    path: str
    agent: str
    turn: int
    calls: int


class ToolEvent(Event, frozen=True):
    """A call of a tool has begun or ended."""

    type: Literal["tool.started", "tool.finished"]
    path: str
    agent: str
    tool: str
    call_id: str
    failed: bool = False


class PauseEvent(Event, frozen=True):
    """Somebody is asked, reminded, or has decided; or nobody has in time."""

    type: Literal[
        "pause.opened",
        "pause.reminder",
        "pause.escalated",
        "pause.decided",
        "pause.expired",
        "pause.cancelled",
    ]
    pause_id: str
    kind: str | None = None
    channel: str | None = None
    decision: Decided | None = None


class ModelDelta(BaseModel, frozen=True, extra="allow"):
    """A piece of the text that a model is writing; it is told once, and kept nowhere.

    At the `offset` 0 the text of this `path` and `turn` begins, maybe anew.
    """

    type: Literal["model.delta"]
    thread_id: str
    run_id: str
    path: str
    agent: str
    turn: int
    offset: int
    text: str


AnyEvent: TypeAlias = Event | ModelDelta
"""What a stream tells: one of these, or `Event` itself where a newer service tells of something else."""

_ENDS: Final = ("run.completed", "run.failed", "run.cancelled")
_POSITION: Final = "stream.position"
_PATIENCE: Final = 45.0
"""Seconds: three times as long as the service is ever quiet."""

_NOTHING_MORE: Final = 204
_CLASSES: Final[Mapping[str, type[Event | ModelDelta]]] = {
    name: each
    for each in (RunEvent, StepEvent, ModelAnswered, ToolEvent, PauseEvent, ModelDelta)
    for name in get_args(each.model_fields["type"].annotation)
}


class Following:
    """One stream of events, over all the connections that it takes."""

    def __init__(
        self, *, path: str, query: Mapping[str, str], after: str | None, retries: int, ends: bool
    ) -> None:
        self.is_over = False
        self._path, self._query = path, query
        self._last = after
        self._retries, self._failures, self._come_back = retries, 0, 0.0
        self._ends = ends

    @property
    def request(self) -> Request:
        """The request that goes on where the stream is."""
        headers = {"accept": "text/event-stream"}
        if self._last is not None:
            headers["last-event-id"] = self._last
        return Request(
            method="GET", url=self._path, query=self._query, headers=headers, patience=_PATIENCE
        )

    def opens(self, answer: httpx.Response) -> bool:
        """Whether there are events in the answer. The body of one that is no success has been read.

        Raises:
            Problem: The service refused, and would again.
        """
        if answer.status_code == _NOTHING_MORE:
            self.is_over = True
        elif not answer.is_success:
            problem = problem_of(answer)
            if answer.status_code not in COME_BACK:
                raise problem
            self._fail(problem, retry_after_of(answer) or 0)
        return answer.status_code == 200

    def take(self, told: ServerSentEvent) -> AnyEvent | None:
        """The event that was told, unless it only says where the stream is."""
        if not told.data:
            return None  # a comment: the service is there
        self._failures, self._come_back = 0, 0.0
        self._last = told.id or self._last
        if told.event == _POSITION:
            return None
        self.is_over = self._ends and told.event in _ENDS
        return _read(told)

    def breaks_off(self, error: httpx.TransportError) -> None:
        """The connection was lost. Raises `Unreachable` where that has happened too often without an event."""
        unreachable = Unreachable(f"The stream broke off: {str(error) or type(error).__name__}.")
        unreachable.__cause__ = error
        self._fail(unreachable, 0)

    @property
    def rest(self) -> float:
        """Seconds until the next request."""
        return max(self._come_back, backoff(self._failures))

    def _fail(self, error: Problem | Unreachable, come_back: float) -> None:
        if self._failures >= self._retries or come_back > LONGEST_WAIT:
            raise error
        self._failures += 1
        self._come_back = come_back


def _read(told: ServerSentEvent) -> AnyEvent:
    body = cast("dict[str, Json]", told.json())
    flat: dict[str, Any] = {**body.pop("data"), **body, "id": told.id}
    return _CLASSES.get(told.event, Event).model_validate(flat)
