"""Requests that were turned away before anything was looked at: a row of the audit each, as long as there are few.

What a credential was not good for is worth knowing; a client that tries the same all day, or a stranger who knows
the id of a pause, must not fill the table. So each credential has so many rows an hour in each process. What is
beyond that is logged and counted, and the next row says how many there were.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from app.domain.audit import API, Actor, AuditAction
from app.domain.json import Json
from app.domain.principal import Principal
from app.lifecycle.rate import Rate
from app.storage import audit
from app.storage.database import Database, StoreUnavailable

log = logging.getLogger(__name__)

MOST_AN_HOUR: Final = 60
"""Rows that one credential gets: so many at once, and then one a minute."""

_HOUR: Final = 3600.0
_REMEMBERED_AT_MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Denied:
    """What was asked, as far as it is known: the route, and the ids in its path; and why it was not done."""

    code: str
    why: dict[str, Json]
    method: str
    route: str | None
    ids: dict[str, str]

    @property
    def data(self) -> dict[str, Json]:
        ids: dict[str, Json] = {
            name: each for name, each in self.ids.items() if name not in ("run_id", "pause_id")
        }
        return {"code": self.code, "method": self.method, "route": self.route, **self.why, **ids}


@dataclass(kw_only=True)
class Refusals:
    """Writes refusals of known credentials into the chain of their tenant."""

    rate: Rate = field(default_factory=lambda: Rate(MOST_AN_HOUR, _HOUR))
    _unwritten: Counter[str] = field(default_factory=Counter[str])

    async def note(self, database: Database, principal: Principal, denied: Denied) -> None:
        """Writes a row, if it is not one too many, and if it can: a refusal is one all the same."""
        who = f"{principal.tenant}/{principal.credential}"
        if self.rate.wait(who):
            self._count(who)
            return
        unwritten = self._unwritten.pop(who, 0)
        try:
            await _write(database, principal, denied, unwritten)
        except StoreUnavailable:
            self._count(who, 1 + unwritten)
            log.warning("refusal not recorded")

    def _count(self, who: str, times: int = 1) -> None:
        if len(self._unwritten) >= _REMEMBERED_AT_MOST:
            self._unwritten.clear()
        self._unwritten[who] += times


async def _write(database: Database, principal: Principal, denied: Denied, unwritten: int) -> None:
    data = denied.data | ({"unwritten": unwritten} if unwritten else {})
    async with database.transaction() as store:
        await audit.note(
            store,
            principal.tenant,
            AuditAction.DENIED,
            Actor(by=principal.name, via=API, origin=principal.origin),
            data,
            run_id=denied.ids.get("run_id"),
            pause_id=denied.ids.get("pause_id") or principal.only_pause,
        )
