"""The route by which decisions come in."""

import re
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from app.api import schemas
from app.api.auth import Decider
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import ThreadPath, is_id
from app.api.problems import pointing_into
from app.api.served import Served
from app.api.waiting import Waiting, accepted
from app.domain.audit import API
from app.domain.ids import PauseId
from app.errors import FieldError, Invalid
from app.lifecycle.decide import DecideRequest, PauseNotFound, decide
from app.watching import logs

router = APIRouter(tags=["pauses"])

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=200,
        description="The `digest` of what the decider saw, in double quotes: the decision holds for nothing else.",
        examples=['"d5853cade206deed981cef7c7449f98e846120ec517bbab98ecefde4c6689e3f"'],
    ),
]


@router.post(
    "/threads/{thread_id}/resume",
    responses=answers(
        {
            200: (
                schemas.Run,
                "The run, settled again after this decision, or still paused for want of votes.",
                ("Preference-Applied", "Idempotency-Replayed"),
            ),
            202: (
                schemas.Run,
                "The decision is taken; the run is still going on.",
                ("Location", "Retry-After", "Preference-Applied", "Idempotency-Replayed"),
            ),
        },
        404,
        412,
        refusals=(
            "requester_may_not_approve",
            "not_an_approver",
            "token_of_another_pause",
            "may_not_act_as",
        ),
        conflicts=(
            "pause_decided",
            "pause_expired",
            "pause_cancelled",
            "pause_superseded",
            "already_voted",
            "workflow_incompatible",
        ),
        takes_body=True,
    ),
)
async def resume_thread(
    site: Served,
    caller: Decider,
    key: OnceOnly,
    patience: Waiting,
    thread_id: ThreadPath,
    body: schemas.Resume,
    if_match: IfMatch = None,
) -> Response:
    """Decides a pause, once, and waits until its run is settled again; or votes, where several have to agree."""
    if not is_id(body.pause_id):
        raise PauseNotFound("There is no such pause in this thread.")
    logs.belongs_to(pause_id=body.pause_id)
    request = DecideRequest(
        thread_id=thread_id,
        pause_id=PauseId(body.pause_id),
        decision=body.decision,
        via=API,
        if_match=_digest(if_match),
    )
    with pointing_into("/decision"):
        work = decide(site, caller, request, key=key)
        return await accepted(site, caller, work, patience, status=200)


def _digest(if_match: str | None) -> str | None:
    """What stands between the quotes of `If-Match` (RFC 9110); `*` is everything."""
    if if_match is None or if_match.strip() == "*":
        return None
    if match := _ETAG.fullmatch(if_match.strip()):
        return match[1]
    wrong = FieldError(pointer="/header/if-match", message="must be one digest in double quotes")
    raise Invalid("The If-Match header cannot be read.", fields=[wrong])


_ETAG = re.compile(r'"([\x21\x23-\x7e]*)"')
