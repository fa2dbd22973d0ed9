"""Checks the decision of a step's question against what was asked."""

import logging
from dataclasses import replace
from typing import Any, cast

from app.authoring.gates import AskInput
from app.authoring.shape import dump, load, schema_of
from app.authoring.step import Node, RouterNode
from app.domain.decision import Action, Decision, Decline, Value, Verdict
from app.domain.json import Json
from app.domain.masking import mask, restore
from app.domain.pause import Answer, PauseKind, Settled
from app.engine.drive import Drive
from app.engine.settling import Answering, Decider, OpenPause, read_value, wrong
from app.engine.step_asks import StepAsk


def settle_step(pause: OpenPause, decision: Decision, node: Node, decider: Decider) -> Settled:
    """The decision as an answer, if it fits; raises `InvalidDecision` with pointers into it."""
    answering = Answering.of(decision, decider)
    match pause.kind, decision:
        case PauseKind.CONFIRMATION, Verdict():
            return answering.verdict(decision.approved)
        case PauseKind.REVIEW, Verdict():
            return _reviewed(pause, decision, node, answering)
        case ((PauseKind.CONFIRMATION | PauseKind.REVIEW), Decline()):
            return answering.verdict(False)
        case ((PauseKind.INPUT | PauseKind.ROUTE), (Decline() | Verdict(approved=False))):
            return answering.declined()
        case PauseKind.INPUT, Value(value=value):
            return _filled(pause, value, node, answering)
        case PauseKind.ROUTE, Value(value=value):
            return _routed(pause, value, cast("RouterNode", node), answering)
        case PauseKind.ERROR, Action(action=action):
            return _acted(pause, action, answering)
        case _:
            raise wrong("", "this pause takes another shape of decision")


def _reviewed(pause: OpenPause, decision: Verdict, node: Node, answering: Answering) -> Settled:
    if decision.override_output is None:
        return answering.verdict(decision.approved)
    if not decision.approved:
        raise wrong("/override_output", "only an approval can override")
    schema = schema_of(node.output)
    true = cast("dict[str, Json]", pause.secret)["output"]
    edited = restore(decision.override_output, true, schema)
    output = read_value(
        lambda value: dump(node.output, load(node.output, value)),
        edited,
        "/override_output",
        schema,
    )
    return answering.verdict(True, output=output, shown_output=mask(output, schema))


def _filled(pause: OpenPause, value: Json, node: Node, answering: Answering) -> Settled:
    gate = _input_gate(pause, node)
    schema = gate.model.model_json_schema()
    read = read_value(
        lambda each: gate.model.model_validate(each).model_dump(mode="json"),
        value,
        "/value",
        schema,
    )
    return answering.value(read, shown=mask(read, schema))


def _input_gate(pause: OpenPause, node: Node) -> AskInput:
    secret = cast("dict[str, int]", pause.secret)
    return cast("AskInput", node.before[secret["gate"]])


def _routed(pause: OpenPause, value: Json, node: RouterNode, answering: Answering) -> Settled:
    many = cast("Any", node.select).multiple
    if not isinstance(value, list):
        raise wrong("/value", "must be a list of names")
    try:
        names = node.chosen(cast("list[Json]", value))
    except ValueError as error:
        raise wrong("/value", str(error)) from None
    if len(names) > 1 and not many:
        raise wrong("/value", "only one can be chosen")
    return answering.value(list(names), shown=list(names))


def _acted(pause: OpenPause, action: str, answering: Answering) -> Settled:
    if action not in cast("list[str]", pause.shown["options"]):
        raise wrong("/action", f"must be one of {', '.join(pause.shown['options'])}")
    return answering.action(action)


def decided_at_once(ask: StepAsk, node: Node, drive: Drive) -> Answer | None:
    """The answer where the channel can give it; noted as a pause that was never open."""
    asked = ask.as_ask(drive.start.line)
    pause = OpenPause(kind=asked.kind, level=asked.level, shown=asked.shown, secret=asked.secret)
    try:
        decision = ask.channel.decide(ask.request(drive.start))
        if decision is None:
            return None
        settled = settle_step(pause, decision, node, Decider(by=ask.channel.name, via="channel"))
    except Exception:  # noqa: BLE001 - a writer's channel can raise anything; then a person is asked
        _log.exception(
            "channel could not decide", extra={"channel": ask.channel.name, "place": ask.place}
        )
        return None
    drive.journal.settle(replace(asked, settled=settled))
    return settled.answer


_log = logging.getLogger(__name__)
