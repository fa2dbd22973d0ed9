"""What a process tells those who scrape its metrics."""

from app.lifecycle.site import Site
from app.watching.metrics import Exposition


async def exposition(site: Site, accept: str) -> Exposition:
    """The metrics of this process, and what waits in the database if that can be reached."""
    return site.metrics.expose(
        accept,
        backlog=await site.last_look.at(site.database),
        pool=site.database.use,
        slots=site.hands.use,
    )
