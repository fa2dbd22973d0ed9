"""Threads, runs and states as LangGraph's clients read them, made of what the use cases show.

A thread's state is that of its newest run: what the run was given, until it has an output; then the output. What
is no object stands under `input` or `output`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from app.api.langgraph.interrupts import interrupt_of, interrupts_of, open_pauses
from app.api.langgraph.names import assistant_id
from app.domain.json import Json
from app.domain.run import RunStatus
from app.domain.step import StepStatus
from app.lifecycle.read import View

RUN_STATUSES: Final[Mapping[RunStatus, str]] = {
    RunStatus.QUEUED: "pending",
    RunStatus.RUNNING: "running",
    RunStatus.PAUSED: "interrupted",
    RunStatus.COMPLETED: "success",
    RunStatus.FAILED: "error",
    RunStatus.CANCELLED: "interrupted",
}
"""What a run's status is called there: one that was cancelled was interrupted too."""

THREAD_STATUSES: Final[Mapping[RunStatus | None, str]] = {
    None: "idle",
    RunStatus.QUEUED: "busy",
    RunStatus.RUNNING: "busy",
    RunStatus.PAUSED: "interrupted",
    RunStatus.COMPLETED: "idle",
    RunStatus.FAILED: "error",
    RunStatus.CANCELLED: "idle",
}
"""What a thread's status is called, by that of its newest run."""


def run_of(run: View) -> View:
    """A run."""
    return {
        "run_id": run["id"],
        "thread_id": run["thread_id"],
        "assistant_id": assistant_id(run["workflow"]["name"]),
        "created_at": run["created_at"],
        "updated_at": _updated_at(run),
        "status": RUN_STATUSES[RunStatus(run["status"])],
        "metadata": run["metadata"],
        "multitask_strategy": "reject",
        "cancel_reason": run["stop_reason"] if run["status"] == RunStatus.CANCELLED else None,
    }


def thread_of(thread: View) -> View:
    """A thread, with the state of its newest run."""
    run: View | None = thread["run"]
    return {
        "thread_id": thread["id"],
        "created_at": thread["created_at"],
        "updated_at": _updated_at(run) if run else thread["created_at"],
        "metadata": thread["metadata"],
        "status": THREAD_STATUSES[RunStatus(run["status"]) if run else None],
        "config": {},
        "values": values_of(run) if run else None,
        "interrupts": {each["id"]: [interrupt_of(each)] for each in open_pauses(run or _NO_RUN)},
    }


_NO_RUN: Final[View] = {"pauses": []}


def empty_state(thread: View) -> View:
    """The state of a thread that has had no run."""
    return {
        "values": {},
        "next": [],
        "tasks": [],
        "interrupts": [],
        "metadata": {"thread_id": thread["id"]},
        "created_at": None,
        "checkpoint": _checkpoint(thread["id"], None),
        "parent_checkpoint": None,
    }


def state_of(run: View) -> View:
    """The state in which a run is, or which it left. Its checkpoint has the run's id."""
    return {
        "values": values_of(run),
        "next": _next(run),
        "tasks": _tasks(run),
        "interrupts": interrupts_of(run),
        "metadata": {
            "run_id": run["id"],
            "thread_id": run["thread_id"],
            "graph_id": run["workflow"]["name"],
            "assistant_id": assistant_id(run["workflow"]["name"]),
            "run_status": run["status"],
        },
        "created_at": _updated_at(run),
        "checkpoint": _checkpoint(run["thread_id"], run["id"]),
        "parent_checkpoint": None,
    }


def result_of(run: View) -> View:
    """What waiting for a run gives: its state, what it waits for, or why it failed."""
    if run["status"] == RunStatus.FAILED:
        return {"__error__": error_of(run)}
    asked = interrupts_of(run)
    return {**values_of(run), **({"__interrupt__": asked} if asked else {})}


def error_of(run: View) -> View:
    """Why a run failed."""
    return {"error": run["error"]["code"], "message": run["error"]["message"]}


def values_of(run: View) -> View:
    """What a run was given, or its output once it has one."""
    return given_to(run) if run["output"] is None else _object(run["output"], "output")


def given_to(run: View) -> View:
    """What a run was given."""
    return _object(run["input"], "input")


def _object(value: Json, name: str) -> View:
    if value is None:
        return {}
    return cast("View", value) if isinstance(value, dict) else {name: value}


def updates_of(step: View) -> View:
    """What a step wrote, under its name."""
    return {step["name"]: _object(step["output"], "output")}


def picked(view: View, select: Sequence[str] | None) -> View:
    """The members that are asked for, all where nothing is; `values.<key>` is one of the state's own."""
    if not select:
        return view
    found = {name: view[name] for name in select if name in view}
    keys = [name.removeprefix("values.") for name in select if name.startswith("values.")]
    if keys and "values" not in found:
        values: dict[str, Any] = view.get("values") or {}
        found["values"] = {key: values[key] for key in keys if key in values}
    return found


def _next(run: View) -> list[str]:
    """The steps that a run is in, or will begin with."""
    names = [pause["step"]["name"] for pause in open_pauses(run)]
    names += [step["name"] for step in run["steps"] if step["status"] == StepStatus.RUNNING]
    return list(dict.fromkeys(names)) or (["__start__"] if run["finished_at"] is None else [])


def _tasks(run: View) -> list[View]:
    tasks = [
        _task(pause["id"], pause["step"]["name"], interrupts=[interrupt_of(pause)])
        for pause in open_pauses(run)
    ]
    if run["status"] == RunStatus.FAILED:
        error = error_of(run)
        name = run["error"].get("step") or run["workflow"]["name"]
        tasks.append(_task(run["id"], name, error=f"{error['error']}: {error['message']}"))
    return tasks


def _task(id: str, name: str, *, interrupts: Sequence[Json] = (), error: str | None = None) -> View:
    return {
        "id": id,
        "name": name,
        "error": error,
        "interrupts": list(interrupts),
        "checkpoint": None,
        "state": None,
        "result": None,
    }


def _checkpoint(thread_id: str, id: str | None) -> View:
    return {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": id,
        "checkpoint_map": None,
    }


def _updated_at(run: View) -> str:
    return run["finished_at"] or run["started_at"] or run["created_at"]
