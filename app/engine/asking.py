"""Builds the questions that people are asked: what they read, and the schema of what they may answer."""

from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import TypeAdapter

from app.authoring import AskRequest, Question
from app.authoring.response import action_schema, value_schema, verdict_schema
from app.domain.ask import Policy
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
    kind = PauseKind(call["asks"][0])
    terms = _Terms(kind=kind, policy=_policy(tool, kind), **_WORDS[kind](seat, tool))
    return _ask(seat, tool, call, terms, line)


def open_question(call: OpenCall) -> OpenQuestion | None:
    """The question that the call's tool waits for, if it does."""
    last = call["questions"][-1] if call["questions"] else None
    return last if last is not None and "answer" not in last else None


def place_of(call: OpenCall) -> str:
    """The place of the next question about a call.

    A call has at most one approval, and one result or one input of somebody else's; its tool may
    ask often, and every crash may leave it in doubt again.
    """
    if open_question(call) is not None:
        return f"{call['place']}/q{len(call['questions']) - 1}"
    match PauseKind(call["asks"][0]):
        case PauseKind.EXTERNAL_RESULT:
            return f"{call['place']}/result"
        case PauseKind.INPUT:
            return f"{call['place']}/input"
        case PauseKind.UNKNOWN_OUTCOME:
            return f"{call['place']}/doubt{call['attempt']}"
        case _:
            return call["place"]


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """What one ask says and takes."""

    kind: PauseKind
    policy: Policy
    message: str
    allowed: list[str]
    response_schema: Schema
    options: list[str] | None = None


def _policy(tool: ServedTool, kind: PauseKind) -> Policy:
    """The terms of the tool. A call in doubt has none but its channel."""
    return tool.tool.policy_for(kind)


def _own_message(tool: ServedTool, kind: PauseKind) -> str | None:
    ask = tool.tool.ask_of(kind)
    return ask.message if ask else None


def _approval(seat: Seat, tool: ServedTool) -> dict[str, Any]:
    message = _own_message(tool, PauseKind.APPROVAL)
    is_voted_on = tool.tool.gate is not None and tool.tool.gate.quorum > 1
    overrides = {} if is_voted_on else {"override_arguments": tool.override_schema}
    return {
        "message": message or f"May {seat.agent.name} call {tool.name}?",
        "allowed": ["verdict", *overrides],
        "response_schema": verdict_schema(**overrides),
    }


def _result(seat: Seat, tool: ServedTool) -> dict[str, Any]:
    return {
        "message": _own_message(tool, PauseKind.EXTERNAL_RESULT)
        or f"{seat.agent.name} needs {tool.name} to be done. What came of it?",
        "allowed": ["value", "decline"],
        "response_schema": value_schema(tool.result_schema),
    }


def _input(seat: Seat, tool: ServedTool) -> dict[str, Any]:
    return {
        "message": _own_message(tool, PauseKind.INPUT)
        or f"{seat.agent.name} calls {tool.name}. Please fill in {', '.join(tool.tool.filled_in)}.",
        "allowed": ["value", "decline"],
        "response_schema": value_schema(tool.tool.fill_schema),
    }


def _doubt(seat: Seat, tool: ServedTool) -> dict[str, Any]:
    return {
        "message": f"{tool.name} was called, and a crash left open whether it happened. What now?",
        "allowed": ["action", *DOUBT_ACTIONS],
        "response_schema": action_schema(*DOUBT_ACTIONS, value=tool.result_schema),
    }


DOUBT_ACTIONS: Final = ("run_again", "use_value", "fail")
_WORDS: Final = {
    PauseKind.APPROVAL: _approval,
    PauseKind.EXTERNAL_RESULT: _result,
    PauseKind.INPUT: _input,
    PauseKind.UNKNOWN_OUTCOME: _doubt,
}


def _question_ask(
    seat: Seat, tool: ServedTool, call: OpenCall, question: OpenQuestion, line: str
) -> Ask:
    terms = _Terms(
        kind=PauseKind.INTERACTIVE,
        policy=_POLICIES.validate_python(question["policy"]),
        message=question["message"],
        allowed=["value", "decline"],
        response_schema=value_schema(cast("Schema", question["answer_schema"])),
        options=question["options"],
    )
    return _ask(seat, tool, call, terms, line)


def _ask(seat: Seat, tool: ServedTool, call: OpenCall, terms: _Terms, line: str) -> Ask:
    shown: dict[str, Json] = {
        "step": seat.place.as_json(),
        "agent": seat.agent.name,
        "call": _shown_call(tool, call),
        "position": {"index": call["position"][0], "of": call["position"][1]},
        "message": terms.message,
        "options": terms.options,
        "choices": None,
        "output": None,
        "error": None,
        "branch": None,
        "allowed": terms.allowed,
        "response_schema": terms.response_schema,
    }
    return Ask(
        place=place_of(call),
        line=line,
        kind=terms.kind,
        level=PauseLevel.EXECUTOR,
        policy=terms.policy,
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
    for named in (channel, *question.terms.channels()):
        if named.name not in seat.channels:
            raise AuthoringError(
                f"The tool {tool.name!r} asks {question.message!r} through {named.name!r}, "
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
