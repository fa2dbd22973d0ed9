"""Traces: what a span is of, and what it says. Who keeps spans is not known here, and mostly nobody does.

    request ─┬─► run, from its start or a decision to its next pause or its end ─► model calls, tool calls
             ├─► decision
             └─► delivery

All that is done for a run is in the trace of the request that started it, however long it waits and whichever
process goes on with it: its row carries the context. Spans have names that writers declare, ids, counts and codes;
never what callers, people or models say. The names are those of the semantic conventions for HTTP and for
generative models, where there are any. The span of a request is FastAPI's own.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, Literal, Protocol, TypeAlias

Carrier: TypeAlias = dict[str, str]
"""A trace's context as headers: `traceparent`, and `tracestate` if there is one (W3C Trace Context)."""

Attribute: TypeAlias = str | int
SpanKind: TypeAlias = Literal["client", "internal"]


class KeptSpan(Protocol):
    """A span of whoever keeps them."""

    def note(self, attributes: Mapping[str, Attribute | None]) -> None:
        """Adds what is not None."""
        ...

    def tell(self, event: str, attributes: Mapping[str, Attribute]) -> None:
        """Adds something that happened at this moment."""
        ...

    def fail(self, error_type: str) -> None: ...


class Tracer(Protocol):
    """Whoever keeps spans."""

    @property
    def provider(self) -> object:
        """OpenTelemetry's own, for libraries that make spans of theirs."""
        ...

    def span(
        self,
        name: str,
        *,
        kind: SpanKind,
        attributes: Mapping[str, Attribute | None],
        within: Carrier | None = None,
    ) -> AbstractContextManager[KeptSpan]:
        """A span for the length of the block, which fails where it raises.

        It belongs to what is carried and is linked to the span around it; without a carrier it belongs to that.
        """
        ...

    def carried(self) -> Carrier:
        """The context of the innermost span around."""
        ...


class Span:
    """A span that says what became of it; without one that is kept, it says nothing."""

    def __init__(self, kept: KeptSpan | None = None) -> None:
        self._kept = kept

    def asked(self, kind: str) -> None:
        """The run asks somebody."""
        if self._kept is not None:
            self._kept.tell("pause.opened", {"signoff.pause.kind": kind})

    def settled(self, status: str, code: str | None = None) -> None:
        """The run has paused or ended; `code` says why it failed."""
        if self._kept is not None:
            self._kept.note({"signoff.run.status": status})
            if code:
                self._kept.fail(code)

    def model_answered(
        self, model: str, finish: str, input_tokens: int, output_tokens: int, cached: int
    ) -> None:
        """A model has answered."""
        if self._kept is not None:
            self._kept.note(
                {
                    "gen_ai.response.model": model,
                    "signoff.model.finish": finish,
                    "gen_ai.usage.input_tokens": input_tokens,
                    "gen_ai.usage.output_tokens": output_tokens,
                    "gen_ai.usage.cache_read.input_tokens": cached or None,
                }
            )

    def came_out(self, outcome: str) -> None:
        """A call has come out so; what raised has failed already."""
        if self._kept is not None:
            self._kept.note({"signoff.outcome": outcome})
            if outcome == "failed":
                self._kept.fail("tool_error")

    def delivered(self, outcome: str, status: int | None) -> None:
        """A notice was tried."""
        if self._kept is not None:
            self._kept.note({"signoff.outcome": outcome, "http.response.status_code": status})
            if outcome != "delivered":
                self._kept.fail(str(status) if status else "not_delivered")


_NOTHING: Final = nullcontext(Span())
_TRACER: Final[ContextVar[Tracer | None]] = ContextVar("tracer", default=None)
"""Whoever keeps the spans of what the current task does."""


class Traces:
    """The traces of one process; none without a tracer."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer

    @property
    def provider(self) -> object | None:
        """What makes the spans of requests; None where nobody keeps them."""
        return self._tracer and self._tracer.provider

    def carried(self) -> Carrier | None:
        """The context of the request that is answered; None where nobody keeps spans."""
        return None if self._tracer is None else self._tracer.carried()

    def run(
        self, carrier: Carrier | None, *, workflow: str, thread_id: str, run_id: str
    ) -> AbstractContextManager[Span]:
        """A run while it is advanced, in the trace that it was started in."""
        if self._tracer is None:
            return _NOTHING
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.agent.name": workflow,
            "gen_ai.conversation.id": thread_id,
            "signoff.run.id": run_id,
        }
        name = f"invoke_workflow {workflow}"
        return _kept(self._tracer, name, "internal", attributes, carrier or {})

    def decision(
        self, carrier: Carrier | None, *, kind: str, via: str, pause_id: str, run_id: str
    ) -> AbstractContextManager[Span]:
        """A decision that is written, in its run's trace and linked to the request that brought it."""
        if self._tracer is None:
            return _NOTHING
        attributes = {
            "signoff.pause.kind": kind,
            "signoff.decision.via": via,
            "signoff.pause.id": pause_id,
            "signoff.run.id": run_id,
        }
        return _kept(self._tracer, f"decide {kind}", "internal", attributes, carrier or {})

    def delivery(
        self,
        carrier: Carrier | None,
        *,
        event_type: str,
        channel: str,
        attempt: int,
        delivery_id: str,
        run_id: str,
    ) -> AbstractContextManager[Span]:
        """An attempt at a notice, in its run's trace."""
        if self._tracer is None:
            return _NOTHING
        attributes: dict[str, Attribute] = {
            "signoff.event.type": event_type,
            "signoff.channel": channel,
            "signoff.delivery.id": delivery_id,
            "signoff.delivery.attempt": attempt,
            "signoff.run.id": run_id,
        }
        return _kept(self._tracer, f"deliver {event_type}", "client", attributes, carrier or {})


def model_call(agent: str) -> AbstractContextManager[Span]:
    """One question to a model, in what the current task does."""
    if (tracer := _TRACER.get()) is None:
        return _NOTHING
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.agent.name": agent}
    return _kept(tracer, f"chat {agent}", "client", attributes)


def tool_call(tool: str, call_id: str) -> AbstractContextManager[Span]:
    """One run of a tool, in what the current task does."""
    if (tracer := _TRACER.get()) is None:
        return _NOTHING
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
    }
    return _kept(tracer, f"execute_tool {tool}", "internal", attributes)


def carried() -> Carrier | None:
    """The context of what the current task does; None where nobody keeps spans."""
    tracer = _TRACER.get()
    return None if tracer is None else tracer.carried()


def exporters_named(environment: Mapping[str, str]) -> list[str]:
    """The exporters that OpenTelemetry's variables ask for; none where they ask for no traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    named = environment.get("OTEL_TRACES_EXPORTER", "")
    if not named and any(environment.get(each) for each in _ADDRESSES):
        named = "otlp"
    return [each for name in named.split(",") if (each := name.strip()) not in ("", "none")]


_ADDRESSES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def _kept(
    tracer: Tracer,
    name: str,
    kind: SpanKind,
    attributes: Mapping[str, Attribute],
    within: Carrier | None = None,
) -> Generator[Span]:
    """A span, within which the calls of the current task have theirs."""
    with tracer.span(name, kind=kind, attributes=attributes, within=within) as kept:
        token = _TRACER.set(tracer)
        try:
            yield Span(kept)
        finally:
            _TRACER.reset(token)
