"""Watches the models and tools of a run that is advanced: how long they take, and a span for each.

Who watches belongs to the task, like the ids of its log lines, so what calls a model or a tool need not know.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from app.watching.metrics import Metrics
from app.watching.tracing import UNTRACED, Span, Tracing, Value

Took: TypeAlias = Callable[[str, float], None]
"""Is told the outcome of a call, and its seconds."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who watches the runs of one workflow."""

    workflow: str
    metrics: Metrics
    tracing: Tracing = UNTRACED


_WATCH: Final[ContextVar[Watch | None]] = ContextVar("watch", default=None)


def watched_by(watch: Watch) -> None:
    """Has everything that the current task calls from here on watched."""
    _WATCH.set(watch)


@dataclass(kw_only=True)
class Call:
    """A call that is watched. Its outcome is a word of the service's own."""

    span: Span | None = None
    outcome: str = "done"

    def failed(self, why: str) -> None:
        """It came to nothing, for a reason that quotes nothing."""
        self.outcome = "failed"
        if self.span is not None:
            self.span.failed(why)

    def note(self, **facts: Value | None) -> None:
        """Adds attributes to its span."""
        if self.span is not None:
            self.span.note(**facts)


def model_call(agent: str, model: str) -> AbstractContextManager[Call]:
    """Watches one question to a model."""
    if (watch := _WATCH.get()) is None:
        return nullcontext(Call())
    facts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": agent,
        "gen_ai.request.model": model,
    }
    took = partial(watch.metrics.model_took, watch.workflow, agent)
    return _watched(watch.tracing, f"chat {model}", facts, took)


def tool_call(tool: str, call_id: str) -> AbstractContextManager[Call]:
    """Watches one run of a tool."""
    if (watch := _WATCH.get()) is None:
        return nullcontext(Call())
    facts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
    }
    took = partial(watch.metrics.tool_took, watch.workflow, tool)
    return _watched(watch.tracing, f"execute_tool {tool}", facts, took)


@contextmanager
def _watched(
    tracing: Tracing, name: str, facts: Mapping[str, Value | None], took: Took
) -> Generator[Call]:
    began = time.perf_counter()
    with tracing.span(name, facts=facts) as span:
        call = Call(span=span)
        try:
            yield call
        except asyncio.CancelledError:
            call.outcome = "cancelled"
            raise
        except BaseException as error:
            call.failed(type(error).__name__)
            raise
        finally:
            took(call.outcome, time.perf_counter() - began)
