"""Lists in pages: an opaque cursor says where the next one begins."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from app.api.answers import JsonResponse
from app.errors import FieldError, Invalid
from app.lifecycle.read import Listed, Page, Position

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PLACE: Final = re.compile(r"(\d{1,16})\.([A-Za-z0-9][A-Za-z0-9_.:-]{0,127})")


class PageQuery(BaseModel):
    """Which part of a list is wanted."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=20, ge=1, le=100, description="How many items at most.")
    cursor: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Where the page begins: `next` of the page before it. Opaque.",
    )

    def page(self) -> Page:
        """Raises `Invalid` for a cursor that no list gave."""
        return Page(limit=self.limit, after=read_cursor(self.cursor) if self.cursor else None)


def listing(request: Request, listed: Listed) -> JsonResponse:
    """The answer with one page; `Link` has the address of the next one (RFC 8288)."""
    following = write_cursor(listed.next) if listed.next else None
    headers: dict[str, str] = {}
    if following:
        url = request.url.include_query_params(cursor=following)
        headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return JsonResponse({"items": listed.items, "next": following}, headers=headers)


def write_cursor(position: Position) -> str:
    """Microseconds since 1970 and an id, in base64url."""
    place = f"{(position.at - _EPOCH) // _MICROSECOND}.{position.id}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> Position:
    """The position that a cursor stands for; raises `Invalid`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        place = ""
    match = _PLACE.fullmatch(place)
    if match is None:
        wrong = FieldError(pointer="/query/cursor", message="is not the `next` of a list")
        raise Invalid("The cursor cannot be read.", fields=[wrong])
    return Position(at=_EPOCH + int(match[1]) * _MICROSECOND, id=match[2])
