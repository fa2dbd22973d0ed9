"""The last look at what waits in the database: however many scrape, it is read once a second at most."""

import asyncio
from typing import Final

from app.storage import backlog
from app.storage.database import Database, StoreUnavailable
from app.watching.backlog import Backlog

FRESH_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 5.0
"""Who scrapes goes without what the database does not say in this time."""


class LastLook:
    """What was found last, and when."""

    def __init__(self) -> None:
        self._found: Backlog | None = None
        self._ends = 0.0
        self._looking = asyncio.Lock()

    async def at(self, database: Database) -> Backlog | None:
        """What waits now; None where the database cannot be reached."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if clock() >= self._ends:
                self._found = await _found(database)
                self._ends = clock() + FRESH_SECONDS
        return self._found


async def _found(database: Database) -> Backlog | None:
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return await backlog.read(database)
    except (TimeoutError, StoreUnavailable):
        return None
