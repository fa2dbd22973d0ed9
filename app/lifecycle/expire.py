"""Closes the pauses whose deadline has passed, as their asks say."""

import logging

from app.domain.pause import Answer, Settled
from app.domain.principal import SYSTEM
from app.errors import SignoffError
from app.lifecycle.decide import take
from app.lifecycle.site import Site
from app.storage import deadlines

log = logging.getLogger(__name__)

DEADLINE = f"{SYSTEM}deadline"
"""Who decides when nobody did."""

AT_ONCE = 100


async def expire_due(site: Site) -> int:
    """Closes due pauses, and says how many. A decision that came in time has won; so has another worker."""
    due = await deadlines.due(site.database, fingerprints=site.catalog.fingerprints, most=AT_ONCE)
    closed = 0
    for pause in due:
        outcome = outcome_of(pause.policy["on_expire"], pause.digest)
        try:
            await take(site, pause, outcome, key=None, expired=True)
            closed += 1
        except SignoffError as error:
            log.info("pause not expired", extra={"pause_id": pause.id, "code": error.code})
    return closed


def outcome_of(on_expire: str, digest: str | None) -> Settled:
    """What the ask says shall happen: as if somebody had decided so, but by nobody's name."""
    approved = on_expire == "approve"
    action = on_expire if on_expire in ("fail", "skip") else None
    answer = Answer(
        approved=approved,
        by=DEADLINE,
        via="deadline",
        shape="action" if action else "verdict",
        action=action,
        digest=digest if approved else None,
    )
    shown = {"approved": approved} if action is None else {"action": action}
    return Settled(answer=answer, shown={**shown, "by": DEADLINE, "via": "deadline"})
