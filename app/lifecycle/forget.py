"""Forgets what is older than the operator wants to keep: events and notices of ended runs, idempotency keys."""

import logging
from datetime import timedelta

from app.lifecycle.site import Site
from app.storage import retention

log = logging.getLogger(__name__)


async def forget_old(site: Site, *, after: timedelta) -> bool:
    """Forgets some of it; says whether there was any, and so may be more.

    Runs with their input, output, steps and costs stay, and so does the audit.
    """
    runs = await retention.forget_runs(site.database, after=after)
    keys = await retention.forget_keys(site.database, after=after)
    if runs or keys:
        log.info("forgotten", extra={"runs": runs, "idempotency_keys": keys})
    return bool(runs or keys)
