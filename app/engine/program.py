"""A workflow as it is served: compiled once, driven for many runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

import langsmith
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, PendingWrite
from langgraph.types import Command
from pydantic import ValidationError

from app.authoring import Workflow
from app.authoring.shape import dump, load, schema_of
from app.domain.decision import Decision
from app.domain.facts import HistoryEntry
from app.domain.json import InvalidJson, Json, check_json
from app.domain.masking import mask, scrub, secrets_in
from app.domain.pause import Answer, Settled
from app.engine import scrubbing, settling, steps
from app.engine.drive import Asked, Drive, Ended, Failed, LineFailed, LineStart, Outcome
from app.engine.faults import reason_of, wrong_fields
from app.engine.journal import Journal
from app.engine.line import root_line
from app.engine.models import model_for
from app.engine.settling import Decider, OpenPause
from app.errors import FieldError, Invalid

STRICT_RESUME = "__pregel_strict_resume"
"""LangGraph's own key: an answer to a question that is not pending raises, instead of answering the next."""

MOST_SUPERSTEPS = 1_000_000


class InvalidInput(Invalid):
    """An input that the workflow does not take."""

    code = "invalid_request"


@dataclass(frozen=True, kw_only=True)
class CheckedInput:
    """An input that fits, as it was sent, and as everybody may read it."""

    true: Json
    shown: Json


class Program:
    """A served workflow.

    Raises `AuthoringError` for what only the engine can find: a model that cannot be had.
    """

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.name = workflow.name
        self.version = workflow.version
        self.fingerprint = workflow.fingerprint
        self.channels = {channel.name: channel for channel in workflow.channels}
        self.told_channels = frozenset(each.name for each in workflow.channels if each.is_told)
        self.channels = {channel.name: channel for channel in workflow.channels}
        models = {
            agent: model_for(agent.model, timeout=agent.timeout, retries=agent.retries)
            for agent in workflow.agents
        }
        self._line = root_line(workflow, models)
        self._places = {place.path: place for place in self._line.places}
        self._input_schema = schema_of(workflow.input)
        self._output_schema = schema_of(workflow.output)

    def check_input(self, value: Json) -> CheckedInput:
        """The input of a run, at `/input` of the request.

        Raises `InvalidInput` with a pointer for each wrong field; messages do not quote what was sent.
        """
        secrets = secrets_in(value, self._input_schema)
        try:
            check_json(value)
            load(self.workflow.input, value)
        except InvalidJson as error:
            fields = [replace(each, pointer=f"/input{each.pointer}") for each in error.fields]
        except ValidationError as error:
            fields = wrong_fields(error, "/input", secrets)
        except Exception as error:  # noqa: BLE001 - a writer's validator can raise anything
            fields = [FieldError(pointer="/input", message=reason_of(error, secrets))]
        else:
            return CheckedInput(true=value, shown=mask(value, self._input_schema))
        raise InvalidInput(f"The input does not fit the workflow {self.name!r}.", fields=fields)

    async def settle(self, pause: OpenPause, decision: Decision, *, by: str, via: str) -> Settled:
        """The decision as an answer to the pause, if it fits; else raises `InvalidDecision`."""
        seat = self._line.seats[pause.shown["step"]["path"]]
        tool = seat.tool(pause.shown["call"]["tool"])
        return settling.settle(pause, decision, tool, Decider(by=by, via=via))

    async def drive(
        self, start: LineStart, *, saver: BaseCheckpointSaver[Any], journal: Journal
    ) -> Outcome:
        """Runs the line until it waits for a decision, or ends.

        What is the run's own fault comes back as `Failed`; what the store raises goes through.
        """
        secrets = secrets_in(start.input, self._input_schema)
        drive = Drive(start=start, journal=journal, secrets=secrets)
        try:
            return await self._driven(drive, saver)
        except LineFailed as failure:
            return self._failed(drive, failure)

    async def _driven(self, drive: Drive, saver: BaseCheckpointSaver[Any]) -> Outcome:
        start = drive.start
        configurable = {"thread_id": f"{start.run.run_id}/{start.line}", STRICT_RESUME: True}
        config: RunnableConfig = {
            "configurable": configurable,
            "recursion_limit": MOST_SUPERSTEPS,
        }
        saved = None if start.fresh else await saver.aget_tuple(config)
        given = {"value": start.input} if saved is None else self._resumed(saved, start)
        graph = self._line.graph.copy({"checkpointer": saver})
        # Whatever the environment says: a trace would carry the state, and with it every secret.
        with langsmith.tracing_context(enabled=False, parent=False):
            came = await graph.ainvoke(
                given, config, context=drive, durability="sync", version="v2"
            )
        if came.interrupts:
            return _asked(drive, came.interrupts[0].id)
        return self._ended(drive, cast("dict[str, Any]", came.value))

    def _resumed(self, saved: CheckpointTuple, start: LineStart) -> Command[Any] | None:
        """The answer to the pending question, if it was decided and not yet taken; else nothing new."""
        nodes = {f"branch:to:{node}" for node in self._line.graph.nodes}
        for channel in saved.checkpoint["channel_versions"]:
            # LangGraph would end such a line silently, without an output.
            if channel.startswith("branch:to:") and channel not in nodes:
                message = "The run stands at a step that its workflow no longer has."
                raise LineFailed("workflow_incompatible", message)
        return _answer_to(saved.pending_writes or [], start.answers)

    def _ended(self, drive: Drive, state: dict[str, Any]) -> Ended:
        try:
            value = dump(self.workflow.output, load(self.workflow.output, state["value"]))
        except Exception as error:
            raise LineFailed("invalid_output", reason_of(error)) from error
        written = cast("dict[str, list[str]]", state.get("secrets", {})).values()
        secrets = [*drive.secrets, *chain.from_iterable(written)]
        said = cast("dict[str, dict[str, Any]]", state.get("said", {}))
        return Ended(
            output=value,
            shown_output=scrubbing.shown(value, self._output_schema, secrets),
            history=tuple(HistoryEntry(**each) for each in said.values()),
        )

    def _failed(self, drive: Drive, failure: LineFailed) -> Failed:
        error = failure.error
        place = self._places.get(error.step or "")
        if place is not None:
            steps.failed(drive, place)
        return Failed(error=replace(error, message=scrub(error.message, drive.secrets)))


def _asked(drive: Drive, interrupt_id: str) -> Asked:
    if drive.asking is None:
        raise AssertionError("a line stops only where it asks")
    return Asked(ask=replace(drive.asking(), interrupt_id=interrupt_id))


def _answer_to(
    writes: Sequence[PendingWrite], answers: Mapping[str, Answer]
) -> Command[Any] | None:
    over = {task for task, channel, _ in writes if channel not in _CONTROL}
    for task, channel, value in writes:
        if channel != "__interrupt__" or task in over:
            continue
        for question in value:
            if question.id in answers:
                return Command(resume={question.id: {"value": answers[question.id].as_json()}})
    return None


_CONTROL = {"__interrupt__", "__resume__", "__error__", "__error_source_node__"}
"""What a task of LangGraph may have written without having ended."""
