"""API keys: make, find by the digest of the secret, list, revoke. The secret itself is nowhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from app.domain.ids import TenantId
from app.storage.database import Database, Row, Store

_CREATE = """
insert into api_keys (id, tenant, name, digest, groups, scopes, expires_at)
values ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7::interval)
returning created_at, expires_at
"""

# How long a key is still good for is told in seconds: the clock of this process may be another one.
_FIND = """
select id, tenant, name, groups, scopes, revoked_at is not null as is_revoked,
       extract(epoch from expires_at - clock_timestamp())::float8 as seconds_left
from api_keys where digest = $1
"""

_LIST = """
select id, tenant, name, groups, scopes, created_at, expires_at, revoked_at,
       expires_at <= clock_timestamp() as is_expired
from api_keys order by tenant, name, created_at, id
"""

_REVOKE = """
update api_keys set revoked_at = clock_timestamp()
where tenant = $1 and name = $2 and revoked_at is null and ($3::text is null or id = $3)
returning id
"""


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key without its secret. `name` is the principal's, who may have several."""

    id: str
    tenant: TenantId
    name: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A key, which is good for so many seconds more, None if for ever, unless it is revoked."""

    key: ApiKey
    is_revoked: bool
    seconds_left: float | None


@dataclass(frozen=True, kw_only=True)
class ListedKey:
    """A key and what became of it."""

    key: ApiKey
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    is_expired: bool


async def create(
    database: Store, key: ApiKey, *, digest: bytes, expires_in: timedelta | None
) -> ListedKey:
    row = await database.fetch_row(
        _CREATE,
        key.id,
        key.tenant,
        key.name,
        digest,
        list(key.groups),
        list(key.scopes),
        expires_in,
    )
    assert row is not None  # noqa: S101 - an insert gives its row, or raises
    return ListedKey(
        key=key,
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=None,
        is_expired=False,
    )


async def find(database: Database, digest: bytes) -> Found | None:
    """The key of a secret, whether it is still good or not."""
    row = await database.fetch_row(_FIND, digest)
    if row is None:
        return None
    return Found(key=_key(row), is_revoked=row["is_revoked"], seconds_left=row["seconds_left"])


async def listed(database: Database) -> list[ListedKey]:
    """All of them, by tenant and name."""
    return [
        ListedKey(
            key=_key(row),
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            revoked_at=row["revoked_at"],
            is_expired=bool(row["is_expired"]),
        )
        for row in await database.fetch(_LIST)
    ]


async def revoke(
    database: Store, tenant: TenantId, name: str, *, key_id: str | None
) -> Sequence[str]:
    """Revokes the keys of a name, or one of them, and gives their ids."""
    return [row["id"] for row in await database.fetch(_REVOKE, tenant, name, key_id)]


async def is_any(database: Database) -> bool:
    """Whether there ever was a key; before the migrations there was none."""
    try:
        return bool(await database.fetch("select from api_keys limit 1"))
    except asyncpg.UndefinedTableError:
        return False


def _key(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        tenant=TenantId(row["tenant"]),
        name=row["name"],
        groups=tuple(row["groups"]),
        scopes=tuple(row["scopes"]),
    )
