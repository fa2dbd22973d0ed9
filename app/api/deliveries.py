"""Routes of deliveries: what was told to whom, and what could not be."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api import schemas
from app.api.answers import JsonResponse, replayed
from app.api.auth import Courier
from app.api.documented import answers
from app.api.idempotency import OnceOnly
from app.api.ids import ID_PATTERN, DeliveryPath
from app.api.paging import PageQuery, listing
from app.api.served import Served
from app.api.waiting import whole
from app.domain.delivery import DeliveryStatus
from app.lifecycle import read
from app.lifecycle.deliver import retry

router = APIRouter(tags=["deliveries"])


class DeliveryQuery(PageQuery):
    """Which deliveries are wanted: those that have all of these."""

    status: DeliveryStatus | None = None
    channel: str | None = Field(default=None, pattern=ID_PATTERN)
    thread_id: str | None = Field(default=None, pattern=ID_PATTERN)


@router.get(
    "/deliveries",
    responses=answers({200: (schemas.DeliveryList, "A page of deliveries.", ("Link",))}),
)
async def list_deliveries(
    request: Request, site: Served, caller: Courier, query: Annotated[DeliveryQuery, Query()]
) -> Response:
    """Lists deliveries over all runs, newest first."""
    filters = query.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    return listing(request, await read.list_deliveries(site, caller, filters, query.page()))


@router.get(
    "/deliveries/{delivery_id}",
    responses=answers({200: (schemas.Delivery, "The delivery.", ())}, 404),
)
async def get_delivery(site: Served, caller: Courier, delivery_id: DeliveryPath) -> Response:
    """Gives one delivery with its attempts."""
    return JsonResponse(await read.delivery(site, caller, delivery_id))


@router.post(
    "/deliveries/{delivery_id}/retry",
    responses=answers(
        {200: (schemas.Delivery, "The delivery, on its way again.", ("Idempotency-Replayed",))},
        404,
        conflicts=("delivery_not_dead",),
        takes_body=True,
    ),
)
async def retry_delivery(
    site: Served,
    caller: Courier,
    key: OnceOnly,
    delivery_id: DeliveryPath,
    body: schemas.Empty | None = None,
) -> Response:
    """Sends a dead delivery again, under its old id."""
    done = await whole(retry(site, caller, delivery_id, key=key))
    return JsonResponse(done.delivery, headers=replayed(done.is_replay))
