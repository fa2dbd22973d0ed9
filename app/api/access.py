"""Gives every request an id and a line in the log, and an answer where nothing else has one.

A line has a fixed message and the method, the route, the status and the time, with the ids that are known to be
ids, and the code where the answer is a problem.
"""

import logging
import re
import time
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars, clear_contextvars

from app.api.aims import ids_in
from app.api.problems import internal_error
from app.domain.credentials import looks_secret
from app.domain.ids import new_request_id
from app.watching.metrics import Metrics

log = logging.getLogger(__name__)

REQUEST_ID: Final = "x-request-id"
"""The header of a request's id, and where its scope has it."""
_ACCEPTED: Final = re.compile(r"[\x21-\x7e]{1,128}")
PROBES: Final = frozenset({"/livez", "/readyz", "/metrics"})
"""The paths of those who watch, who come every few seconds."""


class Access:
    """The outermost layer. Pure ASGI, so that it costs next to nothing."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, _request_id(scope))
        scope[REQUEST_ID] = answer.request_id
        began = time.perf_counter()
        clear_contextvars()  # a connection is one context for all its requests
        with bound_contextvars(request_id=answer.request_id):
            try:
                await self._app(scope, receive, answer.send)
            except Exception:
                log.exception("request broke")
                if not answer.status:
                    await internal_error()(scope, receive, answer.send)
            finally:
                self._note(scope, answer.status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None)
        self._metrics.answered(scope["method"], route, status, seconds)
        log.log(
            logging.DEBUG if route in PROBES else logging.INFO,
            "request",
            extra={
                "method": scope["method"],
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
                **ids_in(scope.get("path_params", {})),
            },
        )


class _Answer:
    """An answer on its way: takes the id along and keeps the status. No status: nothing was sent."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)[REQUEST_ID] = self.request_id
        await self._send(message)


def _may_be_told(given: str) -> bool:
    return _ACCEPTED.fullmatch(given) is not None and not looks_secret(given)


def _request_id(scope: Scope) -> str:
    """The caller's own id for the request, where it has one that may stand in a log, else a new one."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID.encode():
            given = value.decode("latin-1")
            return given if _may_be_told(given) else new_request_id()
    return new_request_id()
