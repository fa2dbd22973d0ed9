"""Checks the decision of a step's question against what was asked."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import BaseModel

from app.authoring.gates import AskInput
from app.authoring.shape import adapter_of, dump, load, schema_of
from app.authoring.step import Node, RouterNode
from app.domain.decision import Action, Decision, Decline, Unchanged, Value, Verdict
from app.domain.json import Json
from app.domain.masking import mask, restore
from app.domain.pause import Answer, PauseKind, Settled
from app.engine.drive import Drive
from app.engine.settling import (
    Answering,
    Decider,
    OpenPause,
    read_value,
    settles_alone,
    wrong,
)
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
    if isinstance(decision.override_output, Unchanged):
        return answering.verdict(decision.approved)
    if not decision.approved:
        raise wrong("/override_output", "only an approval can override")
    schema = schema_of(node.output)
    true = cast("dict[str, Json]", pause.secret)["output"]
    edited = restore(decision.override_output, true, schema)
    output = read_value(
        lambda each: dump(node.output, load(node.output, each, closed=True)),
        edited,
        "/override_output",
        schema,
    )
    return answering.overridden(output, shown=mask(output, schema))


def _filled(pause: OpenPause, value: Json, node: Node, answering: Answering) -> Settled:
    filled = adapter_of(_input_gate(pause, node).model)
    schema = schema_of(filled)
    read = read_value(
        lambda each: dump(filled, load(filled, each, closed=True)), value, "/value", schema
    )
    return answering.value(read, shown=mask(read, schema))


def _input_gate(pause: OpenPause, node: Node) -> AskInput:
    secret = cast("dict[str, int]", pause.secret)
    return cast("AskInput", node.before[secret["gate"]])


def inputs_of(node: Node, filled: Sequence[Json]) -> list[BaseModel]:
    """What people filled in for a step, typed."""
    models = [gate.model for gate in node.before if isinstance(gate, AskInput)]
    return [load(adapter_of(model), value) for model, value in zip(models, filled, strict=False)]


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
        if decision is None or not settles_alone(decision, ask.policy):
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
