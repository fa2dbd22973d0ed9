"""Runs one line on LangGraph until it stops: strictly resumed, never traced."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import langsmith
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, PendingWrite
from langgraph.types import Command

from app.domain.json import Json
from app.engine.agent import Graph
from app.engine.drive import Asked, Drive, Forked, Held, LineFailed, LineStart

STRICT_RESUME = "__pregel_strict_resume"
"""LangGraph's own key: an answer to a question that is not pending raises, instead of answering the next."""

MOST_SUPERSTEPS = 1_000_000

Stop: TypeAlias = Asked | Held | Forked | Mapping[str, Any]
"""Where a line stopped: at a question, at a fork, or, with its last state, at its end."""


async def run_line(
    graph: Graph, drive: Drive, saver: BaseCheckpointSaver[Any], begins_with: Mapping[str, Json]
) -> Stop:
    """Begins a line with a state, or goes on from its checkpoint with what it waited for, if that is there."""
    start = drive.start
    config: RunnableConfig = {
        "configurable": {"thread_id": f"{start.run.run_id}/{start.line}", STRICT_RESUME: True},
        "recursion_limit": MOST_SUPERSTEPS,
    }
    saved = None if start.fresh else await saver.aget_tuple(config)
    given: object = dict(begins_with)
    if saved is not None:
        _check_nodes(graph, saved)
        if _is_over(saved):
            return _state(graph, saved)
        pending = _pending(saved.pending_writes or [])
        given = _resumed_with(pending, start)
        still_open = next((each for each in pending if each in start.open), None)
        if given is None and still_open:
            return Held(interrupt_id=still_open)
    # Whatever the environment says: a trace would carry the state, and with it every secret.
    with langsmith.tracing_context(enabled=False, parent=False):
        came = await graph.copy({"checkpointer": saver}).ainvoke(
            cast("Any", given), config, context=drive, durability="sync", version="v2"
        )
    if came.interrupts:
        return _stop_of(drive, came.interrupts[0].id)
    return cast("dict[str, Any]", came.value)


def _stop_of(drive: Drive, interrupt_id: str) -> Stop:
    if (fork := drive.forking) is not None:
        return Forked(interrupt_id=interrupt_id, branches=fork.branches, given=fork.given)
    if drive.asking is None:
        raise AssertionError("a line stops only where it asks or forks")
    return Asked(ask=replace(drive.asking(), interrupt_id=interrupt_id))


def _check_nodes(graph: Graph, saved: CheckpointTuple) -> None:
    nodes = {f"branch:to:{node}" for node in graph.nodes}
    for channel in saved.checkpoint["channel_versions"]:
        # LangGraph would end such a line silently, without an output.
        if channel.startswith("branch:to:") and channel not in nodes:
            message = "The run stands at a step that its workflow no longer has."
            raise LineFailed("workflow_incompatible", message)


def _is_over(saved: CheckpointTuple) -> bool:
    """Whether nothing is left to run: no node was sent to, and the beginning was taken."""
    left = saved.checkpoint["channel_values"]
    return not any(name.startswith("branch:to:") or name in _BEFORE_TASKS for name in left)


def _state(graph: Graph, saved: CheckpointTuple) -> Mapping[str, Any]:
    """The last state of a line that is over, as running it again would give it."""
    values = saved.checkpoint["channel_values"]
    return {name: values[name] for name in graph.output_channels if name in values}


def _resumed_with(pending: Sequence[str], start: LineStart) -> Command[Any] | None:
    """What the line waited for, if it is there; else nothing new."""
    for waits_for in pending:
        if waits_for in start.answers:
            return Command(resume={waits_for: {"value": start.answers[waits_for].as_json()}})
        if waits_for in start.joined:
            return Command(resume={waits_for: {"value": start.joined[waits_for]}})
    return None


def _pending(writes: Sequence[PendingWrite]) -> list[str]:
    """The interrupts of tasks that have not ended, whether they have taken an answer or not."""
    over = {task for task, channel, _ in writes if channel not in _CONTROL}
    return [
        str(question.id)
        for task, channel, value in writes
        if channel == "__interrupt__" and task not in over
        for question in value
    ]


_BEFORE_TASKS = {"__start__", "__pregel_tasks"}
"""Channels of LangGraph that hold what its next superstep begins with, beside those of the nodes."""

_CONTROL = {"__interrupt__", "__resume__", "__error__", "__error_source_node__"}
"""What a task of LangGraph may have written without having ended."""
