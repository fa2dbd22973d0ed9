"""What is said when a model's provider failed: what happened, and what to do, never the provider's own words."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import httpx
from langchain_core.exceptions import ContextOverflowError, ModelConnectionError, ModelTimeoutError

from app.engine.models.exchange import ModelError
from app.engine.models.streamed import BrokeOff

CHECK_KEY = "Check its key, in the environment of the process that runs workers."
_LATER = "Its provider has a problem: try again later, or raise retries=."
_LESS = "Give it less to read: a shorter input, a smaller history=, shorter results of tools."
_LOG = "The provider's log says why: a tool's schema, a setting, a limit."
_QUOTA = "Try again later, raise retries=, or have the quota raised."
_SLOW = "Raise timeout=, or have it write less."
_SPELLING = "Check how it is spelled, and whether the key may use it."

_BY_STATUS = {
    400: ("did not take the request", _LOG),
    401: ("refused the credentials", CHECK_KEY),
    403: ("refused the credentials", CHECK_KEY),
    404: ("is not known to the provider", _SPELLING),
    408: ("did not answer in time", _SLOW),
    413: ("was sent more than it takes", _LESS),
    422: ("did not take the request", _LOG),
    429: ("is over its rate limit or quota", _QUOTA),
    529: ("is overloaded", _LATER),
}


class Impatient(TimeoutError):
    """All attempts together took too long."""


@contextmanager
def told_as_model_errors(label: str, patience: float) -> Generator[None]:
    """Turns whatever goes wrong in asking the model `label` into a `ModelError`.

    `patience` are the seconds after which it is given up, all attempts together.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - provider packages raise what they like
        fault, advice = _said_of(error, patience)
        raise ModelError(label, fault, advice=advice, status=status_of(error)) from None


def _said_of(error: Exception, patience: float) -> tuple[str, str]:
    """What happened, and what to do."""
    status = status_of(error)
    match error:
        case ContextOverflowError():
            return "was sent more than fits its context", _LESS
        case Impatient():
            return f"did not answer within {patience:g} s, all attempts together", _SLOW
        case ModelTimeoutError() | TimeoutError() | httpx.TimeoutException():
            return "did not answer in time", _SLOW
        case BrokeOff(__cause__=Exception() as cause):
            return _said_of(cause, patience)
        case BrokeOff():
            return "broke off in the middle of its answer", _LATER
        case ModelConnectionError() | ConnectionError() | httpx.TransportError():
            return "could not be reached, or its connection broke", _LATER
        case _ if status is not None:
            said, advice = _BY_STATUS.get(status, ("answered with an error", _LATER))
            return f"{said} ({', '.join([f'status {status}', *_reason(error)])})", advice
        case _:
            return _said_within(error)


def _said_within(error: Exception) -> tuple[str, str]:
    """The same of what was wrong with an answer that had begun well."""
    if told_in_stream(error):
        told = "told of an error in the middle of its answer"
        return " ".join([told, *(f"({reason})" for reason in _reason(error))]), _LATER
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
        fault = f"sent an answer that cannot be read ({type(error).__name__})"
        return fault, "What answers at its address may speak another protocol."
    return f"failed ({type(error).__name__})", _LATER


def status_of(error: Exception) -> int | None:
    """The HTTP status that the provider failed with, if it did."""
    holders = (error, getattr(error, "response", None))
    found = [getattr(holder, "status_code", None) for holder in holders]
    return next((status for status in found if isinstance(status, int) and status >= 400), None)


def told_in_stream(error: Exception) -> bool:
    """Whether it came as a part of an answer that had begun well."""
    return getattr(error, "body", None) is not None and status_of(error) is None


def _reason(error: Exception) -> list[str]:
    """The provider's code for it, like `insufficient_quota`: a bare word, never a sentence."""
    body = getattr(error, "body", None)
    inner = cast("dict[str, object]", body).get("error") if isinstance(body, dict) else None
    kind = cast("dict[str, object]", inner).get("type") if isinstance(inner, dict) else None
    code = getattr(error, "code", None) or kind
    is_word = isinstance(code, str) and re.fullmatch(r"[a-z0-9_.-]{1,64}", code)
    return [str(code)] if is_word else []
