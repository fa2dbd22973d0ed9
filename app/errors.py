"""The five families of errors that callers, writers and operators meet.

    SignoffError
    ├── NotFound        what was named does not exist (for this tenant)
    ├── Conflict        what was asked does not fit what is so by now
    ├── Invalid         what was sent is wrong; `fields` say where
    ├── Forbidden       the caller may not do this
    └── AuthoringError  a workflow is written, or the service is set up, wrongly

A concrete error is a subclass beside what raises it, with its own `code`. The HTTP status of a family
is decided at the edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One wrong field: a JSON pointer (RFC 6901) into what was sent, and what is wrong there."""

    pointer: str
    message: str


class SignoffError(Exception):
    """Something that is said to somebody: a fixed `code`, a sentence, and the values it speaks of."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **values: object) -> None:
        super().__init__(message)
        self.message = message
        self.values = values


class NotFound(SignoffError):
    """There is no such thing, or it belongs to another tenant."""

    code = "not_found"


class Conflict(SignoffError):
    """The thing is there, but by now in a state in which this cannot be done."""

    code = "conflict"


class Invalid(SignoffError):
    """What was sent cannot be taken; `fields` name each wrong place."""

    code = "invalid_request"

    def __init__(
        self, message: str, *, fields: Sequence[FieldError] = (), **values: object
    ) -> None:
        super().__init__(message, **values)
        self.fields = tuple(fields)


class Forbidden(SignoffError):
    """The caller is known, but may not do this."""

    code = "forbidden"


class AuthoringError(SignoffError):
    """A mistake of a writer or an operator, found before anything runs."""

    code = "authoring_error"
