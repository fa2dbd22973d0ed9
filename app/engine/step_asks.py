"""Builds the questions of steps: may it begin, with which values, which way, is this good, what now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from app.authoring import AskRequest, Channel
from app.authoring.gates import AskError, AskInput, Choose, Confirm, Gate, Review
from app.authoring.response import action_schema, choices_schema, value_schema, verdict_schema
from app.authoring.shape import adapter_of, schema_of
from app.domain.ask import Policy
from app.domain.json import Json
from app.domain.pause import Ask, PauseKind, PauseLevel
from app.engine import scrubbing
from app.engine.drive import LineStart
from app.engine.served import Schema, StepPlace


@dataclass(frozen=True, kw_only=True)
class StepAsk:
    """A question of a step, before its line is known. `place` is that of the pause."""

    place: str
    step: StepPlace
    kind: PauseKind
    channel: Channel
    policy: Policy
    message: str
    allowed: Sequence[str]
    response_schema: Schema
    shown: dict[str, Json] = field(default_factory=dict[str, Json])
    secret: Json = None

    def as_ask(self, line: str) -> Ask:
        """The question as the run keeps it."""
        nothing = dict.fromkeys(_PARTS)
        shown = {
            **nothing,
            "step": self.step.as_json(),
            "message": self.message,
            "allowed": list(self.allowed),
            "response_schema": self.response_schema,
            **self.shown,
        }
        return Ask(
            place=self.place,
            line=line,
            kind=self.kind,
            level=PauseLevel.STEP,
            policy=self.policy,
            shown=shown,
            secret=self.secret,
        )

    def request(self, start: LineStart) -> AskRequest:
        """The question as a channel sees it that may decide it at once."""
        options = self.shown.get("options")
        return AskRequest(
            kind=self.kind,
            workflow=self.step.workflow,
            thread_id=start.run.thread_id,
            run_id=start.run.run_id,
            step=self.step.path,
            message=self.message,
            options=tuple(cast("list[str]", options)) if options else None,
            requested_by=start.requested_by,
            metadata=start.metadata,
        )


_PARTS = (
    "agent",
    "call",
    "position",
    "options",
    "choices",
    "output",
    "error",
    "branch",
)


def gate_ask(
    gate: Confirm | AskInput, step: StepPlace, index: int, *, branch: str | None = None
) -> StepAsk:
    """What has to be settled before a step begins. `branch` is what a gated condition would do."""
    if isinstance(gate, AskInput):
        schema = schema_of(adapter_of(gate.model))
        return _ask(
            gate,
            step,
            f"before{index}",
            ["value", "decline"],
            value_schema(schema),
            secret={"gate": index},
        )
    return _ask(
        gate, step, f"before{index}", ["verdict"], verdict_schema(), shown={"branch": branch}
    )


def route_ask(choose: Choose, step: StepPlace, choices: Sequence[tuple[str, str]]) -> StepAsk:
    """Which of the choices, given by name and description, it shall be."""
    names = [name for name, _ in choices]
    schema = choices_schema(names, multiple=choose.multiple)
    shown: dict[str, Json] = {
        "choices": [{"name": name, "description": said or None} for name, said in choices]
    }
    return _ask(choose, step, "route", ["value", "decline"], value_schema(schema), shown=shown)


def review_ask(
    review: Review, step: StepPlace, output: Json, *, secrets: Iterable[str], at: str = "review"
) -> StepAsk:
    """Whether an output is good: a step's, or with `at="each"` that of one iteration of a loop.

    `secrets` are struck out of what is shown of it.
    """
    schema = step.output_schema
    overrides = {} if review.quorum > 1 else {"override_output": schema}
    return _ask(
        review,
        step,
        at,
        ["verdict", *overrides],
        verdict_schema(**overrides),
        shown={"output": scrubbing.shown(output, schema, secrets)},
        secret={"output": output},
    )


def error_ask(
    ask: AskError, step: StepPlace, failure: Json, *, may_retry: bool, may_skip: bool
) -> StepAsk:
    """What becomes of a failed step."""
    possible = {"retry": may_retry, "skip": may_skip, "fail": True}
    actions = [name for name, is_possible in possible.items() if is_possible]
    schema = action_schema(*actions)
    return _ask(
        ask, step, "error", ["action"], schema, shown={"error": failure, "options": actions}
    )


def _ask(
    gate: Gate,
    step: StepPlace,
    at: str,
    allowed: Sequence[str],
    response_schema: Schema,
    *,
    shown: dict[str, Json] | None = None,
    secret: Json = None,
) -> StepAsk:
    if gate.channel is None:
        raise AssertionError("every ask of a built workflow names its channel")
    return StepAsk(
        place=f"{step.path}#{at}",
        step=step,
        kind=gate.kind,
        channel=gate.channel,
        policy=gate.policy(gate.channel),
        message=cast("Any", gate).message,
        allowed=allowed,
        response_schema=response_schema,
        shown=shown or {},
        secret=secret,
    )
