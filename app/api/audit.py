"""The route of the audit: who decided what, was refused, or did something else they are answerable for."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.auth import Auditor
from app.api.documented import answers
from app.api.ids import ID_PATTERN
from app.api.moments import Moment
from app.api.paging import PageQuery, listing
from app.api.served import Served
from app.domain.audit import AuditAction
from app.domain.decision import MAX_BY
from app.lifecycle.audit import AuditFilter, list_audit

router = APIRouter(tags=["audit"])


class AuditQuery(PageQuery):
    """Which rows are wanted: those that have all of these."""

    action: AuditAction | None = None
    by: str | None = Field(default=None, max_length=MAX_BY, pattern=r"^[^\x00-\x1f\x7f]+$")
    credential: str | None = Field(
        default=None,
        max_length=300,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="What somebody was known by, as the rows have it.",
        examples=["key:key_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"],
    )
    thread_id: str | None = Field(default=None, pattern=ID_PATTERN)
    run_id: str | None = Field(default=None, pattern=ID_PATTERN)
    pause_id: str | None = Field(default=None, pattern=ID_PATTERN)
    since: Moment | None = Field(default=None, description="From this moment on.")
    until: Moment | None = Field(default=None, description="Before this moment.")


@router.get(
    "/audit", responses=answers({200: (schemas.AuditList, "A page of the audit.", ("Link",))})
)
async def list_audit_rows(
    request: Request, site: Served, caller: Auditor, query: Annotated[AuditQuery, Query()]
) -> Response:
    """Lists the audit over all threads, newest first, those that were deleted among them."""
    equal = query.model_dump(
        exclude={"limit", "cursor", "since", "until"}, exclude_none=True, mode="json"
    )
    wanted = AuditFilter(equal=equal, since=query.since, until=query.until)
    return listing(request, await list_audit(site, caller, wanted, query.page()))
