"""Secrets that the service makes for itself, where it is given none: one for all its processes."""

from app.storage.database import Database

_MAKE = """
insert into service_secrets (name, value) values ($1, $2) on conflict do nothing
"""
_READ = "select value from service_secrets where name = $1"


async def kept(database: Database, name: str, *, new: bytes) -> bytes:
    """The secret of that name; `new` becomes it if there is none yet."""
    place = ("service_secrets.value", name)
    await database.fetch(_MAKE, name, database.vault.seal_bytes(new, *place))
    (row,) = await database.fetch(_READ, name)
    return database.vault.open_bytes(row["value"], *place)
