"""What the document says of answers: schemas for the good ones, problems for the others, headers for both."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from app.api.schemas import Problem

Responses: TypeAlias = dict[int | str, dict[str, Any]]

_PROBLEMS: Final[Mapping[int, str]] = {
    401: "Nobody is known by the credential: `unauthenticated`, `invalid_credential`.",
    403: "The caller may not do this.",
    404: "There is no such thing: `not_found`.",
    409: "It does not fit what is so by now.",
    412: "The decision is about something else than what the pause shows: `digest_mismatch`.",
    413: "The body is too large: `body_too_large`.",
    414: "Path and query are too long: `target_too_long`.",
    415: "The body is not said to be JSON: `unsupported_media_type`.",
    422: "The request is wrong: `invalid_request`; `errors` say where.",
    429: "The credential has asked too much: `too_many_requests`; `Retry-After` says when to come back.",
    431: "The headers are too large: `headers_too_large`.",
    503: "Postgres cannot be reached; nothing is known to have been written: try again.",
}
_BODY: Final = (413, 415)
_EVERYWHERE: Final = (401, 403, 414, 422, 429, 431, 503)
_COME_BACK: Final = (429, 503)
_HEADERS: Final[Mapping[str, str]] = {
    "Location": "The path of what was made, or of what to look at again.",
    "Content-Location": "The path of the run, from `/langgraph` on.",
    "Retry-After": "Seconds after which to look again.",
    "Preference-Applied": "What of `Prefer` was obeyed.",
    "Idempotency-Replayed": "`true` where the same request was made before, and nothing was done now.",
    "Link": 'The next page, as `rel="next"`.',
}


def answers(
    good: Mapping[int, tuple[type[BaseModel] | None, str, tuple[str, ...]]],
    *problems: int,
    conflicts: tuple[str, ...] = (),
    refusals: tuple[str, ...] = (),
    takes_body: bool = False,
) -> Responses:
    """The answers of a route: the good ones with model, words and headers; then problems by status.

    `conflicts` are the codes that a 409 can have, `refusals` those of a 403 beside `missing_scope`. What every route can answer is added.
    """
    documented: Responses = {status: _good(*each) for status, each in good.items()}
    others = [*problems, *(_BODY if takes_body else ()), *_EVERYWHERE]
    for status in sorted({*others, *((409,) if conflicts else ())}):
        words = _PROBLEMS[status]
        if codes := {403: ("missing_scope", *refusals), 409: conflicts}.get(status):
            words += " Codes: " + ", ".join(f"`{code}`" for code in codes) + "."
        headers = ("Retry-After",) if status in _COME_BACK else ()
        documented[status] = _good(Problem, words, headers)
    return documented


def _good(
    model: type[BaseModel] | None, description: str, headers: tuple[str, ...]
) -> dict[str, Any]:
    said = {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in headers}
    answer: dict[str, Any] = {"description": description}
    if model:
        answer["model"] = model
    if said:
        answer["headers"] = said
    return answer
