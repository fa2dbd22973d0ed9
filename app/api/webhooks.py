"""What the document says of webhooks: requests that the service makes, and what may be answered to them."""

from typing import Annotated, Any

from fastapi import APIRouter, Header

from app.api import schemas
from app.domain.event import TOLD, EventType

_ID = Header(
    alias="webhook-id",
    description="The same on every attempt at one notice: drop what you have had.",
)
_TIME = Header(
    alias="webhook-timestamp", description="Seconds since 1970 of this attempt: refuse an old one."
)
_SIGNATURE = Header(
    alias="webhook-signature",
    description=(
        "`v1,` and base64 of HMAC-SHA256 over `{id}.{timestamp}.{body}`, one for each secret, space separated. "
        "Left out where the address has no secret."
    ),
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.NoticeAnswer,
        "description": "Taken; `decision`, to a notice about an open pause of a channel, decides it.",
    },
    204: {"description": "Taken."},
    410: {"description": "No more notices are wanted: this one is not tried again."},
    "default": {"description": "Tried again later; `Retry-After` is obeyed where it is longer."},
}
_SAID: dict[EventType, str] = {
    EventType.PAUSE_OPENED: "Somebody has to decide.",
    EventType.PAUSE_REMINDER: "The deadline of an open pause comes near.",
    EventType.PAUSE_ESCALATED: "Another channel is asked too: this one.",
    EventType.PAUSE_DECIDED: "A pause was decided.",
    EventType.PAUSE_EXPIRED: "Nobody decided a pause in time.",
    EventType.PAUSE_CANCELLED: "A pause ended with its run, or a newer run took its place.",
    EventType.RUN_COMPLETED: "A run has its output.",
    EventType.RUN_FAILED: "A run has failed.",
    EventType.RUN_CANCELLED: "A run was cancelled.",
}

router = APIRouter(tags=["webhooks"])


async def _notice(
    body: schemas.Notice,
    webhook_id: Annotated[str, _ID],
    webhook_timestamp: Annotated[int, _TIME],
    webhook_signature: Annotated[str | None, _SIGNATURE] = None,
) -> None:
    """The form of every notice."""


for _type in sorted(TOLD):
    router.add_api_route(
        _type,
        _notice,
        methods=["POST"],
        operation_id=f"told_{_type.replace('.', '_')}",
        summary=_SAID[_type],
        description=_SAID[_type],
        status_code=204,
        responses=_ANSWERS,
    )
