"""The guarded ends of a workflow: a node before its first step, and one behind its last."""

from collections.abc import Callable
from typing import Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import TypeAdapter

from app.authoring import BuiltWorkflow
from app.authoring.shape import dump, load, schema_of
from app.domain.json import Json
from app.engine.drive import Drive, LineFailed, drive_of, step_outside
from app.engine.faults import reason_of
from app.engine.guarding import checked_value, failing
from app.engine.state import LineState
from app.engine.stepping import Next, NodeFunction, known_secrets, noted_secrets

End = Literal["input", "output"]
PlaceNow = Callable[[LineState, Drive], str]


def label_of(path: str, end: End) -> str:
    """The name of the node at an end of the workflow at a path."""
    return f"{path}#{end}"


def guarded_end(
    workflow: BuiltWorkflow, end: End, leads_to: str, place_now: PlaceNow | None
) -> NodeFunction | None:
    """The node that has guardrails look at the value in hand; None where there are none."""
    guards = workflow.guards.input if end == "input" else workflow.guards.output
    adapter = workflow.input if end == "input" else workflow.output
    if not guards:
        return None

    async def look(state: LineState, runtime: Runtime[Drive]) -> Next:
        drive = drive_of(runtime)
        drive.check()
        step_outside()
        await drive.journal.barrier()
        step, secrets = place_now and place_now(state, drive), known_secrets(state, drive)
        value = _read(adapter, state.get("value"), end, step)
        with failing(step, secrets):
            value = await checked_value(guards, value, adapter)
        drive.journal.keep()
        noted = noted_secrets(label_of(step or drive.root, end), value, schema_of(adapter))
        return Command(goto=leads_to, update={"value": value, **noted})

    return look


def _read(adapter: TypeAdapter[Any], value: Json, end: End, step: str | None) -> Json:
    try:
        return dump(adapter, load(adapter, value))
    except Exception as error:
        raise LineFailed(f"invalid_{end}", reason_of(error), step=step) from error
