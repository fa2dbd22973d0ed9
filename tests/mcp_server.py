"""A help desk as a server of the Model Context Protocol: `python -m tests.mcp_server`, with `http` on a port."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent, ResourceLink, TextContent
from pydantic import BaseModel, Field

ROOT = Path(__file__).parents[1]
NOTES = "TICKETS_NOTES"
"""The variable with the file in which the server notes what was done."""

served = MCPServer("tickets", log_level="ERROR")


class Ticket(BaseModel):
    id: int
    title: str
    tags: list[str] = []


class Payer(BaseModel):
    iban: str
    name: str


@served.tool(structured_output=True)
def find(id: Annotated[int, Field(ge=1)]) -> Ticket:
    """Finds a ticket."""
    return Ticket(id=id, title="It rains in", tags=["roof"])


@served.tool()
def close(context: Context[Any, Any], id: int, reason: Literal["solved", "spam"] = "solved") -> str:
    """Closes a ticket."""
    meta: Any = context.request_context.meta
    _note(f"close {id} {reason} {meta.get('signoff/call_id') if meta else None}")
    return f"closed {id} as {reason}"


@served.tool(structured_output=False)
def pay(card: str, payer: Payer, cents: int, copies: list[Payer] | None = None) -> str:
    """Pays for a ticket."""
    _note(f"pay {card} {payer.iban} {cents}")
    return f"paid {cents} by {payer.name} with {card}"


@served.tool(structured_output=False)
def fail(why: str) -> str:
    """Fails."""
    raise ToolError(why)


@served.tool(structured_output=False)
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@served.tool(structured_output=False)
def die() -> str:
    """Takes the server with it."""
    os._exit(3)


@served.tool(structured_output=False)
def show() -> list[Any]:
    """Gives what is not all text."""
    return [
        TextContent(type="text", text="two pictures"),
        ImageContent(type="image", data="aGVsbG8=", mime_type="image/png"),
        ResourceLink(type="resource_link", name="plan", uri="file:///plan.pdf"),
    ]


@served.tool(name="tickets.count", structured_output=False)
def count() -> str:
    """Counts tickets."""
    return "3"


def _note(line: str) -> None:
    if path := os.environ.get(NOTES):
        with Path(path).open("a") as notes:
            notes.write(line + "\n")


@dataclass(frozen=True, kw_only=True)
class HelpDesk:
    """One that runs, and what it has noted."""

    url: str
    file: Path

    @property
    def notes(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


@contextmanager
def help_desk(folder: Path) -> Generator[HelpDesk]:
    """Runs one at a port, as a process."""
    file = folder / "notes"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp_server", "http"],
        cwd=ROOT,
        env={**os.environ, NOTES: str(file)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield HelpDesk(url=f"http://127.0.0.1:{port}/mcp", file=file)
    finally:
        process.kill()
        process.communicate()


def _serve_http() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - tells who started it
    application = served.streamable_http_app()
    uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        _serve_http()
    else:
        served.run()
