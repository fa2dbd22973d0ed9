"""Speaks with servers of the Model Context Protocol; needs the extra `mcp`.

Each question has a connection of its own: a run's calls may be made by different workers, and a connection
that breaks is then one call that failed.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import TextIO, cast

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp.types import Tool as OfferedByServer

from app.authoring.shape import json_text
from app.domain.json import Json

log = logging.getLogger(__name__)

LONGEST_LINE = 2000
"""Characters of a line that a server writes beside its protocol; what is longer is more than one line."""

MOST_PAGES = 100
"""Of a list of tools; a server that never comes to an end is left after that many."""

CALL_ID = "signoff/call_id"
"""Where a server finds the id of a call, which is the same when a crash has it made again."""


class McpFailed(Exception):
    """A server that cannot be reached, does not answer, or says that a call failed."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is: at a URL, or started by a command."""

    name: str
    url: str | None
    headers: Mapping[str, str]
    command: Sequence[str]
    environment: Mapping[str, str]


def listed(address: Address, seconds: float) -> list[OfferedByServer]:
    """The tools of a server. Waits for them, so that it belongs into a thread; raises `McpFailed`."""
    with asyncio.Runner() as runner:
        return runner.run(_listed(address, seconds))


async def _listed(address: Address, seconds: float) -> list[OfferedByServer]:
    try:
        async with asyncio.timeout(seconds), _connection(address) as client:
            return await _all_pages(client)
    except TimeoutError as error:
        raise McpFailed(f"it did not answer within {seconds:g} seconds") from error
    except Exception as error:
        raise McpFailed(_reason(error)) from error


async def _all_pages(client: Client) -> list[OfferedByServer]:
    tools: list[OfferedByServer] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise McpFailed(f"its list of tools has more than {MOST_PAGES} pages")


async def called(address: Address, tool: str, arguments: Json, call_id: str) -> CallToolResult:
    """What a server answers to a call; raises `McpFailed`."""
    answer: CallToolResult | None = None
    try:
        async with _connection(address) as client:
            answer = await client.call_tool(tool, arguments, meta={CALL_ID: call_id})
    except Exception as error:
        if answer is None:  # else the call was made, and only the goodbye went wrong
            raise McpFailed(_reason(error)) from error
    if answer.is_error:
        raise McpFailed(text_of(answer.content) or "it failed, and does not say why")
    return answer


@asynccontextmanager
async def _connection(address: Address) -> AsyncGenerator[Client]:
    if address.url is None:
        program, *arguments = address.command
        start = StdioServerParameters(
            command=program, args=arguments, env=dict(address.environment)
        )
        with _logged(address.name) as says:
            async with Client(stdio_client(start, errlog=says)) as client:
                yield client
        return
    patience = httpx2.Timeout(30, read=None)  # the call's own time-out ends the waiting
    async with (
        httpx2.AsyncClient(headers=dict(address.headers), timeout=patience) as http,
        Client(streamable_http_client(address.url, http_client=http)) as client,
    ):
        yield client


@contextmanager
def _logged(server: str) -> Generator[TextIO]:
    """A file for a process to write into; each line becomes one of the log, also after this has ended.

    At the level DEBUG alone: the words are not ours, and may quote a call.
    """
    reading, writing = os.pipe()
    in_context = copy_context().run
    reader = threading.Thread(
        target=in_context, args=(_log_lines, server, reading), name=f"mcp-{server}", daemon=True
    )
    reader.start()
    with open(writing, "w") as says:
        yield says


def _log_lines(server: str, reading: int) -> None:
    with open(reading, errors="replace") as lines:
        while line := lines.readline(LONGEST_LINE):
            log.debug("server said", extra={"server": server, "line": line.rstrip()})


def _reason(error: BaseException) -> str:
    """What an exception says: of a group, which tasks make of theirs, the first."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) or type(error).__name__


def result_of(answer: CallToolResult, *, structured: bool, wrapped: bool) -> Json:
    """A result as JSON: what is `structured`, taken out of the object it is `wrapped` in; else its text."""
    if structured:
        return answer.structured_content["result"] if wrapped else answer.structured_content
    text = text_of(answer.content)
    if text or answer.structured_content is None:
        return text
    return json_text(answer.structured_content).decode()


def text_of(content: Sequence[ContentBlock]) -> str:
    """Blocks as one text. What is not text is named."""
    return "\n\n".join(_text(each) for each in content)


def _text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ResourceLink(name=name, uri=uri):
            return f"[{name}: {uri}]"
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}: {resource.mime_type or 'bytes'}, which is no text]"
        case _:
            return f"[{block.mime_type}, which is no text]"
