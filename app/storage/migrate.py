"""Brings the tables to the newest migration, one process at a time."""

from enum import Enum
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.storage.database import Database

_FOLDER = Path(__file__).resolve().parent.parent.parent / "migrations"
# Held for the length of the transaction, so it works behind a pooler too.
_LOCK = "select pg_advisory_xact_lock(471823109)"


async def migrate(url: str) -> None:
    """Runs what migrations are missing; others that start at the same time wait and then find nothing to do."""

    async def connect() -> Any:  # by asyncpg itself, which takes several hosts
        return await asyncpg.connect(url, statement_cache_size=0)

    engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool, async_creator=connect)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(_LOCK))
            await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


class Standing(Enum):
    """How far the tables of a database are, as this release sees it."""

    EMPTY = "there are no tables yet"
    BEHIND = "migrations are missing"
    CURRENT = "the tables are those of this release"
    AHEAD = "the tables are those of a newer release"


async def standing(database: Database) -> Standing:
    """How far the tables are."""
    known = await database.fetch("select to_regclass('alembic_version') is not null as known")
    if not known[0]["known"]:
        return Standing.EMPTY
    rows = await database.fetch("select version_num from alembic_version")
    found = [row["version_num"] for row in rows]
    scripts = ScriptDirectory(str(_FOLDER))
    if found == scripts.get_heads():
        return Standing.CURRENT
    ours = {each.revision for each in scripts.walk_revisions()}
    return Standing.BEHIND if ours.issuperset(found) else Standing.AHEAD


async def is_current(database: Database) -> bool:
    """Whether the tables are at the newest migration."""
    return await standing(database) is Standing.CURRENT


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
