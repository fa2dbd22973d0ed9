"""What is wrong with a tool, taken by itself."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from app.authoring.asks import Approval, External, Fill
from app.authoring.function import UnreadableSignature
from app.authoring.guardrails import wrong_guardrails
from app.authoring.mistakes import (
    as_list,
    public_name,
    repeated,
    wrong_choice,
    wrong_count,
    wrong_duration,
)
from app.authoring.terms import wrong_channel
from app.authoring.tool import OnCrash, Tool


def wrong_tool(tool: Tool[..., Any]) -> Iterator[str]:
    """What is wrong with it, taken by itself."""
    wrong = public_name(tool.name)
    if wrong:
        yield wrong
    yield from _wrong_signature(tool)
    yield from wrong_channel("channel", tool.channel)
    if tool.approval is not None:
        yield from _wrong_approval(tool, tool.approval)
    if tool.external:
        yield from _wrong_external(tool)
    yield from _wrong_fill(tool)
    yield from _wrong_running(tool)


def _wrong_signature(tool: Tool[..., Any]) -> Iterator[str]:
    try:
        _ = tool.signature
    except UnreadableSignature as error:
        yield from error.reasons


def _wrong_approval(tool: Tool[..., Any], approval: object) -> Iterator[str]:
    if not isinstance(approval, Approval):
        yield "approval= must be an Approval(...)"
        return
    yield from (f"approval: {wrong}" for wrong in approval.mistakes())
    if tool.channel is None and approval.channel is None:
        yield "approval= could never fire without channel="
    if callable(approval.when):
        yield from _wrong_when(tool, approval.when)


def _wrong_when(tool: Tool[..., Any], when: Callable[..., object]) -> Iterator[str]:
    try:
        signature, taken = tool.signature, inspect.signature(when)
    except (UnreadableSignature, TypeError, ValueError):
        return
    try:
        if signature.single is not None:
            taken.bind(signature.single)
        else:
            taken.bind(**dict.fromkeys(tool.offered_names))
    except TypeError as error:
        yield f"approval: when= does not take the tool's arguments: {error}"


def _asks_somebody(tool: Tool[..., Any], ask: object) -> bool:
    own = ask.channel if isinstance(ask, External | Fill) else None
    return tool.channel is not None or own is not None


def _wrong_external(tool: Tool[..., Any]) -> Iterator[str]:
    ask: object = tool.external
    if isinstance(ask, External):
        yield from (f"external: {wrong}" for wrong in ask.mistakes())
    elif ask is not True:
        yield f"external= must be True or External(…), not {ask!r}"
    if not _asks_somebody(tool, ask):
        yield "external=True could never be asked without channel="
    idle = {
        "timeout": tool.timeout is not None,
        "retries": tool.retries != 0,
        "on_crash": tool.on_crash != "run_again",
    }
    for name in (name for name, is_set in idle.items() if is_set):
        yield f"{name}= could never matter with external=True: the function is not run"


def _wrong_fill(tool: Tool[..., Any]) -> Iterator[str]:
    ask = tool.fill
    listed = as_list(ask.names if isinstance(ask, Fill) else ask)
    if isinstance(ask, Fill):
        yield from (f"fill: {wrong}" for wrong in ask.mistakes())
    elif listed is None:
        yield "fill= must be a list of parameters, or Fill(…)"
    if not listed:
        return
    if tool.external:
        yield "fill= could never be asked with external=True: whoever does the call has them"
    elif not _asks_somebody(tool, ask):
        yield "fill= could never be asked without channel="
    yield from (f"fill= names {name!r} twice" for name in repeated(listed))
    yield from _wrong_filled(tool, listed)


def _wrong_filled(tool: Tool[..., Any], listed: Sequence[object]) -> Iterator[str]:
    try:
        known = list(tool.signature.parameters.model_fields)
    except UnreadableSignature:
        return
    for name in listed:
        if name not in known:
            yield f"fill= names {name!r}, which is not a parameter"


def _wrong_running(tool: Tool[..., Any]) -> Iterator[str]:
    yield from wrong_duration("timeout", tool.timeout)
    yield from wrong_count("retries", tool.retries)
    yield from wrong_guardrails("before_call", tool.before_call, "the call")
    yield from wrong_guardrails("after_call", tool.after_call, "the call", "its result")
    yield from wrong_choice("on_crash", tool.on_crash, get_args(OnCrash))
    if tool.on_crash == "ask" and not any(tool.channels()):
        yield "on_crash='ask' could never ask anybody without channel="
