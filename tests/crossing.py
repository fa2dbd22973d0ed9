"""Drives runs through a service that is struck at a moment that was chosen, and on through another one."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx

from tests.history import Freeze
from tests.service import Api, Json, Served, path_of, processes
from tests.wire import Point, Wire, wire_to

LEASE = 1.0
ENDED = frozenset({"completed", "failed", "cancelled"})
TAKEN_BEFORE = frozenset({"pause_decided", "pause_expired", "already_voted"})
"""What a decision is answered that was taken before its answer was lost, or came too late."""


class Fate(StrEnum):
    """What becomes of the service at the moment."""

    KILLED = "killed"
    FROZEN = "frozen"  # until another one has ended the run; then it goes on as if nothing had been


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the services are, and what they share; `freezes` has those that were frozen."""

    folder: Path
    database_url: str
    workflows: str
    environment: dict[str, str]
    freezes: list[Freeze] = field(default_factory=list[Freeze])


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A run that has ended, what went over the wire of its first service, and whether that was struck."""

    run: Json
    seen: Sequence[str]
    is_struck: bool


async def cross(
    place: Place, name: str, survivor: Api, *, point: Point | None = None, fate: Fate = Fate.KILLED
) -> Crossing:
    """Drives a run in the thread `name` through a service that is struck at the point, to its end."""
    folder = place.folder / name
    folder.mkdir()
    async with wire_to(place.database_url, stop_at=point) as wire:
        with processes(
            folder,
            workflows=place.workflows,
            database_url=wire.url,
            environment=place.environment,
        ) as begun:
            doomed = await begun.serve(lease_seconds=LEASE)
            striking = asyncio.create_task(_strike(wire, doomed, fate))
            async with doomed.api() as api:
                caller = Caller(name, api, survivor, wire.reached)
                run = await caller.travel("crossings")
            if fate is Fate.FROZEN and wire.reached.is_set():
                since = await striking
                place.freezes.append(Freeze(pid=doomed.pid, since=since, until=time.time()))
                await _wake(wire, doomed)
            striking.cancel()
            return Crossing(run=run, seen=tuple(wire.seen), is_struck=wire.reached.is_set())


async def _strike(wire: Wire, doomed: Served, fate: Fate) -> float:
    """Strikes at the moment, and says when that was."""
    await wire.reached.wait()
    now = time.time()
    if fate is Fate.KILLED:
        doomed.kill()
        wire.release()
    else:
        os.kill(doomed.pid, signal.SIGSTOP)
    return now


async def _wake(wire: Wire, doomed: Served) -> None:
    """Lets a frozen service go on, with all that it was about to do, for longer than its leases."""
    wire.release()
    os.kill(doomed.pid, signal.SIGCONT)
    await asyncio.sleep(LEASE + 0.5)


class Caller:
    """A caller and approver who asks again elsewhere where a service does not answer any more."""

    def __init__(self, name: str, first: Api, second: Api, is_gone: asyncio.Event) -> None:
        self._name = name
        self._first = first
        self._second = second
        self._is_gone = is_gone

    async def travel(self, workflow: str) -> Json:
        """A run of the workflow from its start to its end, through all its pauses."""
        body = {"workflow": workflow, "input": self._name, "if_not_exists": "create"}
        path = f"/threads/{self._name}/runs"
        run = (await self._ask("POST", path, body, idempotency_key=self._name)).json()
        async with asyncio.timeout(120):
            while run["status"] not in ENDED:
                for pause in run["pauses"]:
                    if pause["status"] == "open":
                        await self._decide(pause)
                run = (await self._ask("GET", path_of(run), prefer="wait=1")).json()
        return run

    async def _decide(self, pause: Json) -> None:
        by = f"clerk {len(pause['votes'])}"
        body = {"pause_id": pause["id"], "decision": {**answer_to(pause), "by": by}}
        key = f"{pause['id']} {by}"
        path = f"/threads/{pause['thread_id']}/resume"
        answer = await self._ask("POST", path, body, idempotency_key=key.replace(" ", "-"))
        assert answer.is_success or answer.json()["code"] in TAKEN_BEFORE, answer.text

    async def _ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        headers.setdefault("prefer", "wait=1")
        while True:
            api = self._second if self._is_gone.is_set() else self._first
            answer = await self._answer(api.ask(method, path, body, **headers))
            if answer and answer.status_code != 503:
                return answer
            await asyncio.sleep(0.05)

    async def _answer(self, asking: Any) -> httpx.Response | None:
        """The answer; None where there is none, or the first service is gone before there is one."""
        request = asyncio.ensure_future(asking)
        if self._is_gone.is_set():
            with suppress(httpx.TransportError):
                return await request
            return None
        leaving = asyncio.ensure_future(self._is_gone.wait())
        await asyncio.wait({request, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        request.cancel()
        with suppress(httpx.TransportError, asyncio.CancelledError):
            return await request
        return None


def answer_to(pause: Json) -> Json:
    """What is said to a pause of any kind: to go on."""
    match pause["kind"]:
        case "interactive":
            return {"value": pause["options"][0]}
        case "unknown_outcome":
            return {"action": "use_value", "value": "paid for sure"}
        case _:
            return {"approved": True}
