"""Asks a pause in the terminal, whatever kind it is, and makes a decision of what is typed."""

from typing import Any

from rich.text import Text

from app.cli import fields
from app.cli.prompt import DECLINE, Declined, ask
from app.cli.screen import screen, shown

Json = dict[str, Any]

DECLINED = "declined in the terminal"
"""What a rejection says for which no reason was given."""

_ACTIONS = {
    "retry": "run the step again",
    "skip": "go on without the step",
    "fail": "let the run fail",
    "run_again": "call it again",
    "use_value": "give its outcome",
}


def ask_decision(pause: Json) -> Json:
    """The decision of an open pause, without who decides. Raises `Left`; then nothing is decided."""
    if "verdict" in pause["allowed"]:
        return _verdict(pause)
    if "action" in pause["allowed"]:
        return _action(pause)
    return _answer(pause)


def declined(pause: Json, reason: str | None) -> Json:
    """No. What is said of an output is for the next attempt at it, so nothing is made up there."""
    said = reason or (None if pause["kind"] == "review" else DECLINED)
    return {"approved": False, **({"feedback": said} if said else {})}


# ── Yes or no ────────────────────────────────────────────────────────────────────────────────────


def _verdict(pause: Json) -> Json:
    change = next((each for each in pause["allowed"] if each.startswith("override_")), None)
    changes: Json = {}
    while True:
        word, _, rest = ask(_verdict_prompt(change, is_changed=bool(changes))).partition(" ")
        match word.lower():
            case "y" | "yes" if not rest:
                return {"approved": True, **changes}
            case "n" | "no" | "/decline":
                return declined(pause, rest.strip() or None)
            case "e" | "edit" if change and not rest:
                changes = _changed(pause, change) or changes
            case _:
                edit = ", or e to change it" if change else ""
                fields.complain(f"Please type y or n{edit}; a reason may follow n.")


def _verdict_prompt(change: str | None, *, is_changed: bool) -> str:
    edit = "" if change is None else ", [e]dit first"
    what = "Approve with these changes?" if is_changed else "Approve?"
    return f"{what} [y]es, [n]o (and why){edit}:"


def _changed(pause: Json, change: str) -> Json | None:
    root = pause["response_schema"]
    current = pause["output"] if change == "override_output" else pause["call"]["arguments"]
    try:
        value = fields.ask_value("new", root["properties"][change], root, current=current)
    except Declined:
        return None
    return {change: value}


# ── A value ──────────────────────────────────────────────────────────────────────────────────────


def _answer(pause: Json) -> Json:
    root = pause["response_schema"]
    screen().print(Text(f"({DECLINE}, and why, to give no answer)", "dim"))
    try:
        return {"value": fields.ask_value(_label(pause), root["properties"]["value"], root)}
    except Declined as no:
        return declined(pause, no.reason)


def _label(pause: Json) -> str:
    match pause["kind"]:
        case "route":
            return "Which way"
        case "external_result":
            return "What came of it"
        case _:
            return "Answer"


# ── What now? ────────────────────────────────────────────────────────────────────────────────────


def _action(pause: Json) -> Json:
    root = pause["response_schema"]
    actions = root["properties"]["action"]["enum"]
    for number, action in enumerate(actions, 1):
        line = Text(f"  {number}  {action}", "bold")
        screen().print(line, shown(_ACTIONS.get(action, ""), "dim"))
    while True:
        try:
            action = fields.choice(ask("What now:"), actions)
            if action != "use_value":
                return {"action": action}
            value = fields.ask_value("Its outcome", root["properties"]["value"], root)
            return {"action": action, "value": value}
        except fields.Misfit as misfit:
            fields.complain(str(misfit))
        except Declined:
            continue
