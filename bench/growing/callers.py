"""What callers do in all sections: start a run that pauses, and decide it."""

import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from bench.caller import Caller

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Paused:
    """A run that waits for a decision."""

    thread_id: str
    run_id: str
    pause_id: str

    @property
    def path(self) -> str:
        return f"/threads/{self.thread_id}/runs/{self.run_id}"


async def new_thread(caller: Caller) -> str:
    thread = await caller.post("/threads", {}, status=201)
    return thread["id"]


async def start(
    caller: Caller, thread_id: str, workflow: str, text: str = "write to the boss"
) -> Paused:
    """Starts a run and waits for its pause."""
    body = {"workflow": workflow, "input": {"text": text}}
    run = await caller.post(f"/threads/{thread_id}/runs", body, status=201)
    return Paused(thread_id=thread_id, run_id=run["id"], pause_id=run["pause"]["id"])


async def decide(caller: Caller, paused: Paused) -> Any:
    """Approves, and waits for what comes of it: the run as it is then."""
    answer = {"pause_id": paused.pause_id, "decision": {"approved": True, "by": "boss"}}
    return await caller.post(f"/threads/{paused.thread_id}/resume", answer, status=200)


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """What it gives, and the seconds it took."""
    began = time.perf_counter()
    given = await work
    return given, time.perf_counter() - began


async def seconds_of(work: Awaitable[object]) -> float:
    _, took = await timed(work)
    return took
