"""Runs workflows in a test as the service does: the same use cases, worker and storage, without HTTP."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.authoring import Agent, ModelJudge, ModelRequest, ModelRouter, Reply, Workflow
from app.authoring.shape import adapter_of
from app.domain.event import EventType
from app.domain.ids import PauseId, ThreadId, new_run_id, new_thread_id
from app.domain.json import Json
from app.domain.principal import Principal
from app.domain.run import SETTLED, RunRef
from app.engine.program import Program
from app.lifecycle import read
from app.lifecycle.decide import DecideRequest, decide
from app.lifecycle.extend import extend
from app.lifecycle.site import Site
from app.lifecycle.start import StartRequest, start
from app.main import Role, running
from app.settings import Settings
from app.storage import events
from app.testing.run import Run, View
from app.testing.script import Script, ScriptNeverUsed, speaker_of

BY = "tester"
"""Who decides where a test names nobody."""

VIA = "test"

SECONDS = 10.0
"""How long a run may take to its next pause or to its end."""


class NotSettled(AssertionError):
    """A run was neither paused nor over in time."""


@dataclass(frozen=True, kw_only=True)
class Scripting:
    """One agent's or router's model, to be replaced."""

    replace: Callable[[Callable[[ModelRequest], Reply] | Sequence[Reply]], None]

    def answers(self, script: Callable[[ModelRequest], Reply] | Sequence[Reply]) -> None:
        """From the next run or decision on, the script answers: a function of the request, or a reply a turn."""
        self.replace(script)


class Signoff:
    """One test's service. It is started anew for each workflow and script that it did not know."""

    def __init__(self, database_url: str) -> None:
        # Whatever the environment says: a test is the same everywhere.
        self._settings = Settings.model_construct(database_url=database_url, drain_seconds=1.0)
        self._workflows: list[Workflow] = []
        self._scripts: dict[Agent | ModelRouter | ModelJudge, Script] = {}
        self._given: list[Script] = []
        self._process = AsyncExitStack()
        self._site: Site | None = None

    def model(self, of: Agent | ModelRouter | ModelJudge) -> Scripting:
        """The model of an agent or a router: `signoff.model(assistant).answers([…])`."""

        def replace(script: Callable[[ModelRequest], Reply] | Sequence[Reply]) -> None:
            self._scripts[of] = Script(speaker_of(of), script)
            self._given.append(self._scripts[of])
            self._site = None

        return Scripting(replace=replace)

    async def execute(
        self,
        workflow: Workflow,
        input: Any,
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        requested_by: str | None = None,
    ) -> Run:
        """Starts a run and gives it once it is paused or has ended.

        `input` is a value of the workflow's input, or its JSON. Runs of one `thread_id` are a conversation.
        Raises `InvalidInput`, and `ScriptRanOut` where a script had no answer.
        """
        site = await self._serving(workflow)
        request = StartRequest(
            thread_id=ThreadId(thread_id) if thread_id else new_thread_id(),
            workflow=workflow.name,
            input=_json(input),
            metadata=dict(metadata or {}),
            creates=True,
            requested_by=requested_by,
        )
        run_id = new_run_id()
        ref = RunRef(tenant=Principal().tenant, thread_id=request.thread_id, run_id=run_id)
        with site.waiters.expecting(run_id) as woken:
            await start(site, Principal(), request, run_id=run_id, key=None)
            return await self._settled(site, workflow, ref, woken)

    async def resume(
        self,
        run: Run,
        *,
        pause: View | None = None,
        by: str = BY,
        if_match: str | None = None,
        **decision: Any,
    ) -> Run:
        """Decides the run's open pause, or the one that is given, and gives the run once it is settled again.

        The decision is as over HTTP: `approved=True`, `override_arguments=…`, `value=…`, `action="retry"`,
        `feedback=…`; what is no JSON becomes it. Raises `InvalidDecision` and what else a decision is
        refused with.
        """
        site = await self._serving(run.workflow)
        about = pause or run.pause
        if about is None:
            raise AssertionError(f"There is nothing to decide. What happened:\n{run.story()}")
        request = DecideRequest(
            thread_id=run.ref.thread_id,
            pause_id=PauseId(about["id"]),
            decision={name: _json(value) for name, value in decision.items()} | {"by": by},
            via=VIA,
            if_match=if_match,
        )
        with site.waiters.expecting(run.ref.run_id) as woken:
            await decide(site, Principal(), request)
            return await self._settled(site, run.workflow, run.ref, woken)

    async def expire(self, run: Run, *, pause: View | None = None) -> Run:
        """Lets the deadline of the open pause pass, and gives the run once it is settled again."""
        site = await self._serving(run.workflow)
        about = pause or run.pause
        if about is None:
            raise AssertionError(f"There is nothing to expire. What happened:\n{run.story()}")
        with site.waiters.expecting(run.ref.run_id) as woken:
            soon = datetime.fromtimestamp(time.time() + 0.1, UTC)
            await extend(site, Principal(), PauseId(about["id"]), soon, via=VIA)
            await self._until_closed(site, PauseId(about["id"]))
            return await self._settled(site, run.workflow, run.ref, woken)

    async def close(self) -> None:
        """Stops the service. Raises `ScriptNeverUsed`."""
        await self._process.aclose()
        for script in self._given:
            if not script.was_asked:
                raise ScriptNeverUsed(f"The script of {script.speaker} was never used.")

    async def _serving(self, workflow: Workflow) -> Site:
        """The service, started anew if it does not know the workflow or a script."""
        if workflow not in self._workflows:
            self._workflows.append(workflow)
            self._site = None
        if self._site is None:
            await self._process.aclose()
            self._process = AsyncExitStack()
            programs = [Program(each, models=self._scripts) for each in self._workflows]
            stopping = asyncio.Event()
            self._site = await self._process.enter_async_context(
                running(self._settings, Role(), stopping, programs=programs)
            )
        return self._site

    async def _settled(
        self, site: Site, workflow: Workflow, ref: RunRef, woken: asyncio.Event
    ) -> Run:
        view = await read.settled_run(site, Principal(), ref, woken, seconds=SECONDS)
        for script in self._scripts.values():
            if script.ran_out is not None:
                raise script.ran_out
        run = Run(ref=ref, workflow=workflow, view=view, called=await _called(site, ref))
        if run.status not in SETTLED:
            raise NotSettled(f"The run is not settled after {SECONDS:g} s:\n{run.story()}")
        return run

    async def _until_closed(self, site: Site, pause_id: PauseId) -> None:
        """Returns once a pause is not open any more, or when the time is up."""
        for _ in range(int(SECONDS / 0.05)):
            if (await read.pause(site, Principal(), pause_id))["status"] != "open":
                return
            await asyncio.sleep(0.05)


def _json(value: Any) -> Json:
    return _ANYTHING.dump_python(value, mode="json", by_alias=True)


_ANYTHING = adapter_of(Any)


async def _called(site: Site, ref: RunRef) -> list[str]:
    """The tools that ran, each call once: a turn's in the order of the calls, since they begin at once."""
    turns: dict[str, dict[int, str]] = {}
    after, has_more = 0, True
    while has_more:
        page = await events.of_run(site.database, ref, after=after)
        for event in page.events:
            if event.type == EventType.TOOL_STARTED:
                turn, _, index = str(event.data["call_id"]).rpartition(".")
                turns.setdefault(turn, {})[int(index)] = str(event.data["tool"])
            after = event.sequence
        has_more = page.has_more
    return [turn[index] for turn in turns.values() for index in sorted(turn)]
