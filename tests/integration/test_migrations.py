"""The migrations make what the code says of its tables."""

from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.lifecycle.audit import verify
from app.storage.database import Database
from app.storage.migrate import migrate
from app.storage.tables import metadata
from tests.pooler import IS_POOLED

_COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid) as default
from pg_attribute a join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped
"""
_CONSTRAINTS = """
select conrelid::regclass::text as table, conname, pg_get_constraintdef(oid) as definition
from pg_constraint where connamespace = 'public'::regnamespace
"""
_INDEXES = "select indexname, indexdef from pg_indexes where schemaname = 'public'"
_OPTIONS = """
select relname, reloptions from pg_class
where relnamespace = 'public'::regnamespace and reloptions is not null
"""


async def test_the_migrations_make_the_tables_of_the_code(
    database_url: str, empty_database_url: str
) -> None:
    await _create_all(empty_database_url)
    migrated, declared = await _tables(database_url), await _tables(empty_database_url)
    assert {each for each in migrated if "alembic_version" not in str(each)} == declared
    assert declared


async def _create_all(url: str) -> None:
    def create(connection: Connection) -> None:
        metadata.create_all(connection)

    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with engine.begin() as connection:
        await connection.run_sync(create)
    await engine.dispose()


async def _tables(url: str) -> set[tuple[Any, ...]]:
    """Columns, constraints, indexes and options, each as the database itself would write it."""
    connection = await asyncpg.connect(url)
    try:
        return {
            tuple(str(value) for value in row.values())
            for query in (_COLUMNS, _CONSTRAINTS, _INDEXES, _OPTIONS)
            for row in await connection.fetch(query)
        }
    finally:
        await connection.close()


_BEFORE_CHAINS = """
insert into threads (id, tenant, metadata, audit_sequence) values ('old', 'default', '{}', 5), ('new', 'default', '{}', 0);
insert into audit (thread_id, tenant, sequence, run_id, pause_id, action, by, via, data)
values ('old', 'default', 1, 'run', 'pause', 'refused', 'Zoë', 'api', '{"code": "x"}'),
       ('old', 'default', 2, 'run', 'pause', 'voted', null, 'api', '{}'),
       ('old', 'default', 5, 'run', 'pause', 'decided', 'ann', 'api', '{}');
"""


async def test_an_audit_from_before_there_were_chains_becomes_one(empty_database_url: str) -> None:
    await _migrate_to(empty_database_url, "0003")
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute(_BEFORE_CHAINS)
    await connection.close()
    await migrate(empty_database_url)
    database = await Database.connect(empty_database_url, prepared_statements=not IS_POOLED)
    try:
        found = await verify(database)
    finally:
        await database.close()
    assert (found.faults, found.chains, found.rows) == ([], 1, 3)


async def _migrate_to(url: str, revision: str) -> None:
    def upgrade(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with engine.begin() as connection:
        await connection.run_sync(upgrade)
    await engine.dispose()


_MIGRATIONS = Path(__file__).parents[2] / "migrations"
