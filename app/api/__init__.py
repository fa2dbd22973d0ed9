"""The HTTP API: routes over the use cases, and the document that describes them.

access ─► CORS ─► auth ─► limits ──► intake ─► routes ─► lifecycle
(id, log)         (who)   (how much)  (size,    (which    (what goes wrong there becomes a problem in
                                       JSON)     scope)    `problems`)
"""

from app.api.application import (
    HEARTBEAT_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    application,
    document,
    watched,
)
from app.api.limits import NO_LIMITS, Limits

__all__ = [
    "HEARTBEAT_SECONDS",
    "MAX_BODY_BYTES",
    "MAX_HEADER_BYTES",
    "NO_LIMITS",
    "Limits",
    "application",
    "document",
    "watched",
]
