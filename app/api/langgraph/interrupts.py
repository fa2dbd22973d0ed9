"""An open pause as an interrupt: in the form of LangChain's middleware where a call or a step is agreed to.

That form is what approval pages for LangGraph render: `action_requests` with `review_configs`. Anything else is a
message with what may be chosen. The pause as it stands is beside it, under `signoff`.
"""

from typing import Any

from app.domain.json import Json
from app.domain.pause import PauseKind, PauseStatus
from app.lifecycle.read import View

APPROVE, EDIT, REJECT, RESPOND = "approve", "edit", "reject", "respond"


def interrupts_of(run: View) -> list[Json]:
    """What a run waits for."""
    return [interrupt_of(pause) for pause in open_pauses(run)]


def open_pauses(run: View) -> list[View]:
    return [pause for pause in run["pauses"] if pause["status"] == PauseStatus.OPEN]


def interrupt_of(pause: View) -> Json:
    """A pause as an interrupt: it is resumed by its id, with what `response_schema` says, or in LangChain's form."""
    return {
        "id": pause["id"],
        "value": {**_asked(pause), "signoff": pause},
        "response_schema": pause["response_schema"],
    }


def _asked(pause: View) -> dict[str, Any]:
    match PauseKind(pause["kind"]):
        case PauseKind.APPROVAL | PauseKind.EXTERNAL_RESULT:
            call = pause["call"]
            return _request(pause, call["tool"], call["arguments"])
        case PauseKind.CONFIRMATION:
            return _request(pause, pause["step"]["name"], {})
        case PauseKind.REVIEW:
            return _request(pause, pause["step"]["name"], {"output": pause["output"]})
        case _:
            return _question(pause)


def _request(pause: View, name: str, args: Json) -> dict[str, Any]:
    return {
        "action_requests": [{"name": name, "args": args, "description": pause["message"]}],
        "review_configs": [{"action_name": name, "allowed_decisions": _allowed(pause)}],
    }


def _allowed(pause: View) -> list[str]:
    approved: dict[str, Any] = pause["response_schema"].get("properties", {}).get("approved", {})
    verdicts: list[bool] = approved.get("enum", [True, False]) if approved else []
    says_yes = "verdict" in pause["allowed"] and True in verdicts
    edits = {"override_arguments", "override_output"} & set(pause["allowed"])
    return [
        *([APPROVE] if says_yes else []),
        *([EDIT] if edits else []),
        *([RESPOND] if "value" in pause["allowed"] else []),
        *([REJECT] if False in verdicts else []),
    ]


def _question(pause: View) -> dict[str, Any]:
    """What an existing graph asked by an object, as it asked it; else the message and what may be chosen."""
    if isinstance(pause["output"], dict) and pause["kind"] == PauseKind.INTERACTIVE:
        return {"message": pause["message"], **pause["output"]}
    offered = {name: pause[name] for name in ("options", "choices", "error") if pause[name]}
    return {"message": pause["message"], **offered}
