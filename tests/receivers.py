"""An approver's web server on loopback: it answers as it was told to and keeps what it got."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is sent back: a whole answer, or one that misbehaves.

    `chunk` is sent again and again, `pause` seconds apart, until the other side hangs up: with a pause
    it drips, without one it is endless. `raw` is sent before that, in the place of a head. `hangs` sends
    nothing at all.
    """

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    chunk: bytes = b""
    pause: float = 0
    raw: bytes = b""
    hangs: bool = False


def decides(decision: Any) -> Answer:
    return says({"decision": decision})


def says(value: Any, status: int = 200) -> Answer:
    body = orjson.dumps(value)
    return Answer(status=status, headers={"content-type": "application/json"}, body=body)


def redirects_to(url: str, status: int = 307) -> Answer:
    return Answer(status=status, headers={"location": url})


def drips(status: int = 200) -> Answer:
    return Answer(status=status, chunk=b" ", pause=0.01)


def never_ends(status: int = 200) -> Answer:
    return Answer(status=status, chunk=b" " * 16384)


HANGS = Answer(hangs=True)


class Receiver:
    """A server for the time of an `async with`.

    It gives the answers one after the other and repeats the last. `answer_with` puts others in their place.

    Args:
        answers: What to answer; 204 if none is given.
        host: The loopback address to listen on.
        port: The port to listen on; a free one by default.
        tls: Serves https with it.
    """

    def __init__(
        self,
        *answers: Answer,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self._host = host
        self._port = port
        self._tls = tls
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.answer_with(*answers)

    def answer_with(self, *answers: Answer) -> None:
        self._answers = list(answers) or [Answer()]

    def answer(self, request: Received) -> Answer:
        """What is answered to a request."""
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/hook"

    async def wait_for(self, count: int, within: float = 20) -> list[Received]:
        """The requests so far, once there are `count` of them."""
        async with asyncio.timeout(within), self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return list(self.received)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, ssl=self._tls
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            try:
                request = await _read(reader)
                async with self._arrived:
                    self.received.append(request)
                    answer = self.answer(request)
                    self._arrived.notify_all()
                async for part in _parts(answer):
                    writer.write(part)
                    await writer.drain()
            finally:
                writer.close()
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method=method, path=path, headers=headers, body=body)


async def _parts(answer: Answer) -> AsyncIterator[bytes]:
    if answer.hangs:
        await asyncio.Event().wait()
    yield answer.raw or _head(answer) + answer.body
    while answer.chunk:
        yield answer.chunk
        await asyncio.sleep(answer.pause)


def _head(answer: Answer) -> bytes:
    headers = {"connection": "close", **answer.headers}
    if not answer.chunk and answer.status != 204:
        headers.setdefault("content-length", str(len(answer.body)))
    lines = [
        f"HTTP/1.1 {answer.status} as told",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
