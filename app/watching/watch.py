"""Watches the models and tools of a run that is advanced: how long they take, and what comes of it.

Who watches belongs to the task, like the ids of its log lines, so what calls a model or a tool need not know.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from app.watching import traces
from app.watching.metrics import Metrics
from app.watching.traces import Span

Took: TypeAlias = Callable[[str, float], None]
"""Is told the outcome of a call, and its seconds."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who watches the runs of one workflow."""

    workflow: str
    metrics: Metrics


_WATCH: Final[ContextVar[Watch | None]] = ContextVar("watch", default=None)


def watched_by(watch: Watch) -> None:
    """Has everything that the current task calls from here on watched."""
    _WATCH.set(watch)


@dataclass(kw_only=True)
class Call:
    """A call that is watched. Its outcome is a word of the service's own."""

    outcome: str = "done"
    span: Span


def model_call(agent: str) -> AbstractContextManager[Call]:
    """Watches one question to a model."""
    if (watch := _WATCH.get()) is None:
        return nullcontext(Call(span=Span()))
    took = partial(watch.metrics.model_took, watch.workflow, agent)
    return _watched(took, traces.model_call(agent))


def tool_call(tool: str, call_id: str) -> AbstractContextManager[Call]:
    """Watches one run of a tool."""
    if (watch := _WATCH.get()) is None:
        return nullcontext(Call(span=Span()))
    took = partial(watch.metrics.tool_took, watch.workflow, tool)
    return _watched(took, traces.tool_call(tool, call_id))


@contextmanager
def _watched(took: Took, traced: AbstractContextManager[Span]) -> Generator[Call]:
    began = time.perf_counter()
    with traced as span:
        call = Call(span=span)
        try:
            yield call
        except asyncio.CancelledError:
            call.outcome = "cancelled"
            raise
        except BaseException:
            call.outcome = "failed"
            raise
        finally:
            took(call.outcome, time.perf_counter() - began)
            span.came_out(call.outcome)
