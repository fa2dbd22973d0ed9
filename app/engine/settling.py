"""The one place where a decision is checked against its pause: whatever door it came in by."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pydantic import ValidationError

from app.authoring.json_schema import faults_of, said_of
from app.domain.ask import Policy
from app.domain.decision import (
    MAX_BY,
    MAX_FEEDBACK,
    UNCHANGED,
    Action,
    Decision,
    Decline,
    InvalidDecision,
    Unchanged,
    Value,
    Verdict,
    one_line,
)
from app.domain.json import InvalidJson, Json, check_json, pointer_token
from app.domain.masking import digest_of, mask, restore, secrets_in
from app.domain.pause import Answer, PauseKind, PauseLevel, Settled
from app.engine.asking import DOUBT_ACTIONS
from app.engine.faults import reason_of, wrong_fields
from app.engine.guarding import check_decided
from app.engine.served import Schema, ServedTool
from app.errors import FieldError


@dataclass(frozen=True, kw_only=True)
class OpenPause:
    """What of a pause a decision is checked against. `secret` has the true values."""

    kind: PauseKind
    level: PauseLevel = PauseLevel.EXECUTOR
    shown: dict[str, Json]
    secret: Json = None
    digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Decider:
    """Who decides, and by which door."""

    by: str
    via: str


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Makes answers in the name of who decides."""

    who: Decider
    feedback: str | None

    @classmethod
    def of(cls, decision: Decision, decider: Decider) -> "Answering":
        feedback = one_line(decision.feedback, MAX_FEEDBACK) if decision.feedback else None
        return cls(who=Decider(by=one_line(decider.by, MAX_BY), via=decider.via), feedback=feedback)

    def verdict(self, approved: bool) -> Settled:
        return _settled(_answer(self.who, self.feedback, shape="verdict", approved=approved))

    def edited(self, arguments: Json, digest: str) -> Settled:
        """Yes to a call with other arguments, in a graph that nobody's guardrails look into."""
        changed = {"arguments": arguments, "edited": arguments, "digest": digest}
        answer = _answer(self.who, self.feedback, shape="verdict", **changed)
        return _settled(answer, override_arguments=arguments, effective_arguments=arguments)

    def overridden(self, output: Json, *, shown: Json) -> Settled:
        answer = _answer(self.who, self.feedback, shape="verdict", has_output=True, output=output)
        return _settled(answer, override_output=shown)

    def value(self, value: Json, *, shown: Json) -> Settled:
        return _settled(_answer(self.who, self.feedback, shape="value", value=value), value=shown)

    def declined(self) -> Settled:
        return _settled(_answer(self.who, self.feedback, shape="value", approved=False))

    def action(self, action: str) -> Settled:
        answer = _answer(self.who, self.feedback, shape="action", action=action)
        return Settled(
            answer=answer,
            shown={
                "action": action,
                **({"feedback": self.feedback} if self.feedback else {}),
                "by": answer.by,
                "via": answer.via,
            },
        )


def settles_alone(decision: Decision, policy: Policy) -> bool:
    """Whether nobody else has to agree: a channel's own yes is not enough where several have to."""
    return policy.quorum == 1 or not (isinstance(decision, Verdict) and decision.approved)


async def settle(
    pause: OpenPause, decision: Decision, tool: ServedTool, decider: Decider
) -> Settled:
    """The decision as an answer, if it fits; raises `InvalidDecision` with pointers into it.

    Arguments that it brings pass the guardrails first. Messages never quote what was sent.
    """
    answering = Answering.of(decision, decider)
    who, feedback = answering.who, answering.feedback
    match pause.kind:
        case PauseKind.APPROVAL:
            return await _verdict(pause, decision, tool, who, feedback)
        case PauseKind.EXTERNAL_RESULT:
            return _reported(decision, tool, who, feedback)
        case PauseKind.INPUT:
            return await _filled(pause, decision, tool, who, feedback)
        case PauseKind.INTERACTIVE:
            return _answered(pause, decision, who, feedback)
        case PauseKind.UNKNOWN_OUTCOME:
            return _acted(decision, tool, who, feedback)
        case _:
            raise wrong("", f"a pause of the kind {pause.kind} cannot be decided yet")


async def _verdict(
    pause: OpenPause, decision: Decision, tool: ServedTool, who: Decider, feedback: str | None
) -> Settled:
    match decision:
        case Verdict(override_output=output) if output is not UNCHANGED:
            raise wrong("/override_output", "an approval of a call takes no output")
        case Verdict(approved=True, override_arguments=None):
            return _settled(_answer(who, feedback, shape="verdict", digest=pause.digest))
        case Verdict(approved=True, override_arguments=edited):
            return await _overridden(pause, edited, tool, who, feedback)
        case Verdict(approved=False, override_arguments=edited) if edited is not None:
            raise wrong("/override_arguments", "a rejection takes no arguments")
        case Verdict(approved=False) | Decline():
            return _settled(_answer(who, feedback, shape="verdict", approved=False))
        case _:
            raise wrong("/approved", "this pause takes a verdict: approved must be true or false")


async def _overridden(
    pause: OpenPause, edited: Json, tool: ServedTool, who: Decider, feedback: str | None
) -> Settled:
    secret = cast("dict[str, Json]", pause.secret)
    if not isinstance(edited, dict):
        raise wrong("/override_arguments", "must be an object with all arguments")
    arguments = restore(cast("Json", edited), secret["arguments"], tool.schema)
    pointer = "/override_arguments"
    read = read_value(tool.read_closed, arguments, pointer, tool.schema)
    effective = tool.written_out(arguments, read)
    effective = await check_decided(tool, effective, pointer, read=tool.read_closed)
    answer = _answer(
        who,
        feedback,
        shape="verdict",
        arguments=effective,
        edited=cast("Json", edited),
        digest=digest_of(tool.name, effective, tool.schema, secret["salt"]),
    )
    shown = {
        "override_arguments": tool.shown(cast("Json", edited)),
        "effective_arguments": tool.shown(effective),
    }
    return _settled(answer, **shown)


async def _filled(
    pause: OpenPause, decision: Decision, tool: ServedTool, who: Decider, feedback: str | None
) -> Settled:
    match decision:
        case Value(value=value):
            secret, schema = cast("dict[str, Json]", pause.secret), tool.tool.fill_schema
            whole = read_value(
                lambda given: tool.tool.filled(secret["arguments"], given), value, "/value", schema
            )
            effective = tool.written_out(whole, tool.tool.read_arguments(whole))
            effective = await check_decided(
                tool, effective, "/value", read=partial(tool.tool.read_arguments, closed=True)
            )
            digest = digest_of(tool.name, effective, tool.schema, secret["salt"])
            answer = _answer(
                who, feedback, shape="value", value=value, arguments=effective, digest=digest
            )
            return _settled(answer, value=mask(value, schema))
        case _:
            return _refused(decision, who, feedback)


def _reported(decision: Decision, tool: ServedTool, who: Decider, feedback: str | None) -> Settled:
    match decision:
        case Value(value=value):
            read_value(tool.tool.read_result, value, "/value", tool.result_schema)
            answer = _answer(who, feedback, shape="value", value=value)
            return _settled(answer, value=mask(value, tool.result_schema))
        case _:
            return _refused(decision, who, feedback)


def _answered(pause: OpenPause, decision: Decision, who: Decider, feedback: str | None) -> Settled:
    match decision:
        case Value(value=value):
            schema = _schema_of_value(pause)
            check_value(value, schema, "/value")
            answer = _answer(who, feedback, shape="value", value=value)
            return _settled(answer, value=mask(value, schema))
        case _:
            return _refused(decision, who, feedback)


def _acted(decision: Decision, tool: ServedTool, who: Decider, feedback: str | None) -> Settled:
    match decision:
        case Action(action="use_value", value=value):
            read_value(tool.tool.read_result, value, "/value", tool.result_schema)
            answer = _answer(who, feedback, shape="action", action="use_value", value=value)
            return _settled(answer, action="use_value", value=mask(value, tool.result_schema))
        case Action(action=action, value=None) if action in DOUBT_ACTIONS:
            answer = _answer(who, feedback, shape="action", action=action)
            return _settled(answer, action=action)
        case Action(action=action) if action in DOUBT_ACTIONS:
            raise wrong("/value", f"{action} takes no value")
        case _:
            raise wrong("/action", f"must be one of {', '.join(DOUBT_ACTIONS)}")


def _refused(decision: Decision, who: Decider, feedback: str | None) -> Settled:
    match decision:
        case (
            Decline()
            | Verdict(approved=False, override_arguments=None, override_output=Unchanged())
        ):
            return _settled(_answer(who, feedback, shape="value", approved=False))
        case _:
            raise wrong("", "this pause takes a value, or approved: false")


def _answer(who: Decider, feedback: str | None, *, shape: str, **parts: Any) -> Answer:
    return Answer(
        approved=parts.pop("approved", True),
        by=who.by,
        via=who.via,
        shape=shape,
        feedback=feedback,
        **parts,
    )


def _settled(answer: Answer, **shown: Json) -> Settled:
    is_verdict = not shown.keys() & {"value", "action"}
    said: dict[str, Json] = {"approved": answer.approved} if is_verdict else {}
    if answer.feedback is not None:
        said["feedback"] = answer.feedback
    return Settled(answer=answer, shown=said | shown | {"by": answer.by, "via": answer.via})


def read_value(read: Callable[[Json], Any], value: Json, pointer: str, schema: Schema) -> Any:
    """The typed value; whatever a type or a writer's validator says against it is an invalid decision."""
    _check_storable(value, pointer)
    secrets = secrets_in(value, schema)
    try:
        return read(value)
    except ValidationError as error:
        raise _invalid(*wrong_fields(error, pointer, secrets)) from None
    except Exception as error:  # noqa: BLE001 - a writer's validator can raise anything
        raise wrong(pointer, reason_of(error, secrets)) from None


def _check_storable(value: Json, pointer: str) -> None:
    try:
        check_json(value)
    except InvalidJson as error:
        fields = (
            FieldError(pointer=pointer + each.pointer, message=each.message)
            for each in error.fields
        )
        raise _invalid(*fields) from None


def _schema_of_value(pause: OpenPause) -> Schema:
    response: Schema = pause.shown["response_schema"]
    definitions = {"$defs": response["$defs"]} if "$defs" in response else {}
    return response["properties"]["value"] | definitions


def check_value(value: Json, schema: Schema, pointer: str) -> None:
    """Raises `InvalidDecision` where a value cannot be stored, or does not fit the schema."""
    _check_storable(value, pointer)
    faults = [
        FieldError(
            pointer=pointer
            + "".join(f"/{pointer_token(str(part))}" for part in fault.absolute_path),
            message=said_of(fault),
        )
        for fault in faults_of(value, schema)
    ]
    if faults:
        raise _invalid(*faults)


def wrong(pointer: str, message: str) -> InvalidDecision:
    return _invalid(FieldError(pointer=pointer, message=message))


def _invalid(*fields: FieldError) -> InvalidDecision:
    return InvalidDecision("The decision does not fit this pause; it is still open.", fields=fields)
