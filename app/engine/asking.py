"""Builds the questions that people are asked: what they read, and the schema of what they may answer."""

from dataclasses import replace
from typing import cast

from pydantic import TypeAdapter

from app.authoring import AskRequest, Question
from app.authoring.asks import Terms, policy_of
from app.domain.ask import Policy
from app.domain.decision import MAX_BY, MAX_FEEDBACK
from app.domain.json import Json
from app.domain.pause import Ask, PauseKind, PauseLevel
from app.engine.drive import LineStart
from app.engine.served import Schema, Seat, ServedTool
from app.engine.state import OpenCall, OpenQuestion
from app.errors import AuthoringError

_POLICIES = TypeAdapter(Policy)


def ask_for(seat: Seat, call: OpenCall, line: str) -> Ask:
    """The next question about a call: one its tool came upon, or the next it waits at before it runs."""
    tool = seat.tool(call["tool"])
    question = open_question(call)
    if question is not None:
        return _question_ask(seat, tool, call, question, line)
    match PauseKind(call["asks"][0]):
        case PauseKind.EXTERNAL_RESULT:
            return _external_ask(seat, tool, call, line)
        case _:
            return _approval_ask(seat, tool, call, line)


def open_question(call: OpenCall) -> OpenQuestion | None:
    """The question that the call's tool waits for, if it does."""
    last = call["questions"][-1] if call["questions"] else None
    return last if last is not None and "answer" not in last else None


def place_of(call: OpenCall) -> str:
    """The place of the next question about a call; a call has one approval, one result, many questions."""
    if open_question(call) is not None:
        return f"{call['place']}/q{len(call['questions']) - 1}"
    is_result = call["asks"][0] == PauseKind.EXTERNAL_RESULT
    return f"{call['place']}/result" if is_result else call["place"]


def _approval_ask(seat: Seat, tool: ServedTool, call: OpenCall, line: str) -> Ask:
    gate, channel = tool.tool.gate, tool.tool.channel
    if gate is None:
        raise AuthoringError(f"The tool {tool.name!r} has no approval by now.")
    asked = gate.channel or channel
    if asked is None:
        raise AuthoringError(f"The approval of the tool {tool.name!r} names no channel.")
    message = gate.message or f"May {seat.agent.name} call {tool.name}?"
    return _ask(
        seat, tool, call, line,
        kind=PauseKind.APPROVAL,
        policy=gate.policy(asked),
        message=message,
        allowed=["verdict", "override_arguments"],
        response_schema=verdict_schema(tool.override_schema),
    )  # fmt: skip


def _external_ask(seat: Seat, tool: ServedTool, call: OpenCall, line: str) -> Ask:
    channel = tool.tool.channel
    if channel is None:
        raise AuthoringError(f"The tool {tool.name!r} names no channel.")
    return _ask(
        seat, tool, call, line,
        kind=PauseKind.EXTERNAL_RESULT,
        policy=policy_of(Terms(), channel),
        message=f"{seat.agent.name} needs {tool.name} to be done. What came of it?",
        allowed=["value", "decline"],
        response_schema=value_schema(tool.result_schema),
    )  # fmt: skip


def _question_ask(
    seat: Seat, tool: ServedTool, call: OpenCall, question: OpenQuestion, line: str
) -> Ask:
    ask = _ask(
        seat, tool, call, line,
        kind=PauseKind.INTERACTIVE,
        policy=_POLICIES.validate_python(question["policy"]),
        message=question["message"],
        allowed=["value", "decline"],
        response_schema=value_schema(cast("Schema", question["answer_schema"])),
    )  # fmt: skip
    return replace(ask, shown=ask.shown | {"options": question["options"]})


def _ask(
    seat: Seat,
    tool: ServedTool,
    call: OpenCall,
    line: str,
    *,
    kind: PauseKind,
    policy: Policy,
    message: str,
    allowed: list[str],
    response_schema: Schema,
) -> Ask:
    shown: dict[str, Json] = {
        "step": seat.place.as_json(),
        "agent": seat.agent.name,
        "call": _shown_call(tool, call),
        "position": {"index": call["position"][0], "of": call["position"][1]},
        "message": message,
        "options": None,
        "choices": None,
        "output": None,
        "error": None,
        "branch": None,
        "allowed": allowed,
        "response_schema": response_schema,
    }
    return Ask(
        place=place_of(call),
        line=line,
        kind=kind,
        level=PauseLevel.EXECUTOR,
        policy=policy,
        shown=shown,
        secret={"arguments": call["arguments"], "salt": call.get("salt", "")},
        digest=call.get("digest"),
    )


def _shown_call(tool: ServedTool, call: OpenCall) -> Json:
    return {
        "id": call["id"],
        "provider_call_id": call["provider_id"],
        "tool": tool.name,
        "description": tool.tool.description,
        "arguments": tool.shown(call["arguments"]),
        "arguments_schema": tool.schema,
        "sensitive_paths": tool.sensitive_paths,
    }


def question_of(question: Question[object], seat: Seat, tool: ServedTool) -> OpenQuestion:
    """A tool's question as data. It goes to its own channel, else to the tool's, else to the first."""
    channel = question.channel or tool.tool.channel or next(iter(seat.channels.values()), None)
    if channel is None:
        raise AuthoringError(
            f"The tool {tool.name!r} asks {question.message!r}, and there is no channel to ask: "
            "name one in the question, and in the workflow's channels."
        )
    if channel.name not in seat.channels:
        raise AuthoringError(
            f"The tool {tool.name!r} asks {question.message!r} through {channel.name!r}, "
            "which is not among the workflow's channels."
        )
    return OpenQuestion(
        message=question.message,
        options=list(question.options) if question.options is not None else None,
        answer_schema=question.response_schema,
        policy=_POLICIES.dump_python(question.policy(channel), mode="json"),
    )


def request_of(ask: Ask, seat: Seat, start: LineStart) -> AskRequest:
    """The question as a channel sees it that may decide it at once."""
    call = ask.shown["call"]
    options = ask.shown["options"]
    return AskRequest(
        kind=ask.kind,
        workflow=seat.place.workflow,
        thread_id=start.run.thread_id,
        run_id=start.run.run_id,
        step=seat.place.path,
        message=ask.shown["message"],
        agent=seat.agent.name,
        tool=call["tool"],
        call_id=call["id"],
        arguments=call["arguments"],
        options=tuple(options) if options is not None else None,
        requested_by=start.requested_by,
        metadata=start.metadata,
    )


_WHO: Schema = {
    "by": {"type": "string", "minLength": 1, "maxLength": MAX_BY},
    "feedback": {"type": ["string", "null"], "maxLength": MAX_FEEDBACK},
}


def verdict_schema(override: Schema) -> Schema:
    """JSON Schema of a yes or a no, where a yes may bring other arguments."""
    inner, definitions = _hoisted(override)
    properties: Schema = {"approved": {"type": "boolean"}, "override_arguments": inner, **_WHO}
    refusal: Schema = {"properties": {"approved": {"const": False}}, "required": ["approved"]}
    return {
        "type": "object",
        "properties": properties,
        "required": ["approved"],
        "additionalProperties": False,
        "if": refusal,
        "then": {"properties": {"override_arguments": {"type": "null"}}},
        **definitions,
    }


def value_schema(value: Schema) -> Schema:
    """JSON Schema of an answer, or of its refusal."""
    inner, definitions = _hoisted(value)
    return {
        "type": "object",
        "properties": {"value": inner, "approved": {"const": False}, **_WHO},
        "oneOf": [{"required": ["value"]}, {"required": ["approved"]}],
        "additionalProperties": False,
        **definitions,
    }


def _hoisted(schema: Schema) -> tuple[Schema, Schema]:
    """A schema without its definitions, and these: references are read from the root."""
    inner = {key: each for key, each in schema.items() if key != "$defs"}
    return inner, {"$defs": schema["$defs"]} if "$defs" in schema else {}
