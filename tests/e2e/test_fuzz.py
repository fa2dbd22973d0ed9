"""Whatever is sent, the answer is one that the OpenAPI document describes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from app.domain.principal import Scope
from app.storage.database import Database
from tests.fuzzing import Fuzz
from tests.keyring import key
from tests.service import Json, processes

SERVED = "tests.workflows.clerks:shop,tests.workflows.clerks:desk"


@asynccontextmanager
async def fuzzing(folder: Path, database_url: str) -> AsyncGenerator[Fuzz]:
    """Callers with keys of every scope, one of another tenant and one that is unknown, of a real service."""
    database = await Database.connect(database_url)
    whole = await key(database, "cal")
    keys = [await key(database, scope.replace(":", "-"), scopes=[scope]) for scope in Scope]
    other = await key(database, "eve", tenant="elsewhere")
    await database.close()
    with processes(folder, workflows=SERVED, database_url=database_url, environment={}) as begun:
        served = await begun.serve(auth="keys")
        bearer = {"Authorization": f"Bearer {whole}"}
        async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=30) as caller:
            run = await paused(caller)
        ids = {"thread_id": run["thread_id"], "run_id": run["id"], "name": "shop"}
        ids |= {"pause_id": run["pause"]["id"], "checkpoint_id": run["id"], "assistant_id": "shop"}
        with httpx.Client(base_url=served.url, timeout=30, trust_env=False) as client:
            yield Fuzz(client=client, keys=[*[whole] * 8, *keys, other, "sgk_x", None], ids=ids)


async def paused(caller: httpx.AsyncClient) -> Json:
    body = {"workflow": "shop", "input": "refund A-1 20", "if_not_exists": "create"}
    answer = await caller.post("/threads/t/runs", json=body, headers={"Prefer": "wait=30"})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_every_answer_is_one_that_the_document_describes(
    tmp_path: Path, database_url: str
) -> None:
    async with fuzzing(tmp_path, database_url) as fuzz:
        await asyncio.to_thread(fuzz.run, 2)
    assert fuzz.faults == []
    assert {200, 401, 403, 404, 422} <= fuzz.statuses.keys(), fuzz.statuses
