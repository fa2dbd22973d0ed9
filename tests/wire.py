"""A line to Postgres that a test watches, and holds at any statement that writes.

    service ──► wire ──► Postgres

The wire reads the protocol's messages, names the statements that write, and counts them. At the one it was
told of it lets nothing through any more, in either direction, and says so: before the statement is sent, or
after it is committed and before its answer is. What becomes of the service then is the test's own affair.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

NAMES = (
    ("insert into runs", "start"),
    ("insert into threads", "make the thread"),
    ("r.fingerprint = any($1::text[])\n  order by t.ready_at", "claim"),
    ("'pause.expired' else 'pause.decided'", "decide"),
    ("active_status = 'paused'", "park"),
    ("from ok, json_to_record(ok.doc->'end')", "end"),
    ("as held", "save"),
    ("insert into step_results", "keep a result"),
    ("picked as materialized (\n  select due.thread_id", "take a notice"),
    ("insert into delivery_attempts", "note an attempt"),
    ("COMMIT", "commit"),
)
"""What of a statement's text says which one it is; the first that fits does."""

LOOKS = frozenset({"claim", "take a notice"})
"""Statements that are sent again and again, and count only where they found something."""


class Moment(StrEnum):
    BEFORE = "before"  # the statement is sent
    AFTER = "after"  # it is committed, and its answer is not sent


@dataclass(frozen=True, kw_only=True)
class Point:
    """A moment at the statement of a name, when it is sent for the nth time."""

    statement: str
    nth: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.statement} {self.nth}"


@dataclass(kw_only=True, eq=False)
class _Connection:
    names: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])
    current: str | None = None
    """The statement that is under way."""
    is_stop: bool = False
    """Whether it is the one after which the wire holds."""


class Wire:
    """The wire of one service; `seen` are the statements that went over it, in order."""

    def __init__(self, url: str, stop_at: Point | None) -> None:
        self.seen: list[str] = []
        self.reached = asyncio.Event()
        self.url = ""
        self._to = urlsplit(url)
        self._stop_at = stop_at
        self._open = asyncio.Event()
        self._open.set()
        self._counts = Counter[str]()

    def release(self) -> None:
        """Lets everything through again."""
        self._open.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection of the service."""
        with suppress(OSError, EOFError):
            to_reader, to_writer = await self._connect()
            connection = _Connection()
            pumps = [
                asyncio.create_task(self._forth(connection, reader, to_writer)),
                asyncio.create_task(self._back(connection, to_reader, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            to_writer.close()
        writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        query = parse_qs(self._to.query)
        port = int(query["port"][0]) if "port" in query else self._to.port or 5432
        if "host" in query:
            return await asyncio.open_unix_connection(f"{query['host'][0]}/.s.PGSQL.{port}")
        return await asyncio.open_connection(self._to.hostname, port)

    async def _forth(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = await reader.readexactly(4)
        writer.write(first + await reader.readexactly(int.from_bytes(first, "big") - 4))
        while True:
            kind, message = await _message(reader)
            self._sends(connection, kind, message[5:])
            await self._open.wait()
            writer.write(message)
            await writer.drain()

    async def _back(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answer, has_rows = b"", False
        while True:
            kind, message = await _message(reader)
            answer += message
            has_rows = has_rows or kind == b"D"
            if kind == b"Z":
                self._answered(connection, has_rows=has_rows)
            if (
                connection.current is None
            ):  # the answer to a statement that writes is kept until it is whole
                await self._open.wait()
                writer.write(answer)
                await writer.drain()
                answer, has_rows = b"", False

    def _sends(self, connection: _Connection, kind: bytes, body: bytes) -> None:
        match kind:
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                connection.names[name] = _name_of(text.decode())
            case b"B":
                _, name, _ = body.split(b"\0", 2)
                self._begins(connection, connection.names.get(name))
            case b"Q":
                self._begins(connection, _name_of(body.decode()))
            case _:
                pass

    def _begins(self, connection: _Connection, name: str | None) -> None:
        connection.current, connection.is_stop = name, False
        if name and name not in LOOKS:
            moment = self._counted(name)
            connection.is_stop = moment is Moment.AFTER
            if moment is Moment.BEFORE:
                self._hold()

    def _answered(self, connection: _Connection, *, has_rows: bool) -> None:
        name, connection.current = connection.current, None
        if name in LOOKS and has_rows and self._counted(name) is Moment.AFTER:
            connection.is_stop = True
        if name and connection.is_stop:
            connection.is_stop = False
            self._hold()

    def _counted(self, name: str) -> Moment | None:
        """Counts a statement, and says where it is to be held, if it is."""
        self.seen.append(name)
        self._counts[name] += 1
        stop = self._stop_at
        is_it = stop and (stop.statement, stop.nth) == (name, self._counts[name])
        return stop.moment if stop and is_it else None

    def _hold(self) -> None:
        self._open.clear()
        self.reached.set()


@asynccontextmanager
async def wire_to(url: str, *, stop_at: Point | None = None) -> AsyncGenerator[Wire]:
    """A wire to the Postgres at `url`; `wire.url` is where the service finds it."""
    wire = Wire(url, stop_at)
    server = await asyncio.start_server(wire.connected, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    to = urlsplit(url)
    account = f"{to.username or 'postgres'}{f':{to.password}' if to.password else ''}"
    wire.url = f"postgresql://{account}@127.0.0.1:{port}{to.path}?sslmode=disable"
    try:
        yield wire
    finally:
        wire.release()
        server.close()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


def _name_of(text: str) -> str | None:
    return next((name for part, name in NAMES if part in text), None)
