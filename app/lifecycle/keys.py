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
