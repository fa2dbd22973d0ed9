"""What a person, a bot or a policy answers to a pause: one of four shapes, whatever the pause is about."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, cast

from app.domain.json import Json, pointer_token
from app.domain.pause import PauseKind
from app.errors import FieldError, Invalid


class Unchanged(Enum):
    """Stands where nothing is put in the place of an output: null may be an output of its own."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Yes or no, with the arguments or the output put in the place of what was shown, if any."""

    approved: bool
    override_arguments: Json = None
    override_output: Json | Unchanged = UNCHANGED
    feedback: str | None = None

    @property
    def changes(self) -> str | None:
        """The field by which it changes what was shown, if it does."""
        if self.override_arguments is not None:
            return "override_arguments"
        return None if isinstance(self.override_output, Unchanged) else "override_output"


@dataclass(frozen=True, kw_only=True)
class Value:
    """An answer: any JSON that the pause allows, null and false among it."""

    value: Json
    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Decline:
    """No answer will be given."""

    feedback: str | None = None


@dataclass(frozen=True, kw_only=True)
class Action:
    """What to do next, by name, and with which value where the action takes one."""

    action: str
    value: Json = None
    feedback: str | None = None


Decision: TypeAlias = Verdict | Value | Decline | Action

MAX_BY = 200
MAX_FEEDBACK = 2_000


def one_line(text: str, limit: int) -> str:
    """`text` without control characters, newlines as spaces, at most `limit` characters.

    Names and feedback reach a model's prompt, so they cannot be allowed to look like more than a line of it.
    """
    spaced = "".join(" " if letter in "\r\n\t\v\f\x85\u2028\u2029" else letter for letter in text)
    return "".join(letter for letter in spaced if _is_printed(letter))[:limit].strip()


def _is_printed(letter: str) -> bool:
    return letter == " " or (letter.isprintable() and not "\ud800" <= letter <= "\udfff")


class InvalidDecision(Invalid):
    """A decision that its pause cannot take; the pause stays open."""

    code = "invalid_decision"


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A decision as it was sent, with the name it gives for who decides."""

    decision: Decision
    by: str | None


def parse(kind: PauseKind, raw: Json) -> Parsed:
    """Reads the JSON of a decision about a pause of `kind`.

    Nothing is coerced: `approved` is true or false and nothing else, and an unknown field is an error.
    Raises `InvalidDecision`, with a JSON pointer for each wrong field.
    """
    if not isinstance(raw, dict):
        raise _wrong(("", "an object is expected"))
    body = cast("dict[str, Json]", raw)
    allowed = {"by", "feedback"} | _FIELDS[kind]
    wrong = [(f"/{pointer_token(name)}", "unknown field") for name in body if name not in allowed]
    wrong += [
        (f"/{name}", "a string is expected")
        for name in ("by", "feedback")
        if not isinstance(body.get(name), str | None)
    ]
    if wrong:
        raise _wrong(*wrong)
    by, feedback = (one_line(body.get(name) or "", limit) for name, limit in _TEXTS)
    return Parsed(decision=_SHAPES[kind](body, feedback or None), by=by or None)


def _verdict(body: dict[str, Json], feedback: str | None) -> Decision:
    approved = _approved(body)
    overrides = [name for name in ("override_arguments", "override_output") if name in body]
    if not approved and overrides:
        raise _wrong((f"/{overrides[0]}", "only an approval can override"))
    if "override_arguments" in body and not isinstance(body["override_arguments"], dict):
        raise _wrong(("/override_arguments", "an object is expected"))
    return Verdict(
        approved=approved,
        override_arguments=body.get("override_arguments"),
        override_output=body.get("override_output", UNCHANGED),
        feedback=feedback,
    )


def _value(body: dict[str, Json], feedback: str | None) -> Decision:
    if "value" in body:
        if body.get("approved", True) is not True:
            raise _wrong(("/approved", "a value is an approval: leave one of them out"))
        return Value(value=body["value"], feedback=feedback)
    if _approved(body):
        raise _wrong(("/value", "a value is needed"))
    return Decline(feedback=feedback)


def _action(body: dict[str, Json], feedback: str | None) -> Decision:
    action = body.get("action")
    if not isinstance(action, str):
        raise _wrong(("/action", "the name of an action is needed"))
    return Action(action=action, value=body.get("value"), feedback=feedback)


def _approved(body: dict[str, Json]) -> bool:
    approved = body.get("approved")
    if approved is True or approved is False:
        return approved
    raise _wrong(("/approved", "true or false is needed"))


_TEXTS = (("by", MAX_BY), ("feedback", MAX_FEEDBACK))
_FIELDS: Final = {
    PauseKind.APPROVAL: {"approved", "override_arguments"},
    PauseKind.CONFIRMATION: {"approved"},
    PauseKind.REVIEW: {"approved", "override_output"},
    PauseKind.INTERACTIVE: {"approved", "value"},
    PauseKind.INPUT: {"approved", "value"},
    PauseKind.EXTERNAL_RESULT: {"approved", "value"},
    PauseKind.ROUTE: {"approved", "value"},
    PauseKind.ERROR: {"action", "value"},
    PauseKind.UNKNOWN_OUTCOME: {"action", "value"},
}
_SHAPES: Final[dict[PauseKind, Callable[[dict[str, Json], str | None], Decision]]] = {
    PauseKind.APPROVAL: _verdict,
    PauseKind.CONFIRMATION: _verdict,
    PauseKind.REVIEW: _verdict,
    PauseKind.INTERACTIVE: _value,
    PauseKind.INPUT: _value,
    PauseKind.EXTERNAL_RESULT: _value,
    PauseKind.ROUTE: _value,
    PauseKind.ERROR: _action,
    PauseKind.UNKNOWN_OUTCOME: _action,
}


def _wrong(*fields: tuple[str, str]) -> InvalidDecision:
    return InvalidDecision(
        "The decision cannot be taken: "
        + "; ".join(f"{pointer or 'decision'}: {message}" for pointer, message in fields),
        fields=[FieldError(pointer=pointer, message=message) for pointer, message in fields],
    )
