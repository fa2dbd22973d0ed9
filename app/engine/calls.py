"""The calls of one turn: read as the model proposed them, asked about, settled, and answered."""

import hashlib
import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson
from pydantic import BaseModel

from app.domain.ids import CallId
from app.domain.masking import digest_of
from app.domain.message import Message, ProposedCall
from app.domain.pause import Answer, Ask, PauseKind, Settled
from app.engine import scrubbing
from app.engine.asking import ask_for, open_question, request_of
from app.engine.drive import Drive, LineFailed
from app.engine.faults import declined, reason_of, rejected, tool_error
from app.engine.guarding import after_call, after_decision, before_call, failing
from app.engine.models import AnsweredCall
from app.engine.served import Seat, ServedTool
from app.engine.settling import Decider, OpenPause, settle, settles_alone
from app.engine.state import CallOutcome, OpenCall

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Names one turn of an agent at its place."""

    run_id: str
    path: str
    turn: int

    @property
    def place(self) -> str:
        return f"{self.path}#{self.turn}"

    def call_place(self, index: int) -> str:
        return f"{self.place}.{index}"

    def call_id(self, index: int) -> CallId:
        return CallId(f"{self.run_id}:{self.path}:{self.turn}.{index}")


def open_calls(
    seat: Seat, turn: Turn, answered: Sequence[AnsweredCall], messages: Sequence[Message]
) -> list[OpenCall]:
    """The calls of an answer, in its order. Unknown tools and invalid arguments have their result at once.

    Where guardrails look first, the others are `unchecked`: `checked` says whether they are asked about.
    """
    taken = {call["id"] for message in messages for call in message.get("calls", ())}
    calls = [_opened(seat, turn, index, each, taken) for index, each in enumerate(answered)]
    return _numbered(calls)


def _numbered(calls: list[OpenCall]) -> list[OpenCall]:
    asking = [call for call in calls if call["asks"]]
    for index, call in enumerate(asking):
        call["position"] = [index, len(asking)]
    return calls


def _opened(
    seat: Seat, turn: Turn, index: int, proposed: AnsweredCall, taken: set[str]
) -> OpenCall:
    call = OpenCall(
        index=index,
        id=turn.call_id(index),
        place=turn.call_place(index),
        wire_id=_wire_id(turn.call_id(index), proposed.provider_id, taken),
        provider_id=proposed.provider_id,
        tool=proposed.tool,
        arguments=proposed.arguments,
        asks=[],
        attempt=0,
        position=[0, 1],
        questions=[],
    )
    tool = seat.tools.get(proposed.tool)
    if tool is None:
        call["result"] = tool_error(f"there is no tool named {proposed.tool[:100]!r}")
    elif proposed.fault is not None:
        call["result"] = tool_error(f"invalid arguments: {proposed.fault}")
    else:
        _read_arguments(seat, tool, call)
    return call


def _wire_id(call_id: CallId, provider_id: str | None, taken: set[str]) -> str:
    """The provider's id where it names this call alone, else one of our own that all providers take."""
    wire_id = provider_id
    if not wire_id or wire_id in taken:
        wire_id = f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"
    taken.add(wire_id)
    return wire_id


def _read_arguments(seat: Seat, tool: ServedTool, call: OpenCall) -> None:
    try:
        read = tool.tool.read_offered(call["arguments"])
    except Exception as error:  # noqa: BLE001 - a writer's validator can raise anything
        reason = reason_of(error, tool.secrets(call["arguments"]))
        call["result"] = tool_error(f"invalid arguments: {reason}")
        return
    if tool.before or tool.after or seat.agent.on_decision:
        call["arguments"] = tool.written_out(call["arguments"], read)
    if seat.checks_first(tool):
        call["unchecked"] = True
    else:
        _gate(tool, call, read)


def _gate(tool: ServedTool, call: OpenCall, read: BaseModel) -> None:
    """Says what the call waits for, and fixes what is shown and run."""
    call["asks"] = [
        kind.value
        for kind in tool.kinds
        if kind is not PauseKind.APPROVAL or tool.tool.asks_about(read)
    ]
    if call["asks"]:
        call["arguments"] = tool.written_out(call["arguments"], read)
        call["salt"] = secrets.token_hex(16)
        call["digest"] = digest_of(tool.name, call["arguments"], tool.schema, call["salt"])


async def checked(seat: Seat, calls: Sequence[OpenCall]) -> list[OpenCall]:
    """The calls after their guardrails, one after the other: blocked, or with what they wait for.

    Raises `LineFailed` where a guardrail fails.
    """
    return _numbered([await _checked(seat, call) for call in calls])


async def _checked(seat: Seat, call: OpenCall) -> OpenCall:
    if not call.get("unchecked"):
        return call
    tool = seat.tool(call["tool"])
    with failing(seat.place.path, tool.secrets(call["arguments"])):
        looked = await before_call(tool, call)
    after = _without(call, "unchecked")
    if looked.blocked is not None:
        return cast("OpenCall", after | {"result": tool_error(looked.blocked)})
    after["arguments"] = looked.arguments
    _gate(tool, after, tool.tool.read_offered(looked.arguments))
    return after


async def seen(seat: Seat, calls: Sequence[OpenCall]) -> list[OpenCall]:
    """The calls with their results as guardrails leave them, in call order."""
    return [await _seen(seat, call) for call in calls]


async def _seen(seat: Seat, call: OpenCall) -> OpenCall:
    if not call.get("unseen"):
        return call
    tool = seat.tool(call["tool"])
    with failing(seat.place.path, tool.secrets(call["arguments"])):
        result = await after_call(tool, call)
    return cast("OpenCall", _without(call, "unseen") | {"result": result})


def _without(call: OpenCall, flag: str) -> OpenCall:
    return cast("OpenCall", {key: each for key, each in call.items() if key != flag})


def proposed_calls(
    calls: Sequence[OpenCall], answered: Sequence[AnsweredCall]
) -> list[ProposedCall]:
    """The calls as the conversation keeps them: as the model wrote them."""
    return [
        ProposedCall(id=call["wire_id"], tool=each.tool, arguments=each.arguments)
        for call, each in zip(calls, answered, strict=True)
    ]


def asks(call: OpenCall) -> bool:
    """Whether the call waits for somebody."""
    return "result" not in call and (bool(call["asks"]) or open_question(call) is not None)


def first_asking(calls: Sequence[OpenCall]) -> OpenCall | None:
    """The call that is to be asked about next, if any."""
    return next((call for call in calls if asks(call)), None)


def to_run(calls: Sequence[OpenCall]) -> list[OpenCall]:
    """The calls that have no result yet."""
    return [call for call in calls if "result" not in call]


def with_outcomes(
    seat: Seat, calls: Sequence[OpenCall], outcomes: dict[str, CallOutcome]
) -> list[OpenCall]:
    """The calls with what became of those that were run."""
    return [_with_outcome(seat, call, outcomes.get(str(call["index"]))) for call in calls]


def _with_outcome(seat: Seat, call: OpenCall, outcome: CallOutcome | None) -> OpenCall:
    match outcome:
        case {"result": result}:
            return _came_back(seat.tool(call["tool"]), call, result)
        case {"question": question}:
            questions = [*call["questions"], question]
            return cast("OpenCall", call | {"questions": questions, "attempt": call["attempt"] + 1})
        case {"in_doubt": True}:
            return cast("OpenCall", call | {"asks": [PauseKind.UNKNOWN_OUTCOME.value]})
        case _:
            return call


def _came_back(tool: ServedTool, call: OpenCall, result: str) -> OpenCall:
    """The call with the result of what was done, which guardrails may want to see."""
    unseen = {"unseen": True} if tool.after else {}
    return cast("OpenCall", call | {"result": result} | unseen)


def results(seat: Seat, calls: Sequence[OpenCall]) -> Iterator[Message]:
    """One message for each call, in call order."""
    for call in calls:
        text = _noted(seat, call, call.get("result", ""))
        yield Message(role="tool", text=text, call_id=call["wire_id"])


def with_answer(seat: Seat, call: OpenCall, answer: Answer) -> OpenCall:
    """The call after the decision of its next question."""
    tool = seat.tool(call["tool"])
    if open_question(call) is not None:
        *before, last = call["questions"]
        questions = [*before, last | {"answer": answer.as_json()}]
        return cast("OpenCall", call | {"questions": questions})
    kind, *rest = call["asks"]
    after = cast("OpenCall", call | {"asks": rest})
    match PauseKind(kind), answer:
        case PauseKind.APPROVAL, Answer(approved=True):
            return _approved(after, answer)
        case PauseKind.APPROVAL, _:
            result = rejected(answer.by, answer.feedback)
        case PauseKind.INPUT, Answer(approved=True):
            filled = {"arguments": answer.arguments, "digest": answer.digest}
            return cast("OpenCall", after | filled)
        case PauseKind.UNKNOWN_OUTCOME, Answer(action="run_again"):
            return cast("OpenCall", after | {"attempt": call["attempt"] + 1})
        case PauseKind.UNKNOWN_OUTCOME, Answer(action="fail"):
            message = (
                f"{answer.by} gave up a call of {tool.name} of which nobody knows the outcome."
            )
            raise LineFailed("unknown_outcome", message, step=seat.place.path)
        case _, Answer(approved=True):
            result = result_text(tool, tool.tool.read_result(answer.value))
            return _came_back(tool, cast("OpenCall", after | {"asks": []}), result)
        case _:
            result = declined(answer.by, answer.feedback)
    return cast("OpenCall", after | {"asks": [], "result": result})


async def decided(seat: Seat, call: OpenCall, answer: Answer) -> OpenCall:
    """The call after the decision of its next question, and after what guardrails say about that."""
    is_approval = open_question(call) is None and call["asks"][0] == PauseKind.APPROVAL
    after = with_answer(seat, call, answer)
    if not (is_approval and seat.agent.on_decision):
        return after
    with failing(seat.place.path, seat.tool(call["tool"]).secrets(after["arguments"])):
        blocked = await after_decision(seat, after, answer)
    if blocked is None:
        return after
    return cast("OpenCall", after | {"asks": [], "result": tool_error(blocked)})


def approval_was_decided(before: Sequence[OpenCall], after: Sequence[OpenCall]) -> bool:
    """Whether somebody, or a channel, has allowed or refused one of the calls meanwhile."""
    approval = PauseKind.APPROVAL.value
    return any(
        approval in one["asks"] and approval not in other["asks"]
        for one, other in zip(before, after, strict=True)
    )


def _approved(call: OpenCall, answer: Answer) -> OpenCall:
    """The call as it was approved: from here on its digest is the one that the decision was about."""
    edit = (
        {} if answer.arguments is None else {"arguments": answer.arguments, "changed_by": answer.by}
    )
    return cast("OpenCall", call | edit | {"digest": answer.digest})


def check_digest(tool: ServedTool, call: OpenCall) -> None:
    """Raises `LineFailed` where a call that was asked about has other arguments than were approved."""
    if "digest" not in call:
        return
    found = digest_of(tool.name, call["arguments"], tool.schema, call.get("salt", ""))
    if found != call["digest"]:
        raise LineFailed(
            "digest_mismatch",
            f"The arguments of {tool.name} are not those that were approved. It was not called.",
            details={"call_id": call["id"]},
        )


def result_text(tool: ServedTool, result: Any, known: Iterable[str] = ()) -> str:
    """A result as the model reads it: a text as it is, anything else as JSON, sensitive values masked.

    `known` are sensitive values that the tool alone knows, and may have put into a text.
    """
    value = scrubbing.shown(tool.tool.dump_result(result), tool.result_schema, known)
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _noted(seat: Seat, call: OpenCall, result: str) -> str:
    """The result, followed by a remark that the arguments were changed, if they were."""
    if "changed_by" not in call:
        return result
    arguments = orjson.dumps(seat.tool(call["tool"]).shown(call["arguments"])).decode()
    return f"{result}\n\n[{call['changed_by']} changed the arguments of this call to {arguments}]"


async def decided_at_once(seat: Seat, calls: Sequence[OpenCall], drive: Drive) -> list[OpenCall]:
    """The calls after everything that automatic channels decide about them."""
    if not seat.decides_at_once:
        return list(calls)
    return [await _decided_at_once(seat, call, drive) for call in calls]


async def _decided_at_once(seat: Seat, call: OpenCall, drive: Drive) -> OpenCall:
    while asks(call):
        ask = ask_for(seat, call, drive.start.line)
        settled = await _settled_at_once(seat, ask, seat.tool(call["tool"]), drive)
        if settled is None:
            break
        drive.journal.settle(replace(ask, settled=settled))
        call = await decided(seat, call, settled.answer)
    return call


async def _settled_at_once(seat: Seat, ask: Ask, tool: ServedTool, drive: Drive) -> Settled | None:
    channel = seat.channels.get(ask.policy.channel)
    if channel is None:
        return None
    pause = OpenPause(kind=ask.kind, shown=ask.shown, secret=ask.secret, digest=ask.digest)
    try:
        decision = channel.decide(request_of(ask, seat, drive.start))
        if decision is None or not settles_alone(decision, ask.policy):
            return None
        return await settle(pause, decision, tool, Decider(by=channel.name, via="channel"))
    except Exception:  # noqa: BLE001 - a writer's channel can raise anything; then a person is asked
        _log.exception(
            "channel_could_not_decide", extra={"channel": channel.name, "place": ask.place}
        )
        return None
