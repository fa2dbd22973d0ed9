"""What became of a request with an idempotency key."""

from dataclasses import dataclass

from app.domain.ids import TenantId
from app.storage.database import Database


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """A key as it was first used. `resource` is the id of what that request made or touched."""

    request: str
    thread_id: str | None
    resource: str | None


async def find(database: Database, tenant: TenantId, key: str) -> KeyRow | None:
    row = await database.fetch_row(
        "select request, thread_id, resource from idempotency_keys where tenant = $1 and key = $2",
        tenant,
        key,
    )
    if row is None:
        return None
    return KeyRow(request=row["request"], thread_id=row["thread_id"], resource=row["resource"])


async def note(
    database: Database,
    tenant: TenantId,
    key: str,
    *,
    request: str,
    thread_id: str | None,
    resource: str,
) -> bool:
    """Notes a key for a request that is harmless to repeat; False if it stands already."""
    rows = await database.fetch(
        "insert into idempotency_keys (tenant, key, request, thread_id, resource) "
        "values ($1, $2, $3, $4, $5) on conflict do nothing returning key",
        tenant,
        key,
        request,
        thread_id,
        resource,
    )
    return bool(rows)
