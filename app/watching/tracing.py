"""Traces as the service speaks of them, and what stands in their place where nobody traces.

A span is a stretch of work with a name. Where it begins under another process's span, or a span that ended
long ago, it is told so by a carrier: the headers of W3C Trace Context.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Final, Protocol, TypeAlias

Carrier: TypeAlias = dict[str, str]
"""`traceparent`, and `tracestate` where there is one."""

Value: TypeAlias = str | int | float | bool
HEADERS: Final = ("traceparent", "tracestate")


class Kind(Enum):
    """Which side of a request a span is on."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class Span(Protocol):
    """A stretch of work that goes on. It is told ids, names and numbers, never what was said."""

    @property
    def trace_id(self) -> str | None: ...

    def note(self, **facts: Value | None) -> None:
        """Adds attributes; `__` in a name stands for a dot, None is left out."""
        ...

    def rename(self, name: str) -> None: ...

    def failed(self, code: str) -> None:
        """Marks it as failed, by a code of the service's own."""
        ...


class Tracing(Protocol):
    """Makes spans."""

    def span(
        self,
        name: str,
        *,
        kind: Kind = Kind.INTERNAL,
        under: Carrier | None = None,
        beside: Carrier | None = None,
        facts: Mapping[str, Value | None] | None = None,
    ) -> AbstractContextManager[Span]:
        """A span for the length of a block, under the carrier's, else under the current one.

        `beside` is another trace that has to do with it.
        """
        ...

    def carrier(self) -> Carrier | None:
        """The current span, for whoever goes on elsewhere or later."""
        ...


class _NoSpan:
    @property
    def trace_id(self) -> str | None:
        return None

    def note(self, **facts: Value | None) -> None: ...

    def rename(self, name: str) -> None: ...

    def failed(self, code: str) -> None: ...


class Untraced:
    """Traces nothing, at the cost of a call."""

    def span(
        self,
        name: str,
        *,
        kind: Kind = Kind.INTERNAL,
        under: Carrier | None = None,
        beside: Carrier | None = None,
        facts: Mapping[str, Value | None] | None = None,
    ) -> AbstractContextManager[Span]:
        return _NOWHERE

    def carrier(self) -> Carrier | None:
        return None


_NOWHERE: Final[AbstractContextManager[Span]] = nullcontext(_NoSpan())
UNTRACED: Final[Tracing] = Untraced()
