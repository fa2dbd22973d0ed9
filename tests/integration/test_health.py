"""What a process says of itself to whoever sends it requests, or ends it."""

from urllib.parse import urlsplit

import asyncpg
import httpx

from tests.service import until
from tests.serving import serving, site_over


async def said(client: httpx.AsyncClient) -> tuple[int, int]:
    """What it answers at `/livez` and at `/readyz`."""
    lives, is_ready = await client.get("/livez"), await client.get("/readyz")
    return lives.status_code, is_ready.status_code


async def test_readyz_is_503_while_postgres_is_away_and_livez_is_not(database_url: str) -> None:
    name = urlsplit(database_url).path.lstrip("/")
    operator = await asyncpg.connect(database_url, database="postgres")
    try:
        async with site_over(database_url, [], works=False) as site, serving(site) as client:
            assert await said(client) == (200, 200)
            await operator.execute(f'alter database "{name}" allow_connections false')
            await operator.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name
            )
            assert await said(client) == (200, 503)
            await operator.execute(f'alter database "{name}" allow_connections true')

            async def is_back() -> bool:
                return await said(client) == (200, 200)

            await until(is_back)
    finally:
        await operator.close()


async def test_readyz_is_503_while_migrations_are_missing_and_livez_is_not(
    empty_database_url: str,
) -> None:
    async with site_over(empty_database_url, [], works=False) as site, serving(site) as client:
        assert await said(client) == (200, 503)
        assert "migrations" in (await client.get("/readyz")).json()["detail"]
