"""The approver's side of a webhook: takes every notice and says nothing."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Self

from bench.caller import read_head

_QUIET = 0.3  # seconds without a notice after which none is on its way any more


class Receiver:
    """Counts the notices that come in."""

    def __init__(self) -> None:
        self.count = 0
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    @classmethod
    @asynccontextmanager
    async def listening(cls) -> AsyncGenerator[Self]:
        receiver = cls()
        server = await asyncio.start_server(receiver._serve, "127.0.0.1", 0)
        receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/notices"
        try:
            yield receiver
        finally:
            server.close()
            for writer in receiver._writers:
                writer.close()

    async def quiet(self) -> None:
        """Returns once nothing comes in any more."""
        before = -1
        while before != self.count:
            before = self.count
            await asyncio.sleep(_QUIET)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                _, headers = await read_head(reader)
                await reader.readexactly(int(headers["content-length"]))
                self.count += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        self._writers.discard(writer)
        writer.close()
