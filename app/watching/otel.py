"""Traces kept by OpenTelemetry: the one place that knows it, and no part of an installation without the extra `otel`.

What is kept, how much of it and where it goes is said by OpenTelemetry's own variables. Whoever has set the process
up already, as `opentelemetry-instrument` does, is listened to; else what the variables name is set up here.
"""

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.domain.credentials import without_secrets
from app.watching import traces
from app.watching.traces import Attribute, Carrier

LONGEST_STATE: Final = 512
"""Characters of a `tracestate` that is passed on; W3C asks for no more."""

_W3C: Final = TraceContextTextMapPropagator()
_KINDS: Final[Mapping[traces.SpanKind, SpanKind]] = {
    "client": SpanKind.CLIENT,
    "internal": SpanKind.INTERNAL,
}
_BY_PROTOCOL: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class CannotTrace(Exception):
    """The variables ask for what is not there; the message says what."""


class _Discreet(trace.TracerProvider):
    """For libraries that make spans of their own: theirs leave out what callers write into addresses."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._provider = provider

    def get_tracer(self, *names: Any, **more: Any) -> trace.Tracer:
        return _DiscreetTracer(self._provider.get_tracer(*names, **more))


class _DiscreetTracer(trace.Tracer):
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, *given: Any, **more: Any) -> trace.Span:
        """The span without the query; a key that somebody sent in the path is not told either."""
        if attributes := more.get("attributes"):
            kept = {name: value for name, value in attributes.items() if name != "url.query"}
            if "url.path" in kept:
                kept["url.path"] = without_secrets(str(kept["url.path"]))
            more["attributes"] = kept
        return self._tracer.start_span(*given, **more)

    def start_as_current_span(self, *given: Any, **more: Any) -> Any:
        return self._tracer.start_as_current_span(*given, **more)


class OtelTracer:
    """A tracer whose spans go where a provider sends them."""

    def __init__(self, provider: trace.TracerProvider, version: str = "") -> None:
        self.provider = _Discreet(provider)
        self._tracer = provider.get_tracer("signoff", version)

    @contextmanager
    def span(
        self,
        name: str,
        *,
        kind: traces.SpanKind,
        attributes: Mapping[str, Attribute | None],
        within: Carrier | None = None,
    ) -> Generator["OtelSpan"]:
        """See `Tracer.span`. What an exception says is left out: it may quote anything."""
        around: Context | None = None
        links: list[Link] = []
        if within is not None:
            around = _W3C.extract(within, context=Context())
            links = _link_to(trace.get_current_span().get_span_context())
        span = self._tracer.start_span(
            name,
            context=around,
            kind=_KINDS[kind],
            attributes=_known(attributes),
            links=links,
        )
        kept = OtelSpan(span)
        token = attach(trace.set_span_in_context(span))
        try:
            yield kept
        except asyncio.CancelledError:
            kept.note({"signoff.outcome": "cancelled"})
            raise
        except BaseException as error:
            kept.fail(getattr(error, "code", type(error).__name__))
            raise
        finally:
            detach(token)
            span.end()

    def carried(self) -> Carrier:
        carrier: Carrier = {}
        _W3C.inject(carrier)
        if len(carrier.get("tracestate", "")) > LONGEST_STATE:
            del carrier["tracestate"]
        return carrier


class OtelSpan:
    """A span of OpenTelemetry."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, attributes: Mapping[str, Attribute | None]) -> None:
        self._span.set_attributes(_known(attributes))

    def tell(self, event: str, attributes: Mapping[str, Attribute]) -> None:
        self._span.add_event(event, attributes)

    def fail(self, error_type: str) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(StatusCode.ERROR)


class Kept:
    """Who keeps the spans of this process: a tracer, and what was opened for it here."""

    def __init__(self, tracer: OtelTracer, opened: TracerProvider | None = None) -> None:
        self.tracer = tracer
        self._opened = opened

    async def aclose(self) -> None:
        """Sends what is not sent yet, for as long as OpenTelemetry's own limits let it."""
        if self._opened is not None:
            await asyncio.to_thread(self._opened.shutdown)


def keeping(exporters: Sequence[str], version: str) -> Kept:
    """Who keeps spans: whoever was set up in this process before, else one who sends them by these exporters.

    Raises `CannotTrace`.
    """
    found = trace.get_tracer_provider()
    if isinstance(found, TracerProvider):
        return Kept(OtelTracer(found, version))
    opened = [_exporter(name) for name in exporters]
    provider = TracerProvider(resource=_resource(version), shutdown_on_exit=False)
    for exporter in opened:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)  # so that spans of tools and of libraries join in
    return Kept(OtelTracer(provider, version), provider)


def _exporter(name: str) -> SpanExporter:
    """By the name that OpenTelemetry knows it by; `otlp` speaks what the variables say, else HTTP."""
    if name == "otlp":
        protocol = _said("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        name = _BY_PROTOCOL.get(protocol, "otlp_proto_http")
    for found in entry_points(group="opentelemetry_traces_exporter", name=name):
        try:
            made: SpanExporter = found.load()()
        except Exception as error:
            raise CannotTrace(f"the exporter {name!r} cannot be made: {error}") from error
        return made
    raise CannotTrace(f"no exporter {name!r} is installed")


def _resource(version: str) -> Resource:
    """As the variables say, under the service's own name where they give it none."""
    said = Resource.create({"service.version": version})
    if str(said.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return said.merge(Resource({SERVICE_NAME: "signoff"}))
    return said


def _said(*variables: str) -> str:
    return next((found for each in variables if (found := os.environ.get(each))), "")


def _link_to(context: trace.SpanContext) -> list[Link]:
    return [Link(context)] if context.is_valid else []


def _known(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None}
