"""A workflow as it is served: compiled once, driven for many runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import ValidationError

from app.authoring import (
    Agent,
    AgentStep,
    GraphNode,
    ModelJudge,
    ModelRouter,
    RouterNode,
    ScriptedModel,
    Workflow,
)
from app.authoring.shape import dump, load, schema_of
from app.authoring.step import walk
from app.domain.decision import Decision
from app.domain.facts import HistoryEntry
from app.domain.json import InvalidJson, Json, check_json
from app.domain.masking import mask, scrub, secrets_in
from app.domain.pause import PauseLevel, Settled
from app.engine import scrubbing, settling, steps
from app.engine.drive import (
    Asked,
    BranchEnded,
    Cancelled,
    Drive,
    Ended,
    Failed,
    Forked,
    Held,
    LineCancelled,
    LineFailed,
    LineOutcome,
    LineStart,
    Outcome,
    Waiting,
)
from app.engine.existing import ExistingRun, settle_interrupt
from app.engine.faults import reason_of, wrong_fields
from app.engine.frames import path_of, row_and_attempts
from app.engine.journal import Journal
from app.engine.line import plan_of
from app.engine.lines import Desk, LineNow, Lines
from app.engine.models import NO_PRICES, Model, Prices, model_for
from app.engine.running_line import Stop, run_line
from app.engine.settling import Decider, OpenPause
from app.engine.step_settling import settle_step
from app.errors import AuthoringError, FieldError, Invalid


class InvalidInput(Invalid):
    """An input that the workflow does not take."""

    code = "invalid_request"


@dataclass(frozen=True, kw_only=True)
class CheckedInput:
    """An input that fits, as it was sent, and as everybody may read it."""

    true: Json
    shown: Json


Asking: TypeAlias = Agent | ModelRouter | ModelJudge
"""Whoever asks a model."""


class Program:
    """A served workflow. `models` take the places of those that its agents and routers have.

    Raises `AuthoringError` for what only the engine can find: a model that cannot be had, or one without a
    price where a run may cost only so much.
    """

    def __init__(
        self,
        workflow: Workflow,
        *,
        models: Mapping[Asking, ScriptedModel] = MappingProxyType({}),
        prices: Prices = NO_PRICES,
    ) -> None:
        _check_prices(workflow, models, prices)
        self.workflow = workflow
        self.name = workflow.name
        self.version = workflow.version
        self.fingerprint = workflow.fingerprint
        self.channels = {channel.name: channel for channel in workflow.channels}
        self.told_channels = frozenset(each.name for each in workflow.channels if each.is_told)
        self._models = _Models(models, prices)
        self._plan = plan_of(workflow, self._models)
        self._input_schema = schema_of(workflow.input)
        self._output_schema = schema_of(workflow.output)

    async def aclose(self) -> None:
        """Closes the connections of its models in this event loop."""
        await self._models.aclose()

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
        path, decider = path_of(pause.shown["step"]["path"]), Decider(by=by, via=via)
        if isinstance(self._plan.nodes[path], GraphNode):
            return settle_interrupt(pause, decision, decider)
        if pause.level is PauseLevel.STEP:
            return settle_step(pause, decision, self._plan.nodes[path], decider)
        tool = self._plan.seats[path].tool(pause.shown["call"]["tool"])
        return await settling.settle(pause, decision, tool, decider)

    async def drive(
        self, start: LineStart, *, saver: BaseCheckpointSaver[Any], journal: Journal, desk: Desk
    ) -> Outcome:
        """Runs the workflow until it waits for a decision, or ends.

        What is the run's own fault comes back as `Failed`; what the store raises goes through.
        """
        drive = Drive(
            start=start,
            root=self.name,
            journal=journal,
            secrets=secrets_in(start.input, self._input_schema),
            step_results=dict(start.step_results),
            outputs=dict(start.outputs),
            budget=self.workflow.budget,
        )
        match await self._first_line(drive, saver):
            case Forked() as fork:
                return await self._forked(drive, saver, desk, fork)
            case Asked(ask=ask):
                return Waiting(asks=(ask,))
            case Held():
                return Waiting(asks=())
            case BranchEnded():
                raise AssertionError("the root is no branch")
            case outcome:
                return outcome

    async def _first_line(
        self, drive: Drive, saver: BaseCheckpointSaver[Any]
    ) -> LineOutcome | Waiting:
        """Runs the workflow itself until it stops, or the graph that it is until it asks."""
        match self.workflow.steps:
            case [GraphNode() as node]:
                place = self._plan.places[f"{self.name}/{node.name}"]
                run = ExistingRun(node, place, self.channels, drive, saver)
                return await self._of_graph(drive, run)
            case _:
                return await self._line(drive, saver, {"value": drive.start.input})

    async def _of_graph(self, drive: Drive, run: ExistingRun) -> LineOutcome | Waiting:
        try:
            came = await run.until_it_asks()
            return came if isinstance(came, Waiting) else self._ended(drive, came)
        except LineFailed as failure:
            return self._failed(drive, failure)

    async def _forked(
        self, drive: Drive, saver: BaseCheckpointSaver[Any], desk: Desk, first: Forked
    ) -> Outcome:
        """Drives the root and its branches side by side."""
        root = drive.start.line

        async def run(now: LineNow) -> LineOutcome:
            start = replace(
                drive.start,
                line=now.line,
                branches=now.branches,
                fresh=False,
                answers=now.answers,
                joined=now.joined,
            )
            return await self._line(drive.of_line(start), saver, now.given)

        lines = Lines(run, desk, drive.start.answers, drive.halt)
        return await lines.drive(root, first)

    async def _line(
        self, drive: Drive, saver: BaseCheckpointSaver[Any], given: Mapping[str, Json]
    ) -> LineOutcome:
        """Runs one line until it stops."""
        try:
            stop = await run_line(self._plan.lines[path_of(drive.base)], drive, saver, given)
            return self._stopped(drive, stop)
        except LineCancelled as cancelled:
            return Cancelled(stop_reason=str(cancelled))
        except LineFailed as failure:
            return self._failed(drive, failure)

    def _stopped(self, drive: Drive, stop: Stop) -> LineOutcome:
        match stop:
            case Asked() | Held() | Forked():
                return stop
            case state if drive.start.branches:
                return BranchEnded(
                    output=state.get("value"),
                    left_out=bool(state.get("left_out")),
                    said=state.get("said", {}),
                    secrets=state.get("secrets", {}),
                    decided=bool(state.get("decided")),
                    stop_reason=state.get("stop_reason"),
                )
            case state:
                return self._ended(drive, state)

    def _ended(self, drive: Drive, state: Mapping[str, Any]) -> Ended:
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
            stop_reason=state.get("stop_reason"),
            history=tuple(HistoryEntry(**each) for each in said.values()),
        )

    def _failed(self, drive: Drive, failure: LineFailed) -> Failed:
        error = replace(failure.error, message=scrub(failure.error.message, drive.secrets))
        place = self._plan.places.get(path_of(error.step or ""))
        if place is None or error.step is None:
            return Failed(error=error, cause=failure.__cause__)
        row, attempts = row_and_attempts(error.step)
        if not failure.is_noted:
            steps.failed(drive, place.at(row), attempts=attempts)
        return Failed(error=replace(error, step=row), cause=failure.__cause__)


def _check_prices(
    workflow: Workflow, replaced: Mapping[Asking, ScriptedModel], prices: Prices
) -> None:
    """Raises `AuthoringError` where a budget could not be kept, since nobody knows what a model costs."""
    if workflow.budget is None:
        return
    models = {who: replaced.get(each, each.model) for who, each in _asking(workflow)}
    unknown = [
        f"{model if isinstance(model, str) else type(model).__name__} of {who}"
        for who, model in models.items()
        if prices.of(model) is None
    ]
    if unknown:
        raise AuthoringError(
            f"The workflow {workflow.name!r} limits what a run may cost, and no price is known of "
            f"{', '.join(unknown)}: name it in SIGNOFF_PRICES."
        )


def _asking(workflow: Workflow) -> Iterator[tuple[str, Asking]]:
    """Everybody in a workflow who asks a model, and how they are spoken of."""
    for path, step in walk(workflow.steps, workflow.name):
        match step:
            case AgentStep(agent=agent):
                yield f"the agent {agent.name!r}", agent
                for judge in agent.judges:
                    if isinstance(judge, ModelJudge):
                        yield f"the judge {judge.name!r} of {agent.name!r}", judge
            case RouterNode(select=ModelRouter() as router):
                yield f"the router {path!r}", router
            case _:
                pass


class _Models:
    """The models of a workflow's agents, routers and judges, each made once."""

    def __init__(self, replaced: Mapping[Asking, ScriptedModel], prices: Prices) -> None:
        self._replaced = replaced
        self._prices = prices
        self._made: dict[Asking, Model] = {}

    def __call__(self, asking: Asking) -> Model:
        if asking not in self._made:
            named = self._replaced.get(asking, asking.model)
            model = model_for(named, timeout=asking.timeout, retries=asking.retries)
            self._made[asking] = self._prices.applied_to(model, named)
        return self._made[asking]

    async def aclose(self) -> None:
        for each in self._made.values():
            await each.aclose()
