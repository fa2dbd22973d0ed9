"""How a pause is decided by the options of `signoff decide`: which of them fit it, and what they take."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.client import Problem
from app.cli.fields import choices_of, plain
from app.cli.screen import shown, value_text

Json = dict[str, Any]
Schema = Mapping[str, Any]

_OF_FIELDS: Final = {
    "approved": "--approve or --reject",
    "override_arguments": "--arguments",
    "override_output": "--output",
    "action": "--action",
    "feedback": "--feedback",
    "by": "--by",
}
_UNKNOWN: Final = "unknown field"


def how_to_decide(pause: Json) -> RenderableType:
    """The commands that decide an open pause, and the fields of what they take."""
    if not pause["you_may_decide"]:
        return Text("You may not decide it.")
    commands = [Text(f"  signoff decide {pause['id']} {way}") for way in ways(pause)]
    return Group(Text("Decide it with:", "dim"), *commands, *_forms(pause))


def ways(pause: Json) -> Iterator[str]:
    """The options that fit a pause, alternatives each."""
    allowed = pause["allowed"]
    if "action" in allowed:
        yield f"--action {'|'.join(_properties(pause)['action']['enum'])}"
        return
    if "verdict" in allowed:
        yield "--approve"
        yield from (
            f"--approve {_OF_FIELDS[each]} JSON" for each in allowed if each.startswith("override_")
        )
    if "value" in allowed:
        option = value_option(pause)
        yield f"{option} {_TAKEN[option]}"
    if "verdict" in allowed or "decline" in allowed:
        yield "--reject"


def value_option(pause: Json) -> str:
    """The option by which the answer to a pause is given."""
    wanted = _answer(pause)
    choices = choices_of(wanted, pause["response_schema"])
    if choices and all(isinstance(each, str) for each in choices):
        return "--choose"
    return "--text" if wanted.get("type") == "string" else "--value"


def chosen(names: list[str], pause: Json) -> list[str] | str:
    """The answer that names what is chosen: a list where the pause takes one, else the only name."""
    return names if len(names) > 1 or _answer(pause).get("type") == "array" else names[0]


def nothing_to_choose(pause: Json) -> str:
    """Why `--choose` cannot decide a pause."""
    takes = " or ".join(ways(pause))
    return (
        f"There is nothing to choose: the pause is of the kind {pause['kind']} and takes {takes}."
    )


def _answer(pause: Json) -> Schema:
    return plain(_properties(pause).get("value", {}), pause["response_schema"])


_TAKEN: Final = {"--choose": "NAME", "--text": "TEXT", "--value": "JSON"}


def refused(problem: Problem, pause: Json, *, answered_by: str | None) -> str:
    """Why the service does not take a decision, in the words of the command line."""
    option = answered_by or value_option(pause)
    wrong = [
        _by_option(each["pointer"].removeprefix("/decision/"), each["message"], option)
        for each in problem.errors
        if each["pointer"].startswith("/decision/")
    ]
    said = f"The decision does not fit: {'; '.join(wrong)}." if wrong else str(problem)
    return f"{said} The pause is of the kind {pause['kind']} and takes {' or '.join(ways(pause))}."


def _by_option(pointer: str, message: str, option: str) -> str:
    field, _, inner = pointer.partition("/")
    name = _OF_FIELDS.get(field, option)
    where = f"{name} /{inner}" if inner else name
    return f"{where} does not go with it" if message == _UNKNOWN else f"{where}: {message}"


# ── What an option takes ─────────────────────────────────────────────────────────────────────────


def _forms(pause: Json) -> Iterator[RenderableType]:
    option = value_option(pause)
    for name, schema in _properties(pause).items():
        wanted = plain(schema, pause["response_schema"])
        if fields := wanted.get("properties"):
            yield Text(f"In {_OF_FIELDS.get(name, option)}:", "dim")
            yield _fields(fields, wanted.get("required", ()), pause["response_schema"])


def _fields(fields: Schema, required: Sequence[str], root: Schema) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for name, schema in fields.items():
        wanted = plain(schema, root)
        table.add_row(
            shown(name, "bold"),
            shown(_expected(wanted, root)),
            shown("required" if name in required else _without(wanted), "dim"),
            shown(wanted.get("description", ""), "dim"),
        )
    return table


def _expected(wanted: Schema, root: Schema) -> str:
    if choices := choices_of(wanted, root):
        return "|".join(value_text(each) for each in choices)
    kind = str(wanted.get("format") or wanted.get("type", "any"))
    return f"{kind}, secret" if wanted.get("x-sensitive") else kind


def _without(wanted: Schema) -> str:
    return f"else {value_text(wanted['default'])}" if "default" in wanted else "may be left out"


def _properties(pause: Json) -> Json:
    found: Json = pause["response_schema"].get("properties", {})
    return found
