"""LangGraph's own clients, of a service under test; every answer they get is held against the document."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from langgraph_sdk import get_client

from tests.described import is_described
from tests.serving import Service

Json = dict[str, Any]
BY = {"by": "maria"}
APPROVE: Json = {"decisions": [{"type": "approve"}]}
REJECT: Json = {"decisions": [{"type": "reject", "message": "not today"}]}


def edit(tool: str, **args: object) -> Json:
    """An approval with other arguments, as LangChain's middleware takes it."""
    return {"decisions": [{"type": "edit", "edited_action": {"name": tool, "args": args}}]}


def url_of(served: Service) -> str:
    return f"{str(served.client.base_url).rstrip('/')}/langgraph"


@asynccontextmanager
async def sdk(served: Service, key: str | None = None) -> AsyncGenerator[Any]:
    """The asynchronous client, with a key if there is one. Its types leave open what it answers."""
    async with get_client(url=url_of(served), api_key=key) as client:
        client.http.client.event_hooks = {"response": [_check]}
        yield client


async def _check(response: httpx.Response) -> None:
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    if response.status_code == 204 or is_stream:
        return
    await response.aread()
    assert is_described(response)


async def waiting(client: Any, assistant: str, given: Any) -> tuple[str, list[Json]]:
    """The thread of a run that waits, and its interrupts."""
    thread = await client.threads.create()
    waits = await client.runs.wait(thread["thread_id"], assistant, input=given)
    return thread["thread_id"], waits["__interrupt__"]


def resume(answers: Json) -> Any:
    """The command that answers interrupts by their ids."""
    return {"resume": answers}
