"""The floors: the same small agent on LangGraph alone, in this process, without a service around it."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from app.domain.ids import new_thread_id
from bench.measure import Cycle, RunCycle

POOL_SIZE = 10  # the service's default
_Pool: TypeAlias = AsyncConnectionPool[AsyncConnection[DictRow]]
_Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The agent in this process; every run has a saver of its own, as savers take turns inside."""

    name: str
    database: str | None
    new_saver: Callable[[], BaseCheckpointSaver[Any]]

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[RunCycle]:
        yield self._cycle

    def cpu_seconds(self) -> float:
        return time.process_time()

    async def settled(self) -> None:
        """Nothing is left to do later: every step has waited for its checkpoint."""

    async def _cycle(self) -> Cycle:
        graph = _AGENT.copy({"checkpointer": self.new_saver()})
        config = RunnableConfig(configurable={"thread_id": new_thread_id()})
        began = time.perf_counter()
        asked = await graph.ainvoke({"value": _TASK}, config, durability="sync")
        paused = time.perf_counter()
        decision: Command[str] = Command(resume={asked["__interrupt__"][0].id: {"approved": True}})
        ended = await graph.ainvoke(decision, config, durability="sync")
        if ended["value"] != _RESULT:
            raise RuntimeError(f"The agent answered {ended['value']!r}.")
        return Cycle(pause=paused - began, resume=time.perf_counter() - paused)


def in_memory() -> Floor:
    """On LangGraph's saver in memory."""
    return Floor(name="LangGraph, in memory", database=None, new_saver=InMemorySaver)


@asynccontextmanager
async def on_postgres(url: str, database: str) -> AsyncGenerator[Floor]:
    """On LangGraph's Postgres saver, which makes its tables in the database first."""
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    made = AsyncConnectionPool(url, kwargs=options, max_size=POOL_SIZE, open=False)
    async with cast("_Pool", made) as pool:
        await AsyncPostgresSaver(pool).setup()
        yield Floor(
            name="LangGraph, its Postgres",
            database=database,
            new_saver=lambda: AsyncPostgresSaver(pool),
        )


_TASK = "write to the boss"
_RESULT = "sent"
_DRAFT = {"id": "call-1", "tool": "send_email", "arguments": {"to": "boss@example.com"}}


class _State(TypedDict, total=False):
    value: str
    messages: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    outcome: str


class _SentCall(TypedDict):
    call: dict[str, Any]


async def _model(state: _State) -> Command[str]:
    if "outcome" not in state:
        messages = [
            {"role": "user", "text": state.get("value")},
            {"role": "assistant", "text": "", "calls": [_DRAFT]},
        ]
        return Command(goto="pause", update={"messages": messages, "calls": [_DRAFT]})
    said = {"role": "tool", "text": state["outcome"], "call_id": _DRAFT["id"]}
    answer = {"role": "assistant", "text": state["outcome"]}
    messages = [*state.get("messages", []), said, answer]
    return Command(update={"messages": messages, "calls": [], "value": state["outcome"]})


async def _pause(state: _State) -> Command[str]:
    call = state.get("calls", [])[0]
    decision = interrupt({"call": call})
    decided = call | {"approved": decision["approved"]}
    return Command(goto=[Send("tool", _SentCall(call=decided))], update={"calls": [decided]})


async def _tool(state: _SentCall) -> _State:
    return {"outcome": _RESULT if state["call"]["approved"] else "rejected"}


def _compiled() -> _Graph:
    graph = StateGraph(_State)
    graph.add_node("model", _model, destinations=("pause",))
    graph.add_node("pause", _pause, destinations=("tool",))
    graph.add_node("tool", _tool, input_schema=_SentCall)
    graph.add_edge(START, "model")
    graph.add_edge("tool", "model")
    return cast("_Graph", graph.compile())


_AGENT = _compiled()
