"""Our savers beside LangGraph's own one for Postgres: the same calls and the same graphs see the same things."""

import asyncio
import operator
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from app.domain.ids import RunId, ThreadId, new_run_id, new_thread_id
from app.storage.checkpoints import (
    CheckpointRow,
    PostgresCheckpointer,
    RunCheckpointer,
    WriteRow,
    load_columns,
    save_ctes,
)
from app.storage.database import Database
from tests.pooler import IS_POOLED

Saver = BaseCheckpointSaver[Any]

SAVE = f"with lk as (select 1), {save_ctes(first_param=1, gate='lk')} select 1"
LOAD = f"select {load_columns(thread_id='$1', run_id='$2')}"

small = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    yield database
    await database.close()


@pytest.fixture
async def theirs(empty_database_url: str) -> AsyncIterator[AsyncPostgresSaver]:
    async with AsyncPostgresSaver.from_conn_string(empty_database_url) as saver:
        await saver.setup()
        yield saver


# ── The same calls ───────────────────────────────────────────────────────────────────────────────

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
threads = st.sampled_from(["run_1", "run_1/root", "run_2/a/b[1]"])
namespaces = st.sampled_from(["", "agent:1", "agent:1|sub:2"])
sources = st.sampled_from(["input", "loop", "update"])
results = st.lists(
    st.tuples(st.sampled_from(["a", "b", "__pregel_tasks"]), values), min_size=1, max_size=3
)
specials = st.lists(
    st.tuples(st.sampled_from(["__error__", "__interrupt__", "__resume__"]), values),
    min_size=1,
    max_size=3,
    unique_by=lambda write: write[0],
)
tasks = st.sampled_from(
    [
        ("t1", "~__pregel_push, 0000000010"),
        ("t2", "~__pregel_Push, é"),
        ("T3", "~__pregel_pull, b"),
        ("t4", ""),
        ("T5", ""),
    ]
)
which = st.integers(0, 30)  # one of the checkpoints so far

calls = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            threads,
            namespaces,
            st.dictionaries(st.sampled_from("abc"), values),
            sources,
        ),
        st.tuples(
            st.just("put"),
            threads,
            namespaces,
            st.dictionaries(st.sampled_from("abc"), values),
            sources,
        ),
        st.tuples(st.just("put again"), which, sources),
        st.tuples(st.just("write"), which, tasks, results | specials),
        st.tuples(st.just("write"), which, tasks, results | specials),
        st.tuples(st.just("get"), which),
        st.tuples(st.just("get newest"), threads, namespaces),
        st.tuples(
            st.just("list"),
            st.none() | threads,
            st.none() | namespaces,
            st.none() | sources,
            st.none() | which,
            st.none() | st.integers(0, 3),
        ),
        st.tuples(st.just("delete"), threads),
    ),
    max_size=25,
)


class Caller:
    """Makes the calls on one saver; checkpoint ids and versions are counted, so that two callers agree."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._configs: list[RunnableConfig] = []
        self._kept: list[tuple[RunnableConfig, Checkpoint]] = []

    async def call(self, call: tuple[Any, ...]) -> object:
        match call:
            case "put", thread_id, ns, channels, source:
                return await self._put(thread_id, ns, channels, source)
            case "put again", index, source if self._kept:
                return await self._put_again(index, source)
            case "write", index, (task_id, path), writes if self._configs:
                return await self._saver.aput_writes(self._at(index), writes, task_id, path)
            case "get", index if self._configs:
                return _seen(await self._saver.aget_tuple(self._at(index)))
            case "get newest", thread_id, ns:
                return _seen(await self._saver.aget_tuple(_config(thread_id, ns)))
            case "list", thread_id, ns, source, before, limit:
                return await self._list(thread_id, ns, source, before, limit)
            case "delete", thread_id:
                return await self._saver.adelete_thread(thread_id)
            case _:
                return None

    async def _put(self, thread_id: str, ns: str, channels: dict[str, Any], source: Any) -> object:
        number = len(self._kept)
        versions: dict[str, Any] = dict.fromkeys(channels, f"{number:032}.1")
        checkpoint = Checkpoint(
            v=4,
            id=f"{number:08}-0000",
            ts="2026-01-01T00:00:00+00:00",
            channel_values=channels,
            channel_versions=versions,
            versions_seen={"node": versions},
            updated_channels=sorted(channels),
        )
        config = _config(thread_id, ns, self._newest(thread_id, ns))
        stored = await self._saver.aput(
            config, checkpoint, {"source": source, "step": number}, versions
        )
        self._configs.append(stored)
        self._kept.append((config, checkpoint))
        return stored

    async def _put_again(self, index: int, source: Any) -> object:
        config, checkpoint = self._kept[index % len(self._kept)]
        versions = checkpoint["channel_versions"]
        return await self._saver.aput(config, checkpoint, {"source": source}, versions)

    async def _list(
        self,
        thread_id: str | None,
        ns: str | None,
        source: str | None,
        before: int | None,
        limit: int | None,
    ) -> list[object]:
        found = self._saver.alist(
            None if thread_id is None else _config(thread_id, ns),
            filter=None if source is None else {"source": source},
            before=None if before is None or not self._configs else self._at(before),
            limit=limit,
        )
        return [_seen(each) async for each in found]

    def _newest(self, thread_id: str, ns: str) -> str | None:
        ids = [
            config.get("configurable", {})["checkpoint_id"]
            for config in self._configs
            if config.get("configurable", {})["thread_id"] == thread_id
            and config.get("configurable", {})["checkpoint_ns"] == ns
        ]
        return max(ids, default=None)

    def _at(self, index: int) -> RunnableConfig:
        return self._configs[index % len(self._configs)]


@small
@given(calls=calls)
@example(
    calls=[
        ("put", "run_1", "", {}, "loop"),
        ("write", 0, ("t1", ""), [("a", 1), ("b", 1)]),
        ("write", 0, ("t1", ""), [("a", 2), ("b", 2), ("a", 2)]),
        ("write", 0, ("t1", ""), [("__error__", 1)]),
        ("write", 0, ("t1", ""), [("__error__", 2)]),
    ]
)
async def test_the_same_calls_have_the_same_results(
    calls: list[tuple[Any, ...]], database: Database, theirs: AsyncPostgresSaver
) -> None:
    for thread_id in ("run_1", "run_1/root", "run_2/a/b[1]"):
        await theirs.adelete_thread(thread_id)
    our_caller = Caller(PostgresCheckpointer(database, new_thread_id()))
    their_caller = Caller(theirs)
    for call in calls:
        assert await our_caller.call(call) == await their_caller.call(call)
    for thread_id in ("run_1", "run_1/root", "run_2/a/b[1]"):
        everything = ("list", thread_id, None, None, None, None)
        assert await our_caller.call(everything) == await their_caller.call(everything)


def _config(
    thread_id: str, ns: str | None = "", checkpoint_id: str | None = None
) -> RunnableConfig:
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {
        "configurable": {name: value for name, value in configurable.items() if value is not None}
    }


def _seen(found: CheckpointTuple | None) -> object:
    """A tuple as it compares; theirs adds pending sends only where it migrates old checkpoints."""
    return None if found is None else found._replace(pending_writes=found.pending_writes or [])


# ── The same graphs ──────────────────────────────────────────────────────────────────────────────

Kind = Literal["plain", "ask", "fan", "agent", "team", "again"]
kinds: st.SearchStrategy[list[Kind]] = st.lists(
    st.sampled_from(["plain", "ask", "fan", "agent", "team", "again"]), min_size=1, max_size=4
)


class State(TypedDict, total=False):
    value: int
    rounds: int
    log: Annotated[list[str], operator.add]


class Inner(TypedDict, total=False):
    value: int
    inner_log: Annotated[list[str], operator.add]


def _graph(kinds: list[Kind]) -> Any:
    """A chain of steps: plain ones, questions, fans of tasks, agents, agents in agents, and loops."""
    graph: Any = StateGraph(State)
    names = [f"{index}.{kind}" for index, kind in enumerate(kinds)]
    for name, kind, following in zip(names, kinds, [*names[1:], END], strict=True):
        _add_step(graph, name, kind, first=names[0], following=following)
    graph.add_edge(START, names[0])
    return graph.compile()


def _add_step(graph: Any, name: str, kind: Kind, *, first: str, following: str) -> None:
    match kind:
        case "fan":
            graph.add_node(name, _fan(name), destinations=(f"{name}.task",))
            graph.add_node(f"{name}.task", _task)
            graph.add_edge(f"{name}.task", following)
        case "again":
            graph.add_node(name, _again(first, following), destinations=(first, following))
        case "plain" | "ask" | "agent" | "team":
            make = {"plain": _plain, "ask": _ask, "agent": _agent, "team": _team}[kind]
            graph.add_node(name, make(name))
            graph.add_edge(name, following)


def _plain(name: str) -> Any:
    async def plain(state: State) -> State:
        return {"value": state.get("value", 0) + 1, "log": [name]}

    return plain


def _ask(name: str, log: str = "log") -> Any:
    async def ask(state: State) -> Any:
        answer = interrupt({"at": name, "value": state.get("value", 0)})["value"]
        return {"value": state.get("value", 0) + answer, log: [f"{name}={answer}"]}

    return ask


def _agent(name: str) -> Any:
    graph: Any = StateGraph(Inner, output_schema=_Value)
    graph.add_node("fan", _fan("fan"), destinations=("fan.task",))
    graph.add_node("fan.task", _inner_task)
    graph.add_node("ask", _ask(f"{name}/ask", "inner_log"))
    graph.add_node("ask again", _ask(f"{name}/ask again", "inner_log"))
    graph.add_edge(START, "fan")
    graph.add_edge("fan.task", "ask")
    graph.add_edge("ask", "ask again")
    graph.add_edge("ask again", END)
    return graph.compile()


def _team(name: str) -> Any:
    graph: Any = StateGraph(Inner, output_schema=_Value)
    graph.add_node("one", _agent(f"{name}/one"))
    graph.add_node("other", _agent(f"{name}/other"))
    graph.add_edge(START, "one")
    graph.add_edge("one", "other")
    graph.add_edge("other", END)
    return graph.compile()


class _Value(TypedDict, total=False):
    value: int


def _fan(name: str) -> Any:
    async def fan(state: State) -> Command[Any]:
        return Command(goto=[Send(f"{name}.task", {"index": index}) for index in range(3)])

    return fan


async def _task(state: dict[str, int]) -> dict[str, Any]:
    return {"log": [f"task {state['index']}"]}


async def _inner_task(state: dict[str, int]) -> dict[str, Any]:
    return {"inner_log": [f"task {state['index']}"]}


def _again(first: str, following: str) -> Any:
    async def again(state: State) -> Command[Any]:
        rounds = state.get("rounds", 0) + 1
        return Command(goto=first if rounds == 1 else following, update={"rounds": rounds})

    return again


class Worker:
    """Advances one run on a `RunCheckpointer`, saves after each advance, and forgets everything at will."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        self._database = database
        self._chance = chance
        self._saving = asyncio.Lock()
        self._thread_id: ThreadId = new_thread_id()
        self.run_id: RunId = new_run_id()
        self._saver = RunCheckpointer(self._thread_id, self.run_id, on_writes=self._perhaps_save)

    async def saver(self) -> Saver:
        await self._save()
        assert self._saver.take().empty
        if self._chance.random() < 0.7:
            await self._load()
        return self._saver

    async def _perhaps_save(self, _task: str) -> None:
        if self._chance.random() < 0.3:
            await self._save()

    async def _save(self) -> None:
        async with self._saving:
            unsaved = self._saver.take()
            await self._database.fetch(SAVE, *unsaved.arguments())
            self._saver.saved(unsaved)

    async def _load(self) -> None:
        row = await self._database.fetch_row(LOAD, self._thread_id, self.run_id)
        assert row is not None
        self._saver = RunCheckpointer(
            self._thread_id,
            self.run_id,
            checkpoints=map(CheckpointRow.of, row["checkpoints"]),
            writes=map(WriteRow.of, row["writes"]),
            on_writes=self._perhaps_save,
        )


@settings(small, max_examples=10)
@given(kinds=kinds, seed=st.integers(0, 2**32))
async def test_the_same_graphs_go_the_same_way(
    kinds: list[Kind], seed: int, database: Database, theirs: AsyncPostgresSaver
) -> None:
    graph = _graph(kinds)
    worker = Worker(database, random.Random(seed))
    ours = PostgresCheckpointer(database, new_thread_id())
    expected = await _play(graph, _always(theirs), f"{worker.run_id}/root")
    assert await _play(graph, worker.saver, f"{worker.run_id}/root") == expected
    assert await _play(graph, _always(ours), f"{worker.run_id}/root") == expected
    assert await _history(graph, ours, worker.run_id) == await _history(
        graph, theirs, worker.run_id
    )


def _always(saver: Saver) -> Callable[[], Awaitable[Saver]]:
    async def same() -> Saver:
        return saver

    return same


async def _play(graph: Any, saver: Callable[[], Awaitable[Saver]], thread_id: str) -> list[object]:
    """Runs to the end, answering every question with how many came before it."""
    config: Any = {"configurable": {"thread_id": thread_id, "__pregel_strict_resume": True}}
    seen: list[object] = []
    asked: Any = {"value": 0, "log": []}
    while asked is not None:
        running = graph.copy({"checkpointer": await saver()})
        result = await running.ainvoke(asked, config, durability="sync")
        questions = result.pop("__interrupt__", [])
        state = await running.aget_state(config)
        seen.append((result, [question.value for question in questions], state.values, state.next))
        answers = {question.id: {"value": len(seen)} for question in questions}
        asked = Command(resume=answers) if answers else None
    return seen


async def _history(graph: Any, saver: Saver, run_id: str) -> list[object]:
    config: Any = {"configurable": {"thread_id": f"{run_id}/root"}}
    return [
        (
            snapshot.values,
            snapshot.next,
            snapshot.metadata,
            [
                (task.name, task.result, [each.value for each in task.interrupts])
                for task in snapshot.tasks
            ],
        )
        async for snapshot in graph.copy({"checkpointer": saver}).aget_state_history(config)
    ]
