"""Keys: who is let in, as whom, for what, and until when."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import httpx
import pytest

from app.api.auth import REMEMBERED_SECONDS
from app.domain.ids import DEFAULT_TENANT
from app.domain.principal import Scope
from app.lifecycle import api_keys
from app.lifecycle.api_keys import KeyNotFound, NewKey, WrongKey
from app.storage.database import Database
from examples.errands import errands
from tests.keyring import bearer, holding, key
from tests.pooler import IS_POOLED
from tests.serving import Json, decide, paused, service
from tests.streams import Stream, events_of, streaming


def refused(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


async def test_nobody_is_let_in_without_a_credential(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        good = await key(served.site.database, "ann")
        for headers, code, challenge in (
            ({}, "unauthenticated", "Bearer"),
            ({"Authorization": ""}, "invalid_credential", 'Bearer error="invalid_token"'),
            ({"Authorization": good}, "invalid_credential", 'Bearer error="invalid_token"'),
            ({"Authorization": f"Basic {good}"}, "invalid_credential", None),
            (bearer(f"{good[:-1]}{'A' if good[-1] != 'A' else 'B'}"), "invalid_credential", None),
            (bearer("sgk_" + "x" * 43), "invalid_credential", None),
            (bearer("x" * 17_000), "invalid_credential", None),
            (bearer(f"{good}, Bearer {good}"), "invalid_credential", None),
        ):
            answer = await served.client.get("/threads", headers=headers)
            assert refused(answer) == (401, code), headers
            assert challenge in (None, answer.headers["www-authenticate"])
            assert good not in answer.text
        twice = [("authorization", f"Bearer {good}"), ("authorization", f"Bearer {good}")]
        answer = await served.client.get("/threads", headers=twice)
        assert refused(answer) == (401, "invalid_credential")
        answer = await served.client.get("/threads", headers=bearer(good))
        assert answer.status_code == 200


async def test_a_stranger_learns_nothing_of_what_there_is(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        for path in ("/threads/nope", "/nope", "/metrics", "/threads/%00", "//livez", "/livez/"):
            answer = await served.client.get(
                f"http://{served.client.base_url.netloc.decode()}{path}"
            )
            assert refused(answer) == (401, "unauthenticated"), path
        huge = await served.client.post("/threads", content=b"x" * 2_000_000)
        assert refused(huge) == (401, "unauthenticated")


async def test_what_is_nobodys_is_shown_to_everybody(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        for path in ("/livez", "/readyz", "/openapi.json", "/inbox", "/inbox/inbox.js"):
            assert (await served.client.get(path)).status_code == 200, path


async def test_a_run_is_of_who_asked_for_it(database_url: str) -> None:
    async with (
        service(database_url, [errands], is_open=False) as served,
        holding(served.client, await key(served.site.database, "ann")) as ann,
    ):
        run = await paused(ann)
        assert run["requested_by"] == run["pause"]["requested_by"] == "ann"


async def test_a_revoked_key_is_refused_within_seconds_and_its_streams_end(
    database_url: str,
) -> None:
    async with (
        service(database_url, [errands], is_open=False, heartbeat_seconds=0.1) as served,
        AsyncExitStack() as streams,
    ):
        database = served.site.database
        one, two = await key(database, "ann"), await key(database, "ann")
        bob = await key(database, "bob")
        for each in (one, two, bob):
            assert (await served.client.get("/threads", headers=bearer(each))).is_success
        ann = await streams.enter_async_context(holding(served.client, one))
        other = await streams.enter_async_context(holding(served.client, bob))
        run = await paused(ann)
        hers, his = [await followed(streams, each, run) for each in (ann, other)]
        assert len(await api_keys.revoke(database, DEFAULT_TENANT, "ann")) == 2
        await asyncio.sleep(REMEMBERED_SECONDS)
        await asyncio.gather(*(each.rest(within=2) for each in hers))
        assert (await decide(other, run, {"approved": True})).is_success
        for each in his:
            await each.until_type("run.completed")
        for each in (one, two):
            assert (await served.client.get("/threads", headers=bearer(each))).status_code == 401
        assert (await served.client.get("/threads", headers=bearer(bob))).is_success
        with pytest.raises(KeyNotFound):
            await api_keys.revoke(database, DEFAULT_TENANT, "ann")


async def followed(streams: AsyncExitStack, client: httpx.AsyncClient, run: Json) -> list[Stream]:
    """Both streams that tell of a run, one of the run alone and one of everything."""
    return [
        await streams.enter_async_context(streaming(client, path))
        for path in (events_of(run), "/events")
    ]


async def test_one_of_several_keys_of_a_name_can_be_revoked(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        database = served.site.database
        old, new = await key(database, "ann"), await key(database, "ann")
        first, _ = await api_keys.listed(database)
        await api_keys.revoke(database, DEFAULT_TENANT, "ann", key_id=first.key.id)
        assert (await served.client.get("/threads", headers=bearer(old))).status_code == 401
        assert (await served.client.get("/threads", headers=bearer(new))).status_code == 200


async def test_an_expired_key_is_refused_at_once(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        brief = await key(served.site.database, "ann", expires_in=timedelta(seconds=1))
        assert (await served.client.get("/threads", headers=bearer(brief))).is_success
        await asyncio.sleep(1.1)
        answer = await served.client.get("/threads", headers=bearer(brief))
        assert refused(answer) == (401, "invalid_credential")


async def test_a_key_is_in_the_database_as_its_digest_alone(database_url: str) -> None:
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    secret = await key(database, "ann")
    rows = await database.fetch("select k::text as row from api_keys k")
    assert secret.startswith("sgk_")
    assert len(secret) == 4 + 43
    assert all(secret[4:] not in row["row"] for row in rows)
    await database.close()


WRONG = [
    ({"name": ""}, "The name must be one line"),
    ({"name": " ann"}, "The name must be one line"),
    ({"name": "ann\nbob"}, "The name must be one line"),
    ({"name": "system:deadline"}, "The name must not begin with"),
    ({"name": "channel:finance"}, "The name must not begin with"),
    ({"name": "group:finance"}, "The name must not begin with"),
    ({"tenant": "a b"}, "The tenant 'a b' must be"),
    ({"groups": ("",)}, "The group '' must be"),
    ({"scopes": ()}, "A key without scopes"),
    ({"expires_in": timedelta()}, "A key has to expire later"),
]


async def test_a_key_that_could_be_mistaken_is_not_made(database_url: str) -> None:
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    for wrong, why in WRONG:
        asked: dict[str, Any] = {"name": "ann", "scopes": (Scope.AUDIT,), **wrong}
        with pytest.raises(WrongKey, match=why):
            await api_keys.create(database, NewKey(**asked))
    assert await api_keys.listed(database) == []
    await database.close()


async def test_a_scope_that_is_missing_is_named(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        reader = await key(served.site.database, "ann", scopes=[Scope.RUNS_READ])
        async with holding(served.client, reader) as ann:
            assert (await ann.get("/threads")).is_success
            answer = await ann.post("/threads", json={"id": 7})
            assert refused(answer) == (403, "missing_scope")
            assert answer.json()["scope"] == "runs:write"


async def test_a_warm_key_costs_no_statement(database_url: str) -> None:
    async with service(database_url, [errands], is_open=False) as served:
        secret = await key(served.site.database, "ann")
        async with holding(served.client, secret) as ann:
            assert (await ann.get("/workflows")).is_success
            await served.site.database.fetch("alter table api_keys rename to away")
            for _ in range(20):
                assert (await ann.get("/workflows")).is_success
            stranger = await served.client.get("/workflows", headers=bearer("sgk_" + "x" * 43))
            assert stranger.status_code == 500
