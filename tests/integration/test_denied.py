"""Requests that a credential was not good for: in the audit, in the log, and in the metrics."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from app.authoring import Approval
from app.channels.reply_token import Grant, make_token
from app.channels.signing import SigningSecret
from app.domain.ids import DEFAULT_TENANT, PauseId, TenantId
from app.domain.principal import Principal, Scope
from app.lifecycle import api_keys
from app.lifecycle.audit import Fault, exported, verify
from app.lifecycle.rate import Rate
from app.lifecycle.refusals import Denied, Refusals
from app.storage.database import Database
from tests.keyring import bearer, holding, key
from tests.logged import Lines, logged
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council

Json = dict[str, Any]
AUDITOR = [Scope.AUDIT]


async def rows(served: Service, **filters: str) -> list[Json]:
    """The audit's rows, the oldest first."""
    secret = await key(served.site.database, "auditor", scopes=AUDITOR)
    async with holding(served.client, secret) as auditor:
        answer = await auditor.get("/audit", params={"limit": "100", **filters})
    return answer.json()["items"][::-1]


def line(lines: Lines, **fields: object) -> Json:
    """The one line of a request that has these fields."""
    (found,) = (
        each for each in lines.told if each["event"] == "request" and {**each, **fields} == each
    )
    return found


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What was left behind by those who tried."""

    run: Json
    lines: Lines
    denied: list[Json]
    by_reader: list[Json]
    exported: list[Json]
    faults: list[Fault]
    counted: dict[str, float | None]


async def tried(served: Service) -> Tried:
    """A holder of too few scopes, one of a revoked key, one of an expired key, and two strangers."""
    database = served.site.database
    async with holding(served.client, await key(database, "cal")) as client:
        run = await paused(client, "council")
    reader = await key(database, "rita", scopes=[Scope.RUNS_READ, Scope.DECISIONS_WRITE])
    gone = await key(database, "gus")
    brief = await key(database, "eve", expires_in=timedelta(milliseconds=1))
    await api_keys.revoke(database, DEFAULT_TENANT, "gus")
    thread = f"/threads/{run['thread_id']}"
    with logged() as lines:
        cancelled = await served.client.post(
            f"{thread}/runs/{run['id']}/cancel", headers=bearer(reader)
        )
        decided = await decide(served.client, run, {"approved": True}, headers=bearer(reader))
        assert (cancelled.status_code, decided.status_code) == (403, 403)
        for path, credential in (
            (thread, gone),
            ("/nowhere", brief),
            ("/threads", "sgk_" + "x" * 43),
            ("/threads", "x" * 17_000),
        ):
            answer = await served.client.get(path, headers=bearer(credential))
            assert answer.status_code == 401
    denied = await rows(served, action="denied")
    return Tried(
        run=run,
        lines=lines,
        denied=denied,
        by_reader=await rows(served, credential=denied[0]["credential"]),
        exported=[orjson.loads(each) async for each in exported(database)],
        faults=(await verify(database)).faults,
        counted=counted(served),
    )


def counted(served: Service) -> dict[str, float | None]:
    value = served.site.metrics.registry.get_sample_value
    return {
        why: value("signoff_requests_turned_away_total", {"code": code, "why": why})
        for code, why in (
            ("missing_scope", "runs:write"),
            ("invalid_credential", "revoked"),
            ("invalid_credential", "expired"),
            ("invalid_credential", "unknown"),
            ("invalid_credential", "malformed"),
        )
    }


async def test_what_a_credential_is_not_good_for_is_a_row_of_the_audit(database_url: str) -> None:
    council = Council(Approval(approvers=["ann"])).workflow
    async with service(database_url, [council], is_open=False) as served:
        left = await tried(served)
    thread = left.run["thread_id"]
    scope, revoked, expired = left.denied
    assert scope["data"] == {
        "code": "missing_scope",
        "scope": "runs:write",
        "method": "POST",
        "route": "/threads/{thread_id}/runs/{run_id}/cancel",
        "thread_id": thread,
    }
    assert (scope["by"], scope["via"], scope["run_id"]) == ("rita", "api", left.run["id"])
    assert revoked["data"] == {
        "code": "invalid_credential",
        "why": "revoked",
        "method": "GET",
        "route": "/threads/{thread_id}",
        "thread_id": thread,
    }
    assert (revoked["by"], expired["by"]) == ("gus", "eve")
    assert (expired["data"]["why"], expired["data"]["route"]) == ("expired", None)
    assert all(each["client"] == "127.0.0.1" and each["request_id"] for each in left.denied)
    assert all(each["credential"].startswith("key:") for each in left.denied)
    assert [each["action"] for each in left.by_reader] == ["denied", "refused"]
    assert left.by_reader[1]["data"] == {"code": "not_an_approver"}
    assert left.faults == []
    exported = [each["data"] for each in left.exported if each["action"] == "denied"]
    assert exported == [each["data"] for each in left.denied]
    assert left.counted == dict.fromkeys(left.counted, 1.0)
    check_lines(left)


def check_lines(left: Tried) -> None:
    """The log says the same, and of strangers why they were not let in."""
    scope = line(left.lines, code="missing_scope", status=403)
    assert (scope["scope"], scope["by"]) == ("runs:write", "rita")
    assert scope["credential"] == left.denied[0]["credential"]
    assert line(left.lines, code="not_an_approver", status=403)["by"] == "rita"
    assert line(left.lines, why="revoked", status=401)["by"] == "gus"
    assert line(left.lines, why="expired", status=401)["by"] == "eve"
    for why in ("unknown", "malformed"):
        assert "by" not in line(left.lines, why=why, status=401)


async def test_a_forged_reply_token_is_a_row_of_its_pause_and_of_nobody_else(
    database_url: str,
) -> None:
    council = Council(Approval()).workflow
    async with service(database_url, [council], is_open=False) as served:
        database = served.site.database
        async with holding(served.client, await key(database, "cal")) as client:
            run = await paused(client, "council")
        pause = run["pause"]["id"]
        forged = [
            _forged(DEFAULT_TENANT, pause),
            _forged(DEFAULT_TENANT, "pau_1"),
            _forged("elsewhere", pause),
            _forged(DEFAULT_TENANT, "\0"),
            "reply_e30.e30",
            "reply_",
        ]
        with logged() as lines:
            for each in forged:
                answer = await decide(served.client, run, {"approved": True}, headers=bearer(each))
                assert answer.status_code == 401, each
        denied = await rows(served, action="denied")
    (row,) = denied
    assert (row["by"], row["credential"], row["pause_id"]) == (None, f"reply:{pause}", pause)
    assert row["data"]["why"] == "forged"
    assert [each["why"] for each in lines.told if each["event"] == "request"] == [
        "forged",
        *["unknown"] * 5,
    ]


def _forged(tenant: str, pause: str) -> str:
    grant = Grant(tenant=TenantId(tenant), channel="desk", pause_id=PauseId(pause))
    return make_token(SigningSecret(key=b"guessed"), grant)


async def test_a_flood_of_refusals_does_not_fill_the_audit(database_url: str) -> None:
    now = 0.0
    database = await Database.connect(database_url)
    refusals = Refusals(rate=Rate(2, 60, lambda: now))
    denied = Denied(code="missing_scope", why={}, method="GET", route="/audit", ids={})
    one, other = Principal(credential="key:1"), Principal(credential="key:2")

    async def unwritten() -> Sequence[int | None]:
        rows = await database.fetch("select data from audit order by sequence")
        return [row["data"].get("unwritten") for row in rows]

    for _ in range(40):
        await refusals.note(database, one, denied)
    await refusals.note(database, other, denied)
    assert await unwritten() == [None, None, None]
    now = 30
    await asyncio.gather(*(refusals.note(database, one, denied) for _ in range(2)))
    assert await unwritten() == [None, None, None, 38]
    await database.close()


async def test_a_tenants_chain_holds_while_several_processes_add_to_it_at_once(
    database_url: str,
) -> None:
    one, other = [await Database.connect(database_url) for _ in range(2)]
    denied = Denied(code="missing_scope", why={}, method="GET", route="/audit", ids={})
    processes = [(each, Refusals()) for each in (one, other)]

    async def deny(number: int) -> None:
        database, refusals = processes[number % 2]
        await refusals.note(database, Principal(credential=f"key:{number}"), denied)
        await key(database, f"name-{number}")

    await asyncio.gather(*(deny(number) for number in range(40)))
    found = await verify(one)
    assert (found.faults, found.rows, found.chains) == ([], 80, 1)
    for database in (one, other):
        await database.close()


async def test_a_refusal_that_cannot_be_recorded_is_one_all_the_same(database_url: str) -> None:
    council = Council(Approval()).workflow
    async with service(database_url, [council], is_open=False) as served:
        reader = bearer(await key(served.site.database, "rita", scopes=[Scope.RUNS_READ]))
        assert (await served.client.get("/threads", headers=reader)).is_success
        await served.site.database.close()
        with logged() as lines:
            answer = await served.client.get("/audit", headers=reader)
        assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope")
        assert "refusal not recorded" in {each["event"] for each in lines.told}
