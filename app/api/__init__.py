"""The HTTP API: routes over the use cases, and the document that describes them.

access ─► CORS ─► auth ─► intake ─► routes ─► lifecycle
(id, log)         (who)   (limits,  (which    (what goes wrong there becomes a problem in `problems`)
                           JSON)     scope)
"""

from app.api.application import HEARTBEAT_SECONDS, MAX_BODY_BYTES, application, document, watched

__all__ = ["HEARTBEAT_SECONDS", "MAX_BODY_BYTES", "application", "document", "watched"]
