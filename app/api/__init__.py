"""The HTTP API: routes over the use cases, and the document that describes them.

access ─► CORS ─► intake ─► routes ─► lifecycle
(id, log)         (limits,            (what goes wrong there becomes a problem in `problems`)
                   JSON)
"""

from app.api.application import HEARTBEAT_SECONDS, MAX_BODY_BYTES, application, document

__all__ = ["HEARTBEAT_SECONDS", "MAX_BODY_BYTES", "application", "document"]
