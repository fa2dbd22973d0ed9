"""What resumes an interrupt, as a decision: in the service's own form, in LangChain's, or a plain value.

{"approved": true, "by": "ann"}                          as it is
{"decisions": [{"type": "edit", "edited_action": …}]}    for what is agreed to, or done by somebody else
"blue"                                                   for what is answered with a value
"""

from typing import Any, Final, cast

from app.api.langgraph.interrupts import APPROVE, EDIT, REJECT, RESPOND
from app.domain.decision import InvalidDecision
from app.domain.json import Json
from app.domain.pause import PauseKind
from app.errors import FieldError

_AGREED: Final = frozenset({PauseKind.APPROVAL, PauseKind.CONFIRMATION, PauseKind.REVIEW})
_IN_LANGCHAINS_FORM: Final = _AGREED | {PauseKind.EXTERNAL_RESULT}
_ACTIONS: Final = frozenset({PauseKind.ERROR, PauseKind.UNKNOWN_OUTCOME})
_ANSWERS: Final = frozenset({"approved", "value"})
_OWN: Final = _ANSWERS | {"by", "feedback"}
_MEMBERS: Final = {
    APPROVE: {"type"},
    EDIT: {"type", "edited_action"},
    REJECT: {"type", "message"},
    RESPOND: {"type", "message"},
}


def decision_of(kind: PauseKind, shown: dict[str, Any], sent: Json) -> Json:
    """The decision about a pause that an answer to its interrupt is. Raises `InvalidDecision`.

    What cannot be understood here is left to whoever takes decisions, and refused there.
    """
    if kind in _IN_LANGCHAINS_FORM and (said := _said(sent)) is not None:
        return _decided(kind, shown, said)
    if kind in _AGREED | _ACTIONS or _is_own(sent):
        return sent
    return {"value": sent}


def _is_own(sent: Json) -> bool:
    if not isinstance(sent, dict):
        return False
    names = {str(name) for name in cast("dict[str, Json]", sent)}
    return names <= _OWN and bool(names & _ANSWERS)


def _said(sent: Json) -> dict[str, Json] | None:
    """The one decision in LangChain's form, if that is what was sent."""
    match sent:
        case {"type": str(type_)} if type_ in _MEMBERS:
            return cast("dict[str, Json]", sent)
        case {"decisions": [{"type": str(type_)}]} if type_ in _MEMBERS:
            return sent["decisions"][0]
        case {"decisions": _}:
            known = ", ".join(_MEMBERS)
            raise _wrong("/decisions", f"one decision is expected, of a type among {known}")
        case _:
            return None


def _decided(kind: PauseKind, shown: dict[str, Any], said: dict[str, Json]) -> Json:
    type_ = str(said["type"])
    if unknown := said.keys() - _MEMBERS[type_]:
        raise _wrong("/decisions/0", f"unknown fields: {', '.join(sorted(unknown))}"[:200])
    match type_:
        case "approve" if kind in _AGREED:
            return {"approved": True}
        case "edit" if kind in (PauseKind.APPROVAL, PauseKind.REVIEW):
            return {"approved": True, **_edited(kind, shown, said.get("edited_action"))}
        case "reject":
            return {"approved": False, "feedback": said.get("message")}
        case "respond" if kind is PauseKind.EXTERNAL_RESULT:
            return {"value": said.get("message")}
        case _:
            raise _wrong("/decisions/0/type", f"{type_} does not decide this interrupt")


def _edited(kind: PauseKind, shown: dict[str, Any], action: Json) -> dict[str, Json]:
    name = shown["call"]["tool"] if kind is PauseKind.APPROVAL else shown["step"]["name"]
    match action:
        case {"name": str(named), "args": dict()} if named == name:
            args = cast("dict[str, Json]", action["args"])
        case _:
            expected = f"the name {name} and args are expected"
            raise _wrong("/decisions/0/edited_action", expected)
    if kind is PauseKind.APPROVAL:
        return {"override_arguments": args}
    if args.keys() != {"output"}:
        raise _wrong("/decisions/0/edited_action/args", "output alone is expected")
    return {"override_output": args["output"]}


def _wrong(pointer: str, message: str) -> InvalidDecision:
    return InvalidDecision(
        f"The answer cannot be taken: {message}.",
        fields=[FieldError(pointer=pointer, message=message)],
    )
