"""Streams of events as a client reads them: over real HTTP, line by line."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson


@dataclass(frozen=True, kw_only=True)
class Told:
    """One event as it came."""

    type: str
    id: str | None
    data: Any


@dataclass(kw_only=True)
class Stream:
    """What has come so far, and what comes."""

    response: httpx.Response
    told: list[Told] = field(default_factory=list[Told])
    comments: int = 0

    @property
    def durable(self) -> list[Told]:
        """The events that have a place in what happened."""
        passing = ("model.delta", "stream.position")
        return [each for each in self.told if each.type not in passing]

    @property
    def deltas(self) -> list[Any]:
        """What models were heard writing."""
        return [each.data["data"] for each in self.told if each.type == "model.delta"]

    @property
    def types(self) -> list[str]:
        return [each.type for each in self.told]

    @property
    def last_id(self) -> str | None:
        """What a client that lost its connection comes back with."""
        return next((each.id for each in reversed(self.told) if each.id is not None), None)

    async def until(self, is_there: Callable[["Stream"], bool], within: float = 20) -> None:
        """Reads on until it is there; fails where the stream ends before."""
        async with asyncio.timeout(within):
            while not is_there(self):
                assert await self._read(), f"it ended after {self.types}"

    async def until_type(self, type: str, times: int = 1, within: float = 20) -> Told:
        """The event of that type, once it has come so often."""
        await self.until(lambda stream: stream.types.count(type) >= times, within)
        return [each for each in self.told if each.type == type][times - 1]

    async def rest(self, within: float = 20) -> list[Told]:
        """Everything durable, once the stream has ended."""
        async with asyncio.timeout(within):
            while await self._read():
                pass
        return self.durable

    async def _read(self) -> bool:
        """Reads one event or comment; false at the end."""
        lines: list[str] = []
        async for line in self._lines:
            if line:
                lines.append(line)
            elif lines:
                self._take(lines)
                return True
        return False

    def __post_init__(self) -> None:
        self._lines = _lines(self.response)

    def _take(self, lines: list[str]) -> None:
        if lines == [":"]:
            self.comments += 1
            return
        fields = dict(line.split(": ", 1) for line in lines)
        data = orjson.loads(fields["data"])
        self.told.append(Told(type=fields["event"], id=fields.get("id"), data=data))


async def _lines(response: httpx.Response) -> AsyncGenerator[str]:
    """Its lines, which may have in them what other texts end lines with."""
    rest = ""
    async for text in response.aiter_text():
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            yield line


@asynccontextmanager
async def streaming(
    client: httpx.AsyncClient, path: str, *, after: str | None = None
) -> AsyncGenerator[Stream]:
    """An open stream; `after` is the id to go on after."""
    headers = {"last-event-id": after} if after else {}
    async with client.stream("GET", path, headers=headers, timeout=60) as response:
        if response.status_code == 200:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Stream(response=response)


def events_of(run: dict[str, Any]) -> str:
    """The path of a run's events."""
    return f"/threads/{run['thread_id']}/runs/{run['id']}/events"
