"""When a model is asked the same again, and after how long."""

from collections.abc import Mapping

import httpx
from langchain_core.exceptions import ModelError as ProviderFault

from app.engine.models.failures import status_of, told_in_stream
from app.engine.models.streamed import BrokeOff

LONGEST_WAIT = 60.0
"""Seconds between two attempts. A provider that asks for a longer wait is asked again as if it had not."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
"""Seconds before the next attempt: doubled each time, up to the longest."""

_PASSING = frozenset({408, 409, 429})


def is_broken(error: Exception) -> bool:
    """Whether an answer broke off that had begun: no client asks again by itself then."""
    return isinstance(error, BrokeOff) or told_in_stream(error)


def may_pass(error: Exception) -> bool:
    """Whether the same request may well be answered the next time."""
    status = status_of(error)
    if status is not None:
        return status in _PASSING or status >= 500
    if isinstance(error, ProviderFault):
        return error.is_retryable
    return isinstance(error, TimeoutError | ConnectionError | httpx.TransportError)


def pause_before(attempt: int, error: Exception) -> float:
    """Seconds before the `attempt`th repetition, from 1: as the provider asks, else longer each time."""
    asked = _asked_for(getattr(getattr(error, "response", None), "headers", {}))
    if asked is not None and 0 <= asked <= LONGEST_WAIT:
        return asked
    return min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE)


def _asked_for(headers: Mapping[str, str]) -> float | None:
    """Seconds, of `retry-after-ms` or `retry-after`. A date is not heeded: clocks differ."""
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return float(headers[header]) / unit
        except (KeyError, ValueError):
            continue
    return None
