"""Values by their JSON Schema: what is asked for, and how what is typed becomes a value.

A schema is read as far as a prompt needs it. The service checks the value as a whole.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson
from rich.text import Text

from app.cli.prompt import ask_for_value
from app.cli.screen import screen, shown, value_text

Schema = Mapping[str, Any]

_NO_SCHEMA: Final[Schema] = {}
_MASK: Final = "***"
_MOST_REFERENCES: Final = 20
_EMPTY_TEXT: Final = '""'
_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class _LeftOut:
    """Stands for a field that is not given."""


LEFT_OUT: Final = _LeftOut()


class Misfit(Exception):
    """What was typed cannot be the value; the message says what is expected."""


def ask_value(label: str, schema: Schema, root: Schema, *, current: Any = LEFT_OUT) -> Any:
    """Asks for a value, an object by its fields, until what is typed can be one.

    `current` is what stands there already: an empty line keeps it. Raises `Left` and `Declined`.
    """
    wanted = plain(schema, root)
    fields = wanted.get("properties")
    if wanted.get("type") != "object" or not fields:
        return _ask_one(label, wanted, root, current=current, is_needed=True)
    known = cast("Schema", current) if isinstance(current, Mapping) else _NO_SCHEMA
    needed = wanted.get("required", ())
    values = {
        name: _ask_field(name, field, root, known.get(name, LEFT_OUT), is_needed=name in needed)
        for name, field in fields.items()
    }
    return {name: value for name, value in values.items() if value is not LEFT_OUT}


def _ask_field(name: str, schema: Schema, root: Schema, current: Any, *, is_needed: bool) -> Any:
    wanted = plain(schema, root)
    if wanted.get("type") == "object" and wanted.get("properties") and is_needed:
        screen().print(shown(f"{name}:", "bold"))
        return ask_value(name, wanted, root, current=current)
    return _ask_one(name, wanted, root, current=current, is_needed=is_needed)


def _ask_one(label: str, wanted: Schema, root: Schema, *, current: Any, is_needed: bool) -> Any:
    usual = current if current is not LEFT_OUT else wanted.get("default", LEFT_OUT)
    prompt = f"{label}{_hint(wanted, root)}{_usual(usual, is_needed=is_needed)}:"
    _list(choices_of(wanted, root))
    while True:
        line = ask_for_value(prompt, is_hidden=bool(wanted.get("x-sensitive")))
        if not line and (usual is not LEFT_OUT or not is_needed):
            return usual if current is not LEFT_OUT else LEFT_OUT
        try:
            return parsed(line, wanted, root)
        except Misfit as misfit:
            complain(str(misfit))


def complain(message: str) -> None:
    """Says what is wrong with what was typed."""
    screen().print(Text("  ") + shown(message, "red"))


def _hint(wanted: Schema, root: Schema) -> str:
    if choices_of(wanted, root):
        return " (several, with commas)" if _takes_several(wanted) else ""
    said = wanted.get("description") or _expected(wanted)
    return f" ({said})" if said else ""


def _usual(value: Any, *, is_needed: bool) -> str:
    if value is LEFT_OUT:
        return "" if is_needed else " [none]"
    return f" [{value_text(value)}]"


def _list(choices: Sequence[Any]) -> None:
    for number, choice in enumerate(choices, 1):
        screen().print(Text(f"  {number}  ", "bold") + shown(value_text(choice)))


# ── From a line to a value ───────────────────────────────────────────────────────────────────────


def parsed(line: str, schema: Schema, root: Schema) -> Any:
    """The value that a line stands for. Raises `Misfit`."""
    wanted = plain(schema, root)
    if not line:
        raise Misfit(f"An answer is needed; {_EMPTY_TEXT} is the empty text.")
    if choices := choices_of(wanted, root):
        return _chosen(line, wanted, choices)
    match wanted.get("type", "string"):
        case "string":
            return "" if line == _EMPTY_TEXT else line
        case "boolean":
            return _yes_or_no(line)
        case "integer" | "number":
            return _number(line, whole=wanted["type"] == "integer")
        case "array" if not line.startswith("["):
            return [parsed(each, wanted.get("items", {}), root) for each in _parts(line)]
        case _:
            return _json(line)


def _chosen(line: str, wanted: Schema, choices: Sequence[Any]) -> Any:
    if wanted.get("type") != "array":
        return choice(line, choices)
    names = _parts(line) if _takes_several(wanted) else [line]
    return [choice(each, choices) for each in names]


def choice(line: str, choices: Sequence[Any]) -> Any:
    """The choice that is meant, by what it says or by its number. Raises `Misfit`."""
    for each in choices:
        if value_text(each).casefold() == line.casefold():
            return each
    if line.isascii() and line.isdigit() and 1 <= int(line) <= len(choices):
        return choices[int(line) - 1]
    offered = ", ".join(value_text(each) for each in choices)
    raise Misfit(f"Please choose from: {offered}; or by number, from 1 to {len(choices)}.")


def _yes_or_no(line: str) -> bool:
    if line.lower() not in _WORDS:
        raise Misfit("Please type yes or no.")
    return _WORDS[line.lower()]


def _number(line: str, *, whole: bool) -> Any:
    if not _NUMBER.fullmatch(line) or (whole and not line.lstrip("-").isdigit()):
        raise Misfit(f"Please type a {'whole ' if whole else ''}number.")
    return int(line) if line.lstrip("-").isdigit() else float(line)


def _json(line: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Misfit(f"Please type JSON: {error.msg}.") from None


def _parts(line: str) -> list[str]:
    return [each.strip() for each in line.split(",") if each.strip()]


# ── Schemas ──────────────────────────────────────────────────────────────────────────────────────


def plain(schema: Schema, root: Schema) -> Schema:
    """A schema without references, null, and the mask of a sensitive value. `{}` where it is mixed."""
    found = schema
    for _ in range(_MOST_REFERENCES):
        simpler = _simplified(found, root)
        if simpler is found:
            return found
        found = simpler
    return {}


def _simplified(schema: Schema, root: Schema) -> Schema:
    rest = {name: each for name, each in schema.items() if name not in ("$ref", "anyOf", "allOf")}
    if reference := schema.get("$ref"):
        return {**_referred(reference, root), **rest}
    if len(schema.get("allOf", ())) == 1:
        return {**schema["allOf"][0], **rest}
    if isinstance(schema.get("type"), list):
        types = [each for each in schema["type"] if each != "null"]
        return {**schema, "type": types[0] if len(types) == 1 else "mixed"}
    if offered := schema.get("anyOf"):
        return {**_alternative(offered), **rest}
    return schema


def _referred(reference: str, root: Schema) -> Schema:
    found: Any = root
    for token in reference.removeprefix("#").split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        found = cast("Schema", found).get(name) if isinstance(found, Mapping) else None
    return cast("Schema", found) if isinstance(found, Mapping) else _NO_SCHEMA


def _alternative(offered: Sequence[Schema]) -> Schema:
    """The one alternative that is left; a decimal, which may be a number or a text, is typed as text."""
    others = [each for each in offered if each.get("type") != "null" and each.get("const") != _MASK]
    if len(others) == 1:
        return others[0]
    if {each.get("type") for each in others} == {"number", "string"}:
        return {"type": "string", "description": "a number"}
    return {"type": "mixed"}


def choices_of(schema: Schema, root: Schema) -> Sequence[Any]:
    """The values that a schema lists, for itself or for its items."""
    if schema.get("type") == "array":
        return choices_of(plain(schema.get("items", {}), root), root)
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum", [])


def _takes_several(schema: Schema) -> bool:
    return schema.get("type") == "array" and schema.get("maxItems") != 1


def _expected(schema: Schema) -> str:
    match schema.get("type", "string"):
        case "string":
            return str(schema.get("format", ""))
        case "boolean":
            return "yes or no"
        case "integer":
            return "a whole number"
        case "number":
            return "a number"
        case "array":
            return "several, with commas, or JSON"
        case _:
            return "JSON"
