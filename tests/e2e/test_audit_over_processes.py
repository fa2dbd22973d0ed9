"""The audit over processes: chains that never fork, and the command that proves them."""

from pathlib import Path

import asyncpg
import orjson
import pytest

from app.lifecycle.audit import verify
from app.storage.database import Database
from tests.e2e.conftest import Town
from tests.pooler import IS_POOLED
from tests.racing import MANY, race, race_votes
from tests.service import Api, Processes, free_port


async def test_chains_hold_after_decisions_and_votes_that_race_over_two_processes(
    town: Town, api: Api, other_api: Api
) -> None:
    runs = [(await race([api, other_api])).run, (await race_votes([api, other_api])).run]
    database = await Database.connect(town.database_url, prepared_statements=not IS_POOLED)
    try:
        for run in runs:
            found = await verify(database, thread_id=run["thread_id"])
            assert found.faults == []
        whole = await verify(database)
    finally:
        await database.close()
    assert whole.faults == []
    for run in runs:
        rows = await api.get("/audit", thread_id=run["thread_id"], limit="100")
        assert sorted(row["sequence"] for row in rows["items"]) == list(range(1, MANY + 1))


async def test_the_command_proves_the_chains_and_finds_what_was_changed(
    own: Processes, database_url: str, tmp_path: Path
) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("letters")
        assert (await api.decide(run["pause"], {"approved": "perhaps"})).status_code == 422
        await api.decided(run["pause"])
    whole = await own.command("audit", "verify")
    assert (await whole.exit_code(), whole.said) == (
        0,
        "The audit is whole: 2 rows in 1 chains.\n",
    )
    exported = await own.command("audit", "export")
    assert await exported.exit_code() == 0
    rows = [orjson.loads(line) for line in exported.said.splitlines()]
    assert [(row["action"], row["thread_id"]) for row in rows] == [
        ("refused", run["thread_id"]),
        ("decided", run["thread_id"]),
    ]
    (tmp_path / "kept.jsonl").write_text(exported.said)
    against = await own.command("audit", "verify", "--against", str(tmp_path / "kept.jsonl"))
    assert await against.exit_code() == 0
    await change(database_url, "delete from audit where sequence = 2")
    broken = await own.command("audit", "verify")
    assert await broken.exit_code() == 1
    assert broken.said == f"default: {run['thread_id']}: row 2 is missing at the end\n"
    assert broken.complaints == ["The audit is not whole: 1 faults."]


async def test_a_file_that_is_no_export_is_one_clear_line(own: Processes, tmp_path: Path) -> None:
    (tmp_path / "kept.jsonl").write_text("nothing\n")
    told = await own.command("audit", "verify", "--against", str(tmp_path / "kept.jsonl"))
    assert await told.exit_code() == 1
    assert len(told.complaints) == 1
    assert "line 1 is not of an export" in told.complaints[0]


@pytest.mark.parametrize(
    ("trusted", "client"), [("", "127.0.0.1"), ("127.0.0.0/8, 10.0.0.0/8", "203.0.113.9")]
)
async def test_only_a_trusted_proxy_says_where_a_decision_comes_from(
    own: Processes, trusted: str, client: str
) -> None:
    served = await own.serve(trusted_proxies=trusted)
    async with served.api() as api:
        run = await api.started("letters")
        forged = "192.0.2.1, 203.0.113.9, 10.1.2.3"
        await api.decide(run["pause"], x_forwarded_for=forged)
        (row,) = (await api.get("/audit"))["items"]
    assert row["client"] == client


async def test_a_proxy_that_is_no_network_stops_the_start(own: Processes) -> None:
    told = await own.command("serve", "--port", str(free_port()), trusted_proxies="10.0.0.0/33")
    assert await told.exit_code() == 1
    assert "SIGNOFF_TRUSTED_PROXIES" in told.complaints[0]


async def change(database_url: str, statement: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute(statement)
    await connection.close()
