"""Decisions as the service takes them: for `decide`, and for the answer to a webhook, `{"decision": …}`."""

from typing import Any, Final, Literal, TypeAlias

from signoff_client.models import Json, Pause

Decision: TypeAlias = dict[str, Any]

Action: TypeAlias = Literal["retry", "skip", "fail", "run_again", "use_value"]

_OVERRIDES: Final = {"approval": "override_arguments", "review": "override_output"}


def approval(*, feedback: str | None = None) -> Decision:
    """Yes: to an `approval`, a `confirmation` or a `review`."""
    return _with({"approved": True}, feedback)


def rejection(*, feedback: str | None = None) -> Decision:
    """No: to one of these, or to answering at all where a value is asked for. A model reads the feedback."""
    return _with({"approved": False}, feedback)


def edit(pause: Pause, changed: Json, *, feedback: str | None = None) -> Decision:
    """Yes, with this in the place of what is shown: all arguments of an `approval`, the output of a `review`.

    Raises:
        ValueError: The pause is of a kind that shows nothing to be changed.
    """
    if pause.kind not in _OVERRIDES:
        raise ValueError(f"Nothing of a pause of the kind {pause.kind!r} can be edited.")
    return _with({"approved": True, _OVERRIDES[pause.kind]: changed}, feedback)


def answer(value: Json, *, feedback: str | None = None) -> Decision:
    """What was asked for: by an `interactive`, an `input`, an `external_result` or a `route`."""
    return _with({"value": value}, feedback)


def action(name: Action, *, feedback: str | None = None) -> Decision:
    """What to do next: after an `error` or for an `unknown_outcome`."""
    return _with({"action": name}, feedback)


def outcome(value: Json, *, feedback: str | None = None) -> Decision:
    """What came of the call, for an `unknown_outcome`."""
    return _with({"action": "use_value", "value": value}, feedback)


def _with(decision: Decision, feedback: str | None) -> Decision:
    return decision if feedback is None else {**decision, "feedback": feedback}
