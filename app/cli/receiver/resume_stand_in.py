"""Stands in for the service where a receiver decides later, by a request of its own."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.domain.json import Json

_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request to decide a pause, as it came; `token` is what it showed."""

    thread_id: str
    pause_id: Json
    decision: Json
    token: str | None = field(repr=False)


class ResumeStandIn:
    """Takes every decision, and keeps it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""

    async def take(self, request: Request) -> JSONResponse:
        """Answers as the service would answer a decision that it takes."""
        thread_id = request.path_params["thread_id"]
        body = _json(await request.body())
        shown = _BEARER.fullmatch(request.headers.get("authorization", ""))
        self.asked.append(
            Asked(
                thread_id=thread_id,
                pause_id=body.get("pause_id"),
                decision=body.get("decision"),
                token=shown and shown[1],
            )
        )
        return JSONResponse({"thread_id": thread_id, "status": "completed"})


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@asynccontextmanager
async def standing_in(host: str) -> AsyncGenerator[ResumeStandIn]:
    """One that listens on a free port of `host`."""
    stand_in = ResumeStandIn()
    routes = [Route("/threads/{thread_id}/resume", stand_in.take, methods=["POST"])]
    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=routes),
            host=host,
            port=0,
            lifespan="off",
            log_config=None,
            access_log=False,
        )
    )
    task = asyncio.create_task(server._serve())  # pyright: ignore[reportPrivateUsage]  # leaves the signals alone
    while not server.started and not task.done():  # noqa: ASYNC110  # it has no event for it
        await asyncio.sleep(0.005)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        stand_in.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        yield stand_in
    finally:
        server.should_exit = True
        await task
