"""Keys of a test's own, and clients that send them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx

from app.domain.ids import DEFAULT_TENANT, TenantId
from app.domain.principal import Scope
from app.lifecycle import api_keys
from app.lifecycle.api_keys import NewKey
from app.storage.database import Database

EVERY_SCOPE = tuple(Scope)
APPROVER = (Scope.RUNS_READ, Scope.DECISIONS_WRITE)


async def key(
    database: Database,
    name: str,
    *,
    scopes: Sequence[Scope] = EVERY_SCOPE,
    groups: Sequence[str] = (),
    tenant: str = DEFAULT_TENANT,
    expires_in: timedelta | None = None,
) -> str:
    """The secret of a new key."""
    new = NewKey(
        name=name,
        tenant=TenantId(tenant),
        groups=tuple(groups),
        scopes=tuple(scopes),
        expires_in=expires_in,
    )
    return (await api_keys.create(database, new)).secret


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


@asynccontextmanager
async def holding(client: httpx.AsyncClient, credential: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the same service that sends a credential with every request."""
    async with httpx.AsyncClient(
        base_url=client.base_url, timeout=20, verify=False, headers=bearer(credential)
    ) as other:
        yield other
