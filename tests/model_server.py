"""A local HTTP server that stands for a provider of models and answers by a script, in its protocol."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: Body

    @property
    def messages(self) -> list[Body]:
        return self.body["messages"]

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server does about one request; with no status it closes the connection unanswered."""

    status: int | None = 200
    body: bytes = b""
    stream: Callable[[Body], bytes] | None = None  # its body where a client asks for a stream
    headers: dict[str, str] = field(default_factory=dict[str, str])
    wait: float = 0
    cut: bool = False  # the connection breaks in the middle of the body
    drip: float = 0  # seconds before each event of a stream


def fails(status: int, code: str = "some_error", *, message: str = "no", **headers: str) -> Answer:
    """An error of the provider; `retry_after="1"` becomes a header."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, body=json.dumps({"error": error}).encode(), headers=named)


def answers(body: Any, *, wait: float = 0) -> Answer:
    """Any body: JSON, or bytes as they are."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(body=sent, wait=wait)


def hangs() -> Answer:
    """No answer for longer than any test waits."""
    return Answer(status=None, wait=3600)


def drops() -> Answer:
    """The connection is closed without an answer."""
    return Answer(status=None)


def breaks_off(answer: Answer) -> Answer:
    """The connection is closed in the middle of the answer."""
    return replace(answer, cut=True)


class ModelServer:
    """The running server: where it is, what it was asked, over how many connections."""

    def __init__(self, script: Callable[[Request], Answer]) -> None:
        self._script = script
        self._open: dict[asyncio.StreamWriter, asyncio.Future[None]] = {}
        self._port = 0
        self.requests: list[Request] = []
        self.connections = 0
        self.left = asyncio.Event()
        """Set when a client has gone away before it had its answer."""
        self.asked = asyncio.Event()
        """Set when the first request has come."""
        self.clients = AsyncExitStack()
        """What is closed when the server is: a client that is left to itself warns in another test."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """As clients of OpenAI want it."""
        return f"{self.url}/v1"

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["ModelServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            await self.clients.aclose()
            server.close()
            await self._hang_up()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open[writer] = closed = asyncio.get_running_loop().create_future()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answered(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        del self._open[writer]
        closed.set_result(None)

    async def _hang_up(self) -> None:
        for writer in self._open:
            writer.close()
        await asyncio.gather(*self._open.values())
        for _ in range(8):  # turns of the loop, in which clients on it notice and close their ends
            await asyncio.sleep(0)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        self.requests.append(request)
        self.asked.set()
        answer = self._script(request)
        if answer.wait and not await self._waited(reader, answer.wait):
            return False
        if answer.status is None:
            return False
        body, kind = answer.body, "application/json"
        if request.is_stream and answer.stream is not None:
            body, kind = answer.stream(request.body), "text/event-stream"
        writer.write(_head(answer, kind, len(body)))
        for event in _in_pieces(body[: len(body) // 2] if answer.cut else body, answer.drip):
            await asyncio.sleep(answer.drip)
            writer.write(event)
        await writer.drain()
        return not answer.cut

    async def _waited(self, reader: asyncio.StreamReader, seconds: float) -> bool:
        """False where the client goes away first; it sends nothing more until it is answered."""
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), seconds)
            self.left.set()
            return False
        return True


@asynccontextmanager
async def model_server(
    *answers: Answer, script: Callable[[Request], Answer] | None = None
) -> AsyncGenerator[ModelServer]:
    """A server that gives these answers in order (then 500, code `no_more_answers`), or what `script` says."""
    rest = iter(answers)

    def in_order(_: Request) -> Answer:
        return next(rest, fails(500, "no_more_answers"))

    async with ModelServer(script or in_order).running() as server:
        yield server


def events(*data: Any, named: bool = False) -> bytes:
    """Server-sent events; `named` ones have the type of their data as their name."""
    lines = (
        (f"event: {each['type']}\n" if named else "")
        + f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n"
        for each in data
    )
    return "".join(lines).encode()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(path=first.split(" ")[1], headers=headers, body=json.loads(body or b"{}"))


def _head(answer: Answer, kind: str, length: int) -> bytes:
    status = answer.status or 200
    known = {each.value for each in HTTPStatus}
    phrase = HTTPStatus(status).phrase if status in known else "Overloaded"
    headers = {
        "content-type": kind,
        "content-length": str(length),
        **answer.headers,
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status} {phrase}", *lines, "", ""]).encode()


def _in_pieces(body: bytes, drip: float) -> list[bytes]:
    """The body, where it drips, event by event."""
    return [each + b"\n\n" for each in body.split(b"\n\n") if each] if drip else [body]
