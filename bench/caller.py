"""A caller that costs little: one connection, one request after the other."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import orjson


class Refused(Exception):
    """The service answered with something else than what the cycle needs."""


class Caller:
    """Speaks as much HTTP/1.1 as the service's own answers need."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def connected(cls, port: int) -> AsyncGenerator[Self]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def post(self, path: str, value: Any, *, status: int) -> Any:
        """The JSON of the answer. Raises `Refused` where the status is another one."""
        body = orjson.dumps(value)
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"prefer: wait=60\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        return await self._answer(path, status)

    async def get(self, path: str, *, status: int) -> Any:
        """As `post`, without a body; what is not JSON is given as it came."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        return await self._answer(path, status)

    async def _answer(self, path: str, status: int) -> Any:
        first, headers = await read_head(self._reader)
        body = await self._reader.readexactly(int(headers["content-length"]))
        if int(first.split()[1]) != status:
            raise Refused(f"{path}: {first}: {body.decode(errors='replace')}")
        return orjson.loads(body) if "json" in headers["content-type"] else body


async def read_head(reader: asyncio.StreamReader) -> tuple[str, Mapping[str, str]]:
    """The first line and the headers, their names in small letters."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return first, {name.strip().lower(): value.strip() for name, value in pairs}
