"""Tells of the deadlines that come near: reminds who was asked, and asks somebody else too."""

from app.domain.event import EventType
from app.domain.json import Json
from app.lifecycle.decide import addressees
from app.lifecycle.site import Site
from app.storage import deadlines
from app.storage.deadlines import Warned
from app.storage.pauses import PauseRow

AT_ONCE = 100


async def warn_due(site: Site) -> int:
    """Writes the reminders and escalations that are due, each once, and says how many."""
    told = 0
    for event in (EventType.PAUSE_REMINDER, EventType.PAUSE_ESCALATED):
        pauses = await deadlines.to_warn(
            site.database, event, fingerprints=site.catalog.fingerprints, most=AT_ONCE
        )
        for pause in pauses:
            told += await _warn(site, event, pause)
    if told:
        site.deliveries_due.set()
    return told


async def _warn(site: Site, event: Warned, pause: PauseRow) -> bool:
    data: dict[str, Json] = {
        "pause_id": pause.id,
        "kind": pause.kind,
        "channel": pause.policy["channel"],
    }
    asked = pause.policy["channel"]
    if event is EventType.PAUSE_ESCALATED:
        asked = data["escalated_to"] = pause.policy["escalate_to"]
    told = addressees(site, pause, asked)
    is_first = await deadlines.warn(site.database, event, pause, data=data, channels=told)
    if is_first:
        site.happened(pause.run)
    return is_first
