"""What to do, apart from doing it: a plan yields requests and waits, is sent their answers, and returns a result.

So that what to send, when to try again and how to read the answer is written once, for the sync client and for
the async one; httpx has its authentication written in the same way.
"""

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import httpx
from pydantic import TypeAdapter

from signoff_client.problems import Problem, Unreachable, problem_of, retry_after_of

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request. Whatever is here may be sent again: a POST has the key that makes it happen once.

    `url` is a path, or a whole address; `patience` are the seconds that the service may keep the answer back.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None
    patience: float = 0


@dataclass(frozen=True)
class Wait:
    """Do nothing for a while."""

    seconds: float


Step: TypeAlias = Request | Wait
Plan: TypeAlias = Generator[Step, Any, T]

COME_BACK: Final = frozenset({429, 502, 503, 504})
"""Statuses that say nothing against asking again."""

LONGEST_WAIT: Final = 60.0
"""Seconds. Who is told to come back later than this is told so, and not kept waiting."""

_HOPELESS: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_FIRST_WAIT: Final = 0.25
_LONGEST_BACKOFF: Final = 8.0


def ask(request: Request, *, retries: int) -> Plan[httpx.Response]:
    """The good answer to a request, which is made again where that may help.

    Raises:
        Unreachable: There was no answer.
        Problem: The service refused.
    """
    for failures in range(retries + 1):
        is_last = failures == retries
        try:
            answer: httpx.Response = yield request
        except httpx.TransportError as error:
            if is_last or isinstance(error, _HOPELESS):
                raise Unreachable(_said(error)) from error
            yield Wait(backoff(failures))
            continue
        if answer.is_success or (failures and _is_gone(request, answer)):
            return answer
        seconds = max(retry_after_of(answer) or 0.0, backoff(failures))
        if is_last or answer.status_code not in COME_BACK or seconds > LONGEST_WAIT:
            raise problem_of(answer)
        yield Wait(seconds)
    raise AssertionError("the last try returns or raises")


def backoff(failures: int) -> float:
    """Seconds until the next try: twice as long each time, and never the same for two who failed together."""
    return min(_FIRST_WAIT * 2**failures, _LONGEST_BACKOFF) * random.uniform(0.8, 1.2)  # noqa: S311


def _is_gone(request: Request, answer: httpx.Response) -> bool:
    """Whether an earlier try, whose answer was lost, deleted it."""
    return request.method == "DELETE" and answer.status_code == 404


def _said(error: httpx.TransportError) -> str:
    return f"The service cannot be reached: {str(error) or type(error).__name__}."


_ANY = TypeAdapter[Any](Any)


def json_of(value: object) -> bytes:
    """JSON of a value; pydantic's models, dataclasses, times and the like may be in it."""
    return _ANY.dump_json(value)


def read(answer: httpx.Response, adapter: TypeAdapter[T]) -> T:
    """The value of a good answer.

    Raises:
        Problem: It is no answer of this service.
    """
    try:
        return adapter.validate_json(answer.content)
    except ValueError as error:
        told = {"detail": f"What answers at {answer.url} is no Signoff that this client knows."}
        raise Problem(answer.status_code, told, retry_after=None) from error
