"""Idempotency keys: the same request again does nothing again, and answers with what the first one made.

A key is written by the statement that does what was asked, so there is no moment at which one stands
without the other.
"""

from app.domain.ids import TenantId
from app.errors import Invalid
from app.storage import idempotency
from app.storage.database import Database
from app.storage.idempotency import KeyRow
from app.storage.runs import Key


class IdempotencyMismatch(Invalid):
    """The key came with another request before."""

    code = "idempotency_mismatch"


async def earlier(database: Database, tenant: TenantId, key: Key | None) -> KeyRow | None:
    """What the key made, if it was used before. Raises `IdempotencyMismatch`."""
    if key is None:
        return None
    row = await idempotency.find(database, tenant, key.key)
    if row and row.request != key.request:
        raise IdempotencyMismatch(
            "This Idempotency-Key came with another request before: use a new one for a new request."
        )
    return row


async def note(
    database: Database, tenant: TenantId, key: Key | None, *, thread_id: str, resource: str
) -> bool:
    """Notes the key of a request that was harmless to repeat; says whether another one noted it before.

    Raises `IdempotencyMismatch`.
    """
    if key is None:
        return False
    is_new = await idempotency.note(
        database, tenant, key.key, request=key.request, thread_id=thread_id, resource=resource
    )
    return not is_new and await earlier(database, tenant, key) is not None
