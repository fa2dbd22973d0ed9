"""What a run's checkpoints promise: little is written, nothing that counts is lost, nothing stale stays."""

import asyncio
import operator
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from app.authoring import Reply, Workflow, call_tool, tool
from app.domain.ids import RunId, ThreadId, new_thread_id
from app.engine.journal import Journal
from app.storage.checkpoints import (
    SAVE_PARAMETERS,
    CheckpointRow,
    PostgresCheckpointer,
    RunCheckpointer,
    Unsaved,
    WriteRow,
    load_columns,
    save_ctes,
)
from app.storage.database import Database
from tests.engine_runs import EngineRun, script, workflow
from tests.pooler import IS_POOLED

RUN = RunId("run_1")
ROOT: Any = {"configurable": {"thread_id": "run_1/root", "checkpoint_ns": ""}}
AGENT: Any = {"configurable": {"thread_id": "run_1/root", "checkpoint_ns": "agent:1"}}
DEEPER: Any = {"configurable": {"thread_id": "run_1/root", "checkpoint_ns": "agent:1|sub:2"}}
OTHER_LINE: Any = {"configurable": {"thread_id": "run_1/a", "checkpoint_ns": "agent:1"}}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    yield database
    await database.close()


class Store:
    """One run's rows: saves what a saver has, and makes the saver of the next worker."""

    def __init__(self, database: Database, run_id: RunId = RUN) -> None:
        self._database = database
        self._thread_id: ThreadId = new_thread_id()
        self._run_id = run_id

    def saver(self) -> RunCheckpointer:
        return RunCheckpointer(self._thread_id, self._run_id)

    async def save(self, saver: RunCheckpointer) -> None:
        unsaved = saver.take()
        await self.write(unsaved)
        saver.saved(unsaved)

    async def write(self, unsaved: Unsaved, *, held: bool = True) -> None:
        ctes = save_ctes(first_param=2, gate="lk")
        await self._database.fetch(
            f"with lk as (select 1 where $1::bool), {ctes} select 1", held, *unsaved.arguments()
        )

    async def loaded(self) -> RunCheckpointer:
        row = await self._database.fetch_row(
            f"select {load_columns(thread_id='$1', run_id='$2')}", self._thread_id, self._run_id
        )
        assert row is not None
        return RunCheckpointer(
            self._thread_id,
            self._run_id,
            checkpoints=map(CheckpointRow.of, row["checkpoints"]),
            writes=map(WriteRow.of, row["writes"]),
        )

    async def rows(self) -> list[tuple[str, ...]]:
        """What is stored, checkpoints as (line, ns, id), writes with their task and index."""
        found = await self._database.fetch(
            "select line, ns, id, '' as write from checkpoints where thread_id = $1"
            " union all select line, ns, checkpoint_id, task_id || ' ' || idx from checkpoint_writes"
            " where thread_id = $1 order by 1, 2, 3, 4",
            self._thread_id,
        )
        return [tuple(value for value in row if value != "") for row in found]

    async def written(self) -> bytes:
        """Every value that a task has written since the newest checkpoint."""
        rows = await self._database.fetch(
            "select body from checkpoint_writes where thread_id = $1", self._thread_id
        )
        return b"".join(row["body"] for row in rows)

    def whole(self) -> PostgresCheckpointer:
        return PostgresCheckpointer(self._database, self._thread_id)


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


# ── What is written ──────────────────────────────────────────────────────────────────────────────


async def test_only_the_newest_checkpoint_and_its_writes_are_written(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    config = await saver.aput(config, _checkpoint("2"), {}, {})
    await saver.aput_writes(config, [("value", 2), ("other", 3)], "t2")

    await store.save(saver)

    assert await store.rows() == [("root", "2"), ("root", "2", "t2 0"), ("root", "2", "t2 1")]
    assert saver.take().empty


async def test_a_newer_checkpoint_removes_what_was_stored_before(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    await store.save(saver)
    config = await saver.aput(config, _checkpoint("2"), {}, {})
    await store.save(saver)
    assert await store.rows() == [("root", "2")]
    await saver.aput_writes(config, [("value", 2)], "t2")
    assert saver.take().prunes == ()  # once is enough

    next_worker = await store.loaded()
    await next_worker.aput(config, _checkpoint("3"), {}, {})
    await store.save(next_worker)
    assert await store.rows() == [("root", "3")]


async def test_what_another_worker_loads_is_what_was_saved(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(
        ROOT, _checkpoint("1", value=[1, {"a": None}]), {"step": 3, "parents": {}}, {}
    )
    await saver.aput_writes(config, [("b", 1), ("a", "two"), ("__interrupt__", None)], "t1", "~2")
    await saver.aput_writes(config, [("c", 3)], "t2", "~1")
    await store.save(saver)

    seen = await saver.aget_tuple(ROOT)
    assert seen is not None
    assert seen.pending_writes == [
        ("t2", "c", 3),
        ("t1", "__interrupt__", None),
        ("t1", "b", 1),
        ("t1", "a", "two"),
    ]
    loaded = await store.loaded()
    assert await loaded.aget_tuple(ROOT) == seen
    assert await store.whole().aget_tuple(ROOT) == seen
    assert loaded.take().empty


async def test_subgraphs_of_ended_tasks_go_and_others_stay(store: Store) -> None:
    saver = store.saver()
    root = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    agent = await saver.aput(AGENT, _checkpoint("1"), {"parents": {"": "1"}}, {})
    await saver.aput(DEEPER, _checkpoint("1"), {"parents": {"": "1", "agent:1": "1"}}, {})
    await saver.aput(OTHER_LINE, _checkpoint("1"), {"parents": {"": "1"}}, {})
    await store.save(saver)
    assert len(await store.rows()) == 4

    await saver.aput(agent, _checkpoint("2"), {"parents": {"": "1"}}, {})
    await store.save(saver)
    other = ("a", "agent:1", "1")
    assert await store.rows() == [other, ("root", "1"), ("root", "agent:1", "2")]

    await saver.aput(root, _checkpoint("2"), {}, {})
    await store.save(saver)
    assert await store.rows() == [other, ("root", "2")]
    assert await saver.aget_tuple(AGENT) is None


async def test_a_subgraph_of_the_newest_checkpoint_stays_whoever_comes_first(store: Store) -> None:
    saver = store.saver()
    await saver.aput(AGENT, _checkpoint("1"), {"parents": {"": "2"}}, {})
    await saver.aput(ROOT, _checkpoint("2"), {}, {})
    assert await saver.aget_tuple(AGENT) is not None


async def test_nothing_is_written_by_who_does_not_hold_the_run(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    await store.save(saver)
    zombie = await store.loaded()
    await zombie.aput(config, _checkpoint("2"), {}, {})
    before = await store.rows()

    await store.write(zombie.take(), held=False)

    assert await store.rows() == before


def test_the_arguments_are_as_many_as_the_parameters() -> None:
    unsaved = RunCheckpointer(new_thread_id(), RUN).take()
    assert len(unsaved.arguments()) == SAVE_PARAMETERS
    assert f"${SAVE_PARAMETERS + 6}::" in save_ctes(first_param=7, gate="lk")
    assert f"${SAVE_PARAMETERS + 7}::" not in save_ctes(first_param=7, gate="lk")


# ── What stays unsaved ───────────────────────────────────────────────────────────────────────────


async def test_a_failed_statement_leaves_everything_unsaved(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    lost = saver.take()
    assert saver.take() == lost


async def test_what_comes_while_a_statement_runs_stays_unsaved(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    first = saver.take()
    await saver.aput_writes(config, [("value", 1)], "t1")
    await store.write(first)
    saver.saved(first)
    assert [write.task_id for write in saver.take().writes] == ["t1"]
    assert saver.take().checkpoints == ()


async def test_what_ends_while_a_statement_runs_is_removed_by_the_next(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput(AGENT, _checkpoint("1"), {"parents": {"": "1"}}, {})
    running = saver.take()
    await saver.aput(config, _checkpoint("2"), {}, {})
    await store.write(running)
    saver.saved(running)
    assert len(await store.rows()) == 2
    await store.save(saver)
    assert await store.rows() == [("root", "2")]


async def test_a_checkpoint_that_is_put_again_keeps_its_writes(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    await saver.aput(ROOT, _checkpoint("1", value=2), {}, {})
    await store.save(saver)
    seen = await (await store.loaded()).aget_tuple(ROOT)
    assert seen is not None
    assert seen.checkpoint["channel_values"] == {"value": 2}
    assert seen.pending_writes == [("t1", "value", 1)]


async def test_a_statement_that_committed_unheard_leaves_nothing_stale(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    await saver.aput(AGENT, _checkpoint("1"), {"parents": {"": "1"}}, {})
    await store.write(saver.take())  # and its answer is lost
    await saver.aput(config, _checkpoint("2"), {}, {})
    await store.save(saver)
    assert await store.rows() == [("root", "2")]


async def test_a_late_write_to_an_older_checkpoint_is_dropped(store: Store) -> None:
    saver = store.saver()
    older = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput(older, _checkpoint("2"), {}, {})
    await saver.aput_writes(older, [("value", 1)], "t1")
    assert saver.take().writes == ()


async def test_a_result_stays_and_an_error_is_the_last_one(store: Store) -> None:
    saver = store.saver()
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", "first"), ("__error__", "first")], "t1")
    await store.save(saver)
    await saver.aput_writes(config, [("value", "last"), ("__error__", "last")], "t1")
    await store.save(saver)
    seen = await (await store.loaded()).aget_tuple(ROOT)
    assert seen is not None
    assert seen.pending_writes == [("t1", "__error__", "last"), ("t1", "value", "first")]


async def test_state_changed_after_its_checkpoint_changes_nothing(store: Store) -> None:
    saver = store.saver()
    value = {"rows": [1]}
    checkpoint = _checkpoint("1", value=value)
    config = await saver.aput(ROOT, checkpoint, {}, {})
    await saver.aput_writes(config, [("value", value)], "t1")
    value["rows"].append(2)
    checkpoint["channel_versions"]["value"] = 7
    await store.save(saver)
    seen = await (await store.loaded()).aget_tuple(ROOT)
    assert seen is not None
    assert seen.checkpoint["channel_values"] == {"value": {"rows": [1]}}
    assert seen.checkpoint["channel_versions"] == {}
    assert seen.pending_writes == [("t1", "value", {"rows": [1]})]


async def test_another_runs_checkpoint_is_refused() -> None:
    saver = RunCheckpointer(new_thread_id(), RUN)
    with pytest.raises(ValueError, match="run_2"):
        await saver.aget_tuple({"configurable": {"thread_id": "run_2/root"}})


async def test_an_older_checkpoint_is_not_served_as_the_newest() -> None:
    saver = RunCheckpointer(new_thread_id(), RUN)
    older = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput(older, _checkpoint("2"), {}, {})
    assert await saver.aget_tuple(older) is None


async def test_a_result_can_be_saved_as_soon_as_it_is_told() -> None:
    saver = RunCheckpointer(new_thread_id(), RUN)
    told: list[Unsaved] = []

    async def take(task: str) -> None:
        assert task == "t1"
        told.append(saver.take())

    saver.on_writes = take
    config = await saver.aput(ROOT, _checkpoint("1"), {}, {})
    await saver.aput_writes(config, [("value", 1)], "t1")
    assert [write.channel for unsaved in told for write in unsaved.writes] == ["value"]


# ── Crashes ──────────────────────────────────────────────────────────────────────────────────────


def _merged(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    return one | other


class Turns(TypedDict):
    turn: int
    results: Annotated[dict[str, str], _merged]
    spent: Annotated[list[str], operator.add]


class Agent:
    """Three turns of a model, a question and three tools, and what of it really ran.

    Every effect passes a barrier first. `crash_at` counts effects: that one takes the process down.
    """

    def __init__(self, store: Store, crash_at: int) -> None:
        self.ran: list[str] = []
        self.ran_before: list[str] = []
        self.kept: list[str] = []
        self._store = store
        self._left = crash_at
        self._saver = store.saver()
        self._journal = Journal(self._save)
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> Any:
        """Until the end, over the crash."""
        config: Any = {"configurable": {"thread_id": "run_1/root", "__pregel_strict_resume": True}}
        given: Any = {"turn": 0, "results": {}, "spent": []}
        result: Any = None
        while given is not None:
            try:
                self._task = asyncio.ensure_future(self._advance(given, config))
                result = await self._task
            except asyncio.CancelledError:
                self._saver = await self._store.loaded()
                self.ran_before, self.kept = self.ran.copy(), await self._spent()
                given = given if self._saver.is_empty else _CONTINUE
                continue
            asked = {each.id: {"value": True} for each in result.pop("__interrupt__", [])}
            given = Command(resume=asked) if asked else None
            await self._save()
        return result

    async def _advance(self, given: Any, config: Any) -> Any:
        self._saver.on_writes = self._save_while_others_run
        self._journal = Journal(self._save)
        graph = _GRAPH.copy({"checkpointer": self._saver})
        given = None if given is _CONTINUE else given
        return await graph.ainvoke(given, config, context=self, durability="sync")

    async def effect(self, name: str) -> None:
        self._journal.in_flight += 1
        await self._journal.barrier()
        self._left -= 1
        self.ran.append(name)
        if self._left == 0 and self._task is not None:
            self._task.cancel()
        await asyncio.sleep(0)
        self._journal.in_flight -= 1
        self._journal.keep()

    async def _spent(self) -> list[str]:
        """What the next worker finds."""
        newest = await self._saver.aget_tuple(ROOT)
        if newest is None:
            return []
        written = [value for _, channel, value in newest.pending_writes or [] if channel == "spent"]
        return newest.checkpoint["channel_values"]["spent"] + [
            name for names in written for name in names
        ]

    async def _save_while_others_run(self, _task: str) -> None:
        if self._journal.in_flight:
            await self._journal.flush()

    async def _save(self) -> None:
        await self._store.save(self._saver)


_CONTINUE = object()


async def _model(state: Turns, runtime: Any) -> Command[Any]:
    turn = state["turn"]
    if turn == 3:
        return Command(goto=END)
    await runtime.context.effect(f"model {turn}")
    return Command(goto="ask", update={"turn": turn + 1, "spent": [f"model {turn}"]})


async def _ask(state: Turns) -> Command[Any]:
    interrupt({"turn": state["turn"]})
    return Command(goto=[Send("tool", f"tool {state['turn'] - 1}.{index}") for index in range(3)])


async def _tool(name: str, runtime: Any) -> dict[str, Any]:
    await runtime.context.effect(name)
    return {"results": {name: "done"}, "spent": [name]}


def _agent_graph() -> Any:
    graph: Any = StateGraph(Turns, context_schema=cast(Any, Agent))
    graph.add_node("model", _model, destinations=("ask", END))
    graph.add_node("ask", _ask, destinations=("tool",))
    graph.add_node("tool", _tool)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return graph.compile()


_GRAPH = _agent_graph()


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(crash_at=st.integers(1, 12))
@example(crash_at=100)
async def test_after_a_crash_nothing_that_was_kept_runs_again(
    crash_at: int, database: Database
) -> None:
    store = Store(database)
    agent = Agent(store, crash_at)
    result = await agent.run()

    every = [f"model {turn}" for turn in range(3)]
    every += [f"tool {turn}.{index}" for turn in range(3) for index in range(3)]
    assert sorted(result["spent"]) == sorted(every)
    again = {name for name, times in Counter(agent.ran).items() if times > 1}
    assert again.isdisjoint(agent.kept)
    assert again <= set(agent.ran_before)
    # Whatever a tool acts on was kept before it acted.
    assert {f"model {name[5]}" for name in agent.ran_before if name[:4] == "tool"} <= set(
        agent.kept
    )
    assert len(await store.rows()) == 1


async def test_a_run_leaves_one_checkpoint_however_long_it_was(store: Store) -> None:
    await Agent(store, crash_at=0).run()
    assert len(await store.rows()) == 1


async def test_a_call_that_has_ended_is_kept_while_its_siblings_run(database: Database) -> None:
    running, go_on = asyncio.Semaphore(0), asyncio.Event()

    @tool
    async def quick() -> str:
        """Ends at once."""
        return "quick is done"

    @tool
    async def slow() -> str:
        """Ends when it may."""
        running.release()
        await go_on.wait()
        return "slow is done"

    calls = [call for each in (quick, slow, slow) for call in call_tool(each).calls]
    living = Living(workflow(quick, slow, model=script(Reply(calls=tuple(calls)))), database)
    driving = asyncio.ensure_future(living.go())
    try:
        async with asyncio.timeout(20):
            await running.acquire()
            await running.acquire()
            while b"quick is done" not in await living.store.written():
                await living.saved.acquire()
    finally:
        go_on.set()
        await driving
    assert living.output == "quick is done\nslow is done\nslow is done"


class Living(EngineRun):
    """A run of the engine on the saver of the service, saved as the service does."""

    def __init__(self, workflow: Workflow, database: Database) -> None:
        super().__init__(workflow)
        self.store = Store(database, self.run.run_id)
        self.saved = asyncio.Semaphore(0)
        self.saver = cast(Any, self.store.saver())

    async def _task_ended(self, task: str) -> None:
        await super()._task_ended(task)
        if self.journal.in_flight:
            await self.journal.flush()

    async def _write(self) -> None:
        self._keep(self.journal.take())
        await self.store.save(cast(RunCheckpointer, self.saver))
        self.saved.release()


def _checkpoint(id_: str, **values: Any) -> Checkpoint:
    return {**empty_checkpoint(), "id": id_, "channel_values": values}
