"""Runs a writer's guardrails: over calls, decisions, results, answers, and a workflow's own ends."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, TypeAdapter

from app.authoring import Block, CallDecision, Replace, Retry, ToolCall
from app.authoring.function import call as call_function
from app.authoring.function import name_of
from app.authoring.shape import dump, load
from app.domain.decision import InvalidDecision
from app.domain.json import Json
from app.domain.masking import scrub
from app.domain.pause import Answer
from app.engine.drive import LineFailed
from app.engine.faults import printable, reason_of
from app.engine.served import Seat, ServedTool
from app.engine.state import OpenCall
from app.errors import FieldError

log = logging.getLogger(__name__)

Read = Callable[[Json], BaseModel]


class GuardrailBlocked(InvalidDecision):
    """A decision that would have a call run which a guardrail does not let through."""

    code = "guardrail_blocked"


class GuardrailFailed(Exception):
    """A guardrail raised, or gave what it may not."""

    def __init__(self, guardrail: Callable[..., Any], why: str) -> None:
        super().__init__(f"The guardrail {name_of(guardrail)} failed: {why}")


class ValueBlocked(Exception):
    """A guardrail does not let a value through; says which, and why."""


@contextmanager
def failing(step: str | None, secrets: frozenset[str] = frozenset()) -> Generator[None]:
    """Fails the line where a guardrail failed, or blocked what cannot be left out."""
    try:
        yield
    except GuardrailFailed as error:
        raise LineFailed("guardrail_failed", scrub(str(error), secrets), step=step) from error
    except ValueBlocked as error:
        raise LineFailed("guardrail_blocked", scrub(str(error), secrets), step=step) from error


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a call goes on with after its guardrails: other arguments, or the reason why it does not."""

    arguments: Json
    blocked: str | None = None


async def before_call(tool: ServedTool, call: OpenCall) -> Looked:
    """A call as the model proposed it, after its tool's guardrails and its agent's; raises `GuardrailFailed`."""
    seen = partial(ToolCall, tool=tool.name, provider_id=call["provider_id"] or "")
    return await _before(tool, call["arguments"], seen, read=tool.read_closed)


async def check_decided(tool: ServedTool, arguments: Json, pointer: str, *, read: Read) -> Json:
    """Arguments that a person gave, as they go on; raises `GuardrailBlocked`, which leaves the pause open."""
    try:
        looked = await _before(tool, arguments, partial(ToolCall, tool=tool.name), read=read)
        reason = looked.blocked
    except GuardrailFailed as error:
        log.warning("guardrail failed at a decision", extra={"tool": tool.name}, exc_info=True)
        looked, reason = None, scrub(str(error), tool.secrets(arguments))
    if looked is not None and reason is None:
        return looked.arguments
    raise GuardrailBlocked(
        "The decision cannot be taken, and the pause is still open.",
        fields=[FieldError(pointer=pointer, message=reason or "")],
    )


async def _before(
    tool: ServedTool, arguments: Json, seen: Callable[..., ToolCall], *, read: Read
) -> Looked:
    for guardrail in tool.before:
        match await _said(guardrail, Block, Replace, seen=(seen(arguments=deepcopy(arguments)),)):
            case Block() as block:
                secrets = tool.secrets(arguments)
                return Looked(arguments=arguments, blocked=blocked_by(guardrail, block, secrets))
            case Replace(value=value):
                arguments = _replaced(guardrail, tool, value, read)
            case _:
                pass
    return Looked(arguments=arguments)


def _replaced(guardrail: Callable[..., Any], tool: ServedTool, value: Json, read: Read) -> Json:
    try:
        return tool.written_out(value, read(value))
    except Exception as error:
        why = reason_of(error, tool.secrets(value))
        raise GuardrailFailed(guardrail, f"its arguments do not fit {tool.name}: {why}") from error


async def after_decision(seat: Seat, call: OpenCall, answer: Answer) -> str | None:
    """Why a call does not go on although it was approved, if so; raises `GuardrailFailed`."""
    tool = seat.tool(call["tool"])
    decision = CallDecision(
        approved=answer.approved,
        by=answer.by,
        via=answer.via,
        feedback=answer.feedback,
        changed=answer.arguments is not None,
    )
    for guardrail in seat.agent.on_decision:
        said = await _said(guardrail, Block, seen=(_seen(call), decision))
        if isinstance(said, Block) and answer.approved:
            return blocked_by(guardrail, said, tool.secrets(call["arguments"]))
    return None


async def after_call(tool: ServedTool, call: OpenCall) -> str:
    """The result of a call as its model reads it; raises `GuardrailFailed`."""
    result = call.get("result", "")
    for guardrail in tool.after:
        match await _said(guardrail, Replace, seen=(_seen(call), result)):
            case Replace(value=text):
                result = _dumped(guardrail, _TEXT, text)
            case _:
                pass
    return result


_TEXT = TypeAdapter(str, config={"strict": True})


def _seen(call: OpenCall) -> ToolCall:
    return ToolCall(
        tool=call["tool"],
        arguments=deepcopy(call["arguments"]),
        provider_id=call["provider_id"] or "",
    )


async def checked_value(
    guardrails: Sequence[Callable[..., Any]], value: Json, adapter: TypeAdapter[Any]
) -> Json:
    """A value as it goes on; raises `GuardrailFailed`, and `ValueBlocked` where it does not."""
    for guardrail in guardrails:
        match await _said(guardrail, Block, Replace, seen=(load(adapter, value),)):
            case Block() as block:
                raise ValueBlocked(blocked_by(guardrail, block, frozenset()))
            case Replace(value=other):
                value = _dumped(guardrail, adapter, other)
            case _:
                pass
    return value


def _dumped(guardrail: Callable[..., Any], adapter: TypeAdapter[Any], value: Any) -> Json:
    try:
        return dump(adapter, adapter.validate_python(value))
    except Exception as error:
        why = f"what it puts in the value's place does not fit: {reason_of(error)}"
        raise GuardrailFailed(guardrail, why) from error


async def judged(judge: Callable[..., Any], said: Any) -> Retry | None:
    """What a judge that is a function says; raises `GuardrailFailed`."""
    return await _said(judge, Retry, seen=(said,))


async def _said(guardrail: Callable[..., Any], *may: type[Any], seen: Sequence[Any]) -> Any:
    try:
        said = await call_function(guardrail, *seen)
    except Exception as error:
        raise GuardrailFailed(guardrail, reason_of(error)) from error
    if said is None or isinstance(said, may):
        return said
    allowed = ", ".join(each.__name__ for each in may)
    raise GuardrailFailed(guardrail, f"it returned {type(said).__name__}, not {allowed} or None")


def blocked_by(guardrail: Callable[..., Any], block: Block, secrets: frozenset[str]) -> str:
    """Who blocked something and why."""
    return f"blocked by {name_of(guardrail)}: {printable(scrub(str(block.reason), secrets))}"
