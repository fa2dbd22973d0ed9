"""A local HTTP server that speaks OpenAI's Chat Completions protocol and answers by a script.

async with openai_server(calls(call("send", '{"to": "a"}')), says("done")) as server:
    ...ChatOpenAI(base_url=server.base_url)...
assert server.requests[0].messages[-1]["role"] == "user"
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
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
    def tools(self) -> list[Body]:
        return [tool["function"] for tool in self.body.get("tools", [])]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server does about one request; with no status it closes the connection unanswered."""

    status: int | None = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    wait: float = 0
    cut: bool = False  # the connection breaks in the middle of the body


def says(text: str | None, *, calls: list[Body] | None = None, **about: Any) -> Answer:
    """An answer in words. `about`: finish, usage, refusal, model, wait, and any field of the message."""
    finish = about.pop("finish", "tool_calls" if calls else "stop")
    usage = about.pop("usage", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
    model, wait = about.pop("model", "gpt-test-2026"), about.pop("wait", 0)
    message = {"role": "assistant", "content": text, "refusal": None, **about}
    if calls is not None:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    return answers({**head, "choices": [choice], "usage": usage}, wait=wait)


def calls(*proposed: Body, **about: Any) -> Answer:
    """An answer that proposes calls, each made by `call`."""
    return says(about.pop("text", None), calls=list(proposed), **about)


def call(tool: str, arguments: Any = "{}", *, id: str | None = "call_1") -> Body:
    """One proposed call. The protocol has arguments as a string of JSON; servers send other things too."""
    proposed: Body = {"type": "function", "function": {"name": tool, "arguments": arguments}}
    return proposed if id is None else {"id": id, **proposed}


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
    return Answer(status=answer.status, body=answer.body, cut=True)


class OpenAIServer:
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

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["OpenAIServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
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
        sent = _head(answer) + answer.body
        writer.write(sent[: len(sent) - len(answer.body) // 2] if answer.cut else sent)
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
async def openai_server(
    *answers: Answer, script: Callable[[Request], Answer] | None = None
) -> AsyncGenerator[OpenAIServer]:
    """A server that gives these answers in order (then 500, code `no_more_answers`), or what `script` says."""
    rest = iter(answers)

    def in_order(_: Request) -> Answer:
        return next(rest, fails(500, "no_more_answers"))

    async with OpenAIServer(script or in_order).running() as server:
        yield server


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(path=first.split(" ")[1], headers=headers, body=json.loads(body or b"{}"))


def _head(answer: Answer) -> bytes:
    status = HTTPStatus(answer.status or 200)
    headers = {
        "content-type": "application/json",
        "content-length": str(len(answer.body)),
        **answer.headers,
    }
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}", *lines, "", ""]).encode()
