"""What the first tables were filled with is read, decided and finished by the newest service.

`first_tables.sql` was written by the service as it was at the first migration: two runs that wait, one whose
thread has a run that ended, one that was rejected, with their notices, ledger, audit and history.
"""

from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.storage.migrate import migrate
from examples.errands import errands
from tests.serving import service
from tests.workflows.papers import enquiries

ROOT = Path(__file__).parents[2]
WRITTEN = (ROOT / "tests/fixtures/first_tables.sql").read_text()


async def _as_it_was(url: str) -> None:
    """The tables of the first migration, filled."""

    def upgrade(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(ROOT / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")

    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with engine.begin() as connection:
        await connection.run_sync(upgrade)
    await engine.dispose()
    filling = await asyncpg.connect(url)
    try:
        await filling.execute(WRITTEN)
    finally:
        await filling.close()


async def test_what_the_first_tables_held_is_listed_decided_and_finished(
    empty_database_url: str,
) -> None:
    await _as_it_was(empty_database_url)
    await migrate(empty_database_url)
    async with service(empty_database_url, [errands, enquiries]) as served:
        client = served.client
        threads = (await client.get("/threads")).json()["items"]
        assert {each["id"] for each in threads} == {"waits", "asks", "done", "rejected"}
        opened = (await client.get("/pauses", params={"status": "open"})).json()["items"]
        assert [each["thread_id"] for each in opened] == ["waits", "asks", "done"]
        assert opened[0]["call"]["arguments"]["smtp_password"] == "***"
        ended = (await client.get("/threads/rejected/runs")).json()["items"][0]
        assert (ended["status"], ended["pauses"][0]["decision"]["feedback"]) == ("completed", "no")

        answers = {
            "waits": {"approved": True, "by": "bob"},
            "asks": {"value": "red", "by": "bob"},
            "done": {"approved": False, "by": "bob", "feedback": "enough"},
        }
        for pause in opened:
            decided = await client.post(
                f"/threads/{pause['thread_id']}/resume",
                json={"pause_id": pause["id"], "decision": answers[pause["thread_id"]]},
            )
            assert decided.json()["status"] == "completed", decided.text
        again = await client.post(
            "/threads/waits/runs", json={"workflow": "errands", "input": {"text": "more"}}
        )
        assert again.json()["status"] == "paused"
