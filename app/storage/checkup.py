"""Looks at a database and changes nothing: whether it can be reached, what it is, how far its tables are."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import asyncpg

from app.errors import SignoffError
from app.storage.database import Database, StoreUnavailable
from app.storage.migrate import Standing, standing

_WITHIN: Final = 10.0  # seconds


class DatabaseUnusable(SignoffError):
    """It cannot be reached, or does not let us in; the message has no password in it."""

    code = "database_unusable"


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """What was found. `ahead` are the seconds that this machine's clock is ahead of the database's."""

    postgres: str
    round_trip: float
    ahead: float
    standing: Standing


async def check_up(url: str) -> Checkup:
    """Connects, looks, and leaves. Raises `DatabaseUnusable`."""
    try:
        async with asyncio.timeout(_WITHIN):
            database = await Database.connect(url, size=1, prepared_statements=False)
            try:
                return await _look(database)
            finally:
                await database.close()
    except TimeoutError as error:
        raise DatabaseUnusable(f"it did not answer within {_WITHIN:g} s") from error
    except StoreUnavailable as error:
        raise DatabaseUnusable(f"it cannot be reached ({error.values['reason']})") from error
    except (asyncpg.PostgresError, ValueError) as error:
        raise DatabaseUnusable(str(error)) from error


async def _look(database: Database) -> Checkup:
    began = time.time()
    rows = await database.fetch(
        "select current_setting('server_version') as version,"
        " extract(epoch from clock_timestamp())::float8 as now"
    )
    ended = time.time()
    return Checkup(
        postgres=rows[0]["version"],
        round_trip=ended - began,
        ahead=(began + ended) / 2 - rows[0]["now"],
        standing=await standing(database),
    )
