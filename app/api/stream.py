"""Server-sent events as an answer: as fast as the client reads, quiet lines between, gone when the client is.

A client that is slow makes the sending wait, and with it the reading of what is to be sent. One that takes
nothing for a while is let go: it can come back with the id of the last event it has.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import ClassVar, Final

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.domain.json import Json

MEDIA_TYPE: Final = "text/event-stream"

HEARTBEAT_SECONDS: Final = 15.0
"""After which a stream with nothing to tell sends a comment, so that nobody on the way takes it for dead."""

STALLED_SECONDS: Final = 60.0
"""After which a client that takes nothing is let go."""

_HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would keep events back until there are enough of them
}


class EventStream(Response):
    """Sends frames as they come, until there are no more, the client is gone, or may not go on."""

    media_type: ClassVar[str] = MEDIA_TYPE
    heartbeat: ClassVar[bytes] = b":\n\n"

    def __init__(
        self,
        frames: AsyncGenerator[bytes],
        *,
        heartbeat_seconds: float,
        goes_on: Callable[[], Awaitable[bool]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(headers={**_HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._frames = frames
        self._heartbeat_seconds = heartbeat_seconds
        self._goes_on = goes_on
        self._asked = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            ends = await asyncio.gather(sending, leaving, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, TimeoutError | OSError):
                raise end

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._frames) as frames:
            following = asyncio.ensure_future(anext(frames, None))
            try:
                while await self._may_go_on():
                    done, _ = await asyncio.wait({following}, timeout=self._until_asked)
                    if not done:
                        await _sent(send, self.heartbeat)
                        continue
                    frame = following.result()
                    if frame is None:
                        break
                    await _sent(send, frame)
                    following = asyncio.ensure_future(anext(frames, None))
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def _until_asked(self) -> float:
        """Seconds until whoever streams has to be let in again."""
        return max(0.0, self._asked + self._heartbeat_seconds - time.monotonic())

    async def _may_go_on(self) -> bool:
        if self._until_asked:
            return True
        self._asked = time.monotonic()
        return await self._goes_on()


class LateAnswer(EventStream):
    """JSON that comes late: blanks go before it, so that nobody on the way takes the connection for dead."""

    media_type: ClassVar[str] = "application/json"
    heartbeat: ClassVar[bytes] = b"\n"


async def _sent(send: Send, frame: bytes) -> None:
    async with asyncio.timeout(STALLED_SECONDS):
        await send({"type": "http.response.body", "body": frame, "more_body": True})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(event: str, data: Json, *, id: str | None = None) -> bytes:
    """One event as it is sent; one without an id leaves the client's last id as it is."""
    named = f"event: {event}\n".encode()
    numbered = f"id: {id}\n".encode() if id is not None else b""
    return named + numbered + b"data: " + orjson.dumps(data) + b"\n\n"
