"""Hints between processes over LISTEN and NOTIFY: sent after a commit, many in one statement, maybe lost."""

import asyncio
import logging
from collections.abc import Callable

from app.storage.database import Database, StoreUnavailable

log = logging.getLogger(__name__)

CHANNEL = "signoff"
LISTEN_AGAIN = 2.0
"""Seconds after which a lost connection is made again."""

MOST_UNSENT = 10_000

_SEND = "select pg_notify($1, hint) from unnest($2::text[]) as hint"


class Hints:
    """What this process tells the others, and hears from them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unsent: dict[str, None] = {}
        self._some = asyncio.Event()

    def tell(self, hint: str) -> None:
        """Sends a hint, soon, once, and after those that were told before; where too many wait, not at all."""
        if len(self._unsent) < MOST_UNSENT:
            self._unsent[hint] = None
        self._some.set()

    async def send(self) -> None:
        """Sends what was told, until cancelled. What cannot be sent is dropped: who waits looks anyway."""
        while True:
            await self._some.wait()
            self._some.clear()
            hints, self._unsent = list(self._unsent), {}
            try:
                await self._database.fetch(_SEND, CHANNEL, hints)
            except StoreUnavailable:
                log.debug("hints dropped", extra={"hints": len(hints)})

    async def hear(self, heard: Callable[[str], None]) -> None:
        """Calls `heard` with every hint, until cancelled."""
        while True:
            try:
                await self._database.listen(CHANNEL, heard)
            except StoreUnavailable:
                log.debug("not listening")
            await asyncio.sleep(LISTEN_AGAIN)
