"""The example that moves money, killed in the middle of a refund: the call is put before a person."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.service import Api, approval, processes, until

Json = dict[str, Any]

# The step of the refund takes long from now on, as a bank may.
SLOW_STEP = """
create function take_long() returns trigger language plpgsql as
$$ begin perform pg_sleep(3600); return new; end $$;
create trigger slow before insert on step_results for each row when (new.name = 'booked')
execute function take_long();
"""


@asynccontextmanager
async def refunding(folder: Path, database_url: str) -> AsyncGenerator[tuple[Api, Json]]:
    """A run whose worker was killed while it was refunding, at the next service."""
    environment = {"SIGNOFF_LEASE_SECONDS": "1"}
    with processes(
        folder,
        workflows="examples.payments:payments",
        database_url=database_url,
        environment=environment,
    ) as begun:
        doomed = await begun.serve()
        async with doomed.api() as api:
            run = await asked_for_the_account(api)
            database = await asyncpg.connect(database_url)
            try:
                await database.execute(SLOW_STEP)
                answer = {"value": "main", "by": "otto"}
                await api.decide(run["pause"], answer, prefer="respond-async")
                await until(lambda: is_refunding(database))
                doomed.kill()
                await database.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where wait_event = 'PgSleep'"
                )
                await database.execute("drop trigger slow on step_results")
            finally:
                await database.close()
        following = await begun.serve()
        async with following.api() as api:
            yield api, await until(lambda: in_doubt(api, run))


async def asked_for_the_account(api: Api) -> Json:
    run = await api.started("payments", {"text": "It broke."})
    for decision in (
        approval(by="fay"),
        approval(by="finn"),
        {"value": {"iban": "DE89"}, "by": "otto"},
    ):
        run = await api.decided(run["pause"], decision)
    assert run["pause"]["kind"] == "interactive"
    return run


async def is_refunding(database: "asyncpg.Connection[Any]") -> bool:
    return await database.fetchval(
        "select exists (select from pg_stat_activity where wait_event = 'PgSleep')"
    )


async def in_doubt(api: Api, run: Json) -> Json | None:
    now = await api.run(run)
    return now if now["status"] == "paused" else None


@pytest.mark.parametrize(
    ("decision", "status", "read"),
    [
        ({"action": "run_again"}, "completed", "refunded 120.00 from main"),
        ({"action": "use_value", "value": "it was paid"}, "completed", "it was paid"),
        ({"action": "fail"}, "failed", None),
    ],
    ids=["run again", "use the value", "fail"],
)
async def test_a_refund_in_doubt_is_put_before_a_person(
    tmp_path: Path, database_url: str, decision: Json, status: str, read: str | None
) -> None:
    async with refunding(tmp_path, database_url) as (api, run):
        pause = run["pause"]
        assert (pause["kind"], pause["channel"]) == ("unknown_outcome", "finance")
        run = await api.decided(pause, {**decision, "by": "fay"})
        assert run["status"] == status
        if read is not None:
            assert run["output"].split("; ")[1] == read
        else:
            assert run["error"]["code"] == "unknown_outcome"
        assert [each["kind"] for each in run["pauses"]].count("approval") == 1
