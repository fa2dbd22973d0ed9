"""What goes wrong, as RFC 9457 problems: the one place that knows HTTP statuses of errors."""

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, ClassVar, cast

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.domain.credentials import without_secrets
from app.domain.json import pointer_token
from app.domain.principal import Flaw, Principal
from app.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, SignoffError
from app.watching import logs

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1
"""How soon to come back where the service itself is in the way."""

PRINCIPAL = "signoff.principal"
"""Where a request's scope has who makes it, once that is known."""

MAX_FIELDS = 50
MAX_POINTER = 512
"""Of the wrong fields of one request this many are told, each with a pointer of at most this length."""


class BodyTooLarge(SignoffError):
    """A body of more bytes than the service takes."""

    code = "body_too_large"


class UnsupportedMediaType(SignoffError):
    """A body that does not say that it is JSON."""

    code = "unsupported_media_type"


class TargetTooLong(SignoffError):
    """A path and query of more bytes than the service takes."""

    code = "target_too_long"


class HeadersTooLarge(SignoffError):
    """Headers of more bytes than the service takes."""

    code = "headers_too_large"


class NotSignedIn(SignoffError):
    """A request that does not say who makes it."""

    code = "unauthenticated"


class BadCredential(SignoffError):
    """A credential that is not good: why, is not told to who shows it. `holder` is whose it was, or claims to be."""

    code = "invalid_credential"

    def __init__(self, message: str, *, flaw: Flaw, holder: Principal | None = None) -> None:
        super().__init__(message)
        self.flaw = flaw
        self.holder = holder


class NotReady(SignoffError):
    """This process can take no requests for now."""

    code = "not_ready"


_STATUS_OF_CODE: Mapping[str, int] = {
    NotSignedIn.code: 401,
    BadCredential.code: 401,
    "digest_mismatch": 412,
    "too_many_requests": 429,
    "store_unavailable": 503,
    NotReady.code: 503,
    "issuer_unavailable": 503,
    "encryption_key_absent": 503,
    BodyTooLarge.code: 413,
    TargetTooLong.code: 414,
    UnsupportedMediaType.code: 415,
    HeadersTooLarge.code: 431,
}
_STATUS_OF_FAMILY: Sequence[tuple[type[SignoffError], int]] = (
    (NotFound, 404),
    (Conflict, 409),
    (Invalid, 422),
    (Forbidden, 403),
)


# As RFC 9110 has them; older Pythons say it otherwise.
_TITLES: Mapping[int, str] = {
    413: "Content Too Large",
    414: "URI Too Long",
    422: "Unprocessable Content",
}


class ProblemResponse(Response):
    """A problem as it is sent."""

    media_type: ClassVar[str] = MEDIA_TYPE

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fields: Iterable[FieldError] = (),
        values: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        problem: dict[str, object] = dict(values or {})
        problem |= {
            "type": "about:blank",
            "title": _TITLES.get(status) or HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "code": code,
        }
        if errors := [_field(each) for each in fields][:MAX_FIELDS]:
            problem["errors"] = errors
        own = {"cache-control": "no-store"}
        if status == HTTPStatus.UNAUTHORIZED:
            own["www-authenticate"] = _CHALLENGES[code]
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            own["retry-after"] = str(RETRY_AFTER_SECONDS)
        # Names are quoted, of fields and of what is not there: one may be a key that was pasted in the wrong place.
        told = without_secrets(orjson.dumps(problem, default=str).decode())
        super().__init__(told, status, headers={**own, **(headers or {})})


# RFC 6750, section 3: an error is named only where there was a credential.
_CHALLENGES: Mapping[str, str] = {
    NotSignedIn.code: "Bearer",
    BadCredential.code: 'Bearer error="invalid_token"',
}


def _field(error: FieldError) -> dict[str, str]:
    return {"pointer": error.pointer[:MAX_POINTER], "message": error.message}


def problem_of(error: SignoffError) -> ProblemResponse:
    """The problem that says an error; one that callers cannot act on is logged and not told."""
    status = _status_of(error)
    logs.belongs_to(code=error.code)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request broke", exc_info=error)
        return internal_error()
    told = error.values if status < HTTPStatus.INTERNAL_SERVER_ERROR else {}
    fields = error.fields if isinstance(error, Invalid) else ()
    after = {"retry-after": str(told["retry_after"])} if "retry_after" in told else {}
    return ProblemResponse(
        status, error.code, error.message, fields=fields, values=told, headers=after
    )


def _status_of(error: SignoffError) -> int:
    if status := _STATUS_OF_CODE.get(error.code):
        return status
    for family, status in _STATUS_OF_FAMILY:
        if isinstance(error, family):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def internal_error() -> ProblemResponse:
    """Something broke that nobody has foreseen; the log has it, under the id of the request."""
    return ProblemResponse(500, "internal_error", "The service failed; its log says why.")


@contextmanager
def pointing_into(pointer: str) -> Generator[None]:
    """Makes the pointers of errors, which know only a part of the body, point into the whole of it."""
    try:
        yield
    except Invalid as error:
        error.fields = tuple(
            replace(each, pointer=f"{pointer}{each.pointer}") for each in error.fields
        )
        raise


def install(api: FastAPI) -> None:
    """Answers every error of the application with a problem."""
    api.add_exception_handler(SignoffError, _told)
    api.add_exception_handler(RequestValidationError, _misfit)
    api.add_exception_handler(HTTPException, _refused)


async def _told(request: Request, error: Exception) -> Response:
    who = request.scope.get(PRINCIPAL)
    if isinstance(error, Forbidden) and isinstance(who, Principal):
        logs.belongs_to(by=who.name, credential=who.credential)
    return problem_of(cast("SignoffError", error))


async def _misfit(_: Request, error: Exception) -> Response:
    """A request of the wrong form. What was sent is never quoted: it may be secret."""
    found = cast("RequestValidationError", error).errors()
    fields = [FieldError(pointer=_pointer(each["loc"]), message=each["msg"]) for each in found]
    return problem_of(Invalid("The request does not have the expected form.", fields=fields))


def _pointer(location: Sequence[Any]) -> str:
    """A place in the body as its JSON pointer; another place with where it is in front of it."""
    match location:
        case ("body", *within):
            pass
        case ("header", name):  # in any case, so in one
            within = ("header", str(name).lower())
        case within:
            pass
    return "".join(f"/{pointer_token(str(part)[:MAX_POINTER])}" for part in within)


async def _refused(_: Request, error: Exception) -> Response:
    """What the framework refuses by itself: unknown paths and methods."""
    refused = cast("HTTPException", error)
    code, detail = _REFUSALS.get(
        refused.status_code, ("invalid_request", "The request cannot be taken.")
    )
    return ProblemResponse(refused.status_code, code, detail, headers=refused.headers)


_REFUSALS: Mapping[int, tuple[str, str]] = {
    404: ("not_found", "There is nothing at this path."),
    405: ("method_not_allowed", "This path does not take this method; Allow says which it takes."),
}
