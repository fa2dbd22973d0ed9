"""What stands in the tables while a run is under way: all that an effect rests on, and nothing that would come again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from app.authoring import (
    Agent,
    CallDecision,
    ModelRequest,
    Parallel,
    Reply,
    ScriptedModel,
    ToolCall,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel
from tests.service import until
from tests.serving import serving, site_over

auto = AutoApproveChannel("auto")


@dataclass(kw_only=True)
class Scene:
    """A workflow of two agents side by side: one is held up once its channel has decided, one works."""

    in_a_call: asyncio.Event = field(default_factory=asyncio.Event)
    call_may_end: asyncio.Event = field(default_factory=asyncio.Event)
    in_a_turn: asyncio.Event = field(default_factory=asyncio.Event)
    turn_may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def workflow(self) -> Workflow:
        agents = (self._held_up(), self._working())
        return Workflow(
            "scene", version="1", input=str, steps=[Parallel("both", agents)], channels=[auto]
        )

    def _held_up(self) -> Agent:
        @tool(channel=auto)
        async def send(context: ToolContext, text: str) -> str:
            """Sends it."""
            return f"sent {text}"

        async def look(call: ToolCall, decision: CallDecision) -> None:
            self.in_a_turn.set()
            await self.turn_may_end.wait()

        def sends(request: ModelRequest) -> Reply:
            last = request.messages[-1]
            return reply_with(last.text) if last.role == "tool" else call_tool(send, last.text)

        model = ScriptedModel(sends)
        return Agent("held-up", prompt="Send.", model=model, tools=[send], on_decision=[look])

    def _working(self) -> Agent:
        @tool
        async def work(context: ToolContext, text: str) -> str:
            """Works on it."""
            self.in_a_call.set()
            await self.call_may_end.wait()
            return text

        def works(request: ModelRequest) -> Reply:
            return call_tool(work, "it") if request.turn < 2 else reply_with("done")

        return Agent("working", prompt="Work.", model=ScriptedModel(works), tools=[work])


@dataclass(kw_only=True)
class Tables:
    """What is written of the only run."""

    connection: asyncpg.Connection

    async def turns_of(self, agent: str) -> int:
        """How many turns of an agent have been told."""
        return await self.connection.fetchval(
            "select count(*) from events where type = 'model.answered' and data->>'agent' = $1",
            agent,
        )

    async def paid_for(self, agent: str) -> int:
        """How many of its model's calls are in the ledger."""
        return await self.connection.fetchval(
            "select count(*) from ledger where kind = 'model' and agent = $1", agent
        )

    async def decided(self) -> tuple[int, ...]:
        """How many pauses are decided, by the pauses, the events and the audit."""
        row = await self.connection.fetchrow(
            "select (select count(*) from pauses where status = 'decided'),"
            " (select count(*) from events where type = 'pause.decided'),"
            " (select count(*) from audit where action = 'decided')"
        )
        return tuple(row or ())

    async def has_checkpoint(self, agent: str) -> bool:
        """Whether a worker that took the run over would find the agent's turn."""
        found = "select exists (select from checkpoints where line like '%/' || $1 and ns <> '')"
        return await self.connection.fetchval(found, agent)


@asynccontextmanager
async def played(scene: Scene, database_url: str) -> AsyncGenerator[Tables]:
    """The scene under way; it ends, and well, after the block."""
    connection = await asyncpg.connect(database_url)
    async with site_over(database_url, [scene.workflow()]) as site, serving(site) as client:
        started = await client.post(
            "/threads/one/runs",
            json={"workflow": "scene", "input": "x", "if_not_exists": "create"},
            headers={"prefer": "respond-async"},
        )
        yield Tables(connection=connection)
        scene.call_may_end.set()
        scene.turn_may_end.set()
        ended = await client.get(started.headers["location"], headers={"prefer": "wait=10"})
        assert ended.json()["status"] == "completed", ended.text
    await connection.close()


async def test_when_a_call_begins_the_turn_that_asked_for_it_is_written(database_url: str) -> None:
    scene = Scene()
    async with played(scene, database_url) as tables:
        await scene.in_a_call.wait()
        assert await tables.turns_of("working") == 1
        assert await tables.paid_for("working") == 1
        assert await tables.has_checkpoint("working")


async def test_what_a_channel_decided_is_not_told_before_it_is_kept_whatever_other_lines_write(
    database_url: str,
) -> None:
    scene = Scene()
    async with played(scene, database_url) as tables:
        await scene.in_a_turn.wait()
        scene.call_may_end.set()

        async def has_ended() -> bool:
            return await tables.turns_of("working") == 3

        await until(has_ended)
        assert await tables.decided() == (0, 0, 0)
        scene.turn_may_end.set()

        async def is_kept() -> bool:
            return await tables.turns_of("held-up") == 2

        await until(is_kept)
        assert await tables.decided() == (1, 1, 1)
