"""The migrations make what the code says of its tables."""

from typing import Any

import asyncpg
from sqlalchemy import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.storage.tables import metadata

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
