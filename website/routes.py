"""The reference of routes and of the shapes that they take and give, read from the OpenAPI document."""

from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

METHODS: Final = ("get", "post", "put", "patch", "delete")
BOUNDS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "from {}",
    "maximum": "up to {}",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "default": "default `{}`",
}


def routes(document: Json) -> str:
    """The page of routes, by what they are about."""
    parts = [
        "# Routes",
        "Made from the [OpenAPI document](../http.md), which a service also gives at `/openapi.json`. "
        "What they are for, and the rules that hold for all of them: [HTTP](../http.md).",
    ]
    heading = None
    for path, item in document["paths"].items():
        for method in (each for each in METHODS if each in item):
            operation = item[method]
            if operation["tags"][0] != heading:
                heading = operation["tags"][0]
                parts.append(f"## {heading.capitalize()}")
            parts += _route(f"{method.upper()} {path}", operation)
    return "\n\n".join(parts)


def shapes(document: Json) -> str:
    """The page of shapes, by name, and of the webhooks that carry them."""
    parts = ["# Shapes", "What [routes](routes.md) take and give, as the OpenAPI document says it."]
    for name, schema in document["components"]["schemas"].items():
        parts += _shape(name, schema)
    return "\n\n".join(parts)


def _route(heading: str, operation: Json) -> Iterator[str]:
    yield f"### {heading}"
    yield operation["description"]
    if scopes := [
        scope for each in operation.get("security", ()) for scope in each.get("bearer", ())
    ]:
        yield f"Scope: {', '.join(f'`{each}`' for each in scopes)}"
    if given := operation.get("parameters"):
        rows = [_row(each["name"], each["in"], _kind(each["schema"]), each) for each in given]
        yield _table(("", "in", "", ""), rows)
    if "requestBody" in operation:
        yield f"Body: {_body(operation['requestBody'])}"
    answers = [
        f"| {status} | {_body(each)} | {_line(each['description'])} |"
        for status, each in operation["responses"].items()
    ]
    yield _table(("status", "", ""), answers)


def _shape(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}"
    if "description" in schema:
        yield schema["description"]
    if "properties" not in schema:
        yield _kind(schema)
        return
    required = schema.get("required", ())
    rows = [
        _row(member, "yes" if member in required else "", _kind(each), each)
        for member, each in schema["properties"].items()
    ]
    yield _table(("", "required", "", ""), rows)


def _row(name: str, second: str, kind: str, described: Json) -> str:
    return f"| `{name}` | {second} | {kind} | {_line(described.get('description', ''))} |"


def _table(heading: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *rows])


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _body(holder: Json) -> str:
    """What a request or an answer carries."""
    return ", ".join(
        _kind(each["schema"]) if each.get("schema") else f"`{media}`"
        for media, each in holder.get("content", {}).items()
    )


def _kind(schema: Json) -> str:
    """What fits a schema, in a few words."""
    match schema:
        case {"$ref": str(target)}:
            name = target.rpartition("/")[2]
            return f"[{name}](shapes.md#{name.lower()})"
        case {"anyOf": [*some]} | {"oneOf": [*some]}:
            return " or ".join(_kind(each) for each in some)
        case {"contentSchema": told}:
            return f"stream of {_kind(told)}"
        case {"const": value}:
            return f"`{value}`"
        case {"enum": [*values]}:
            return ", ".join(f"`{each}`" for each in values)
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}{_bounds(schema)}" if items else "list"
        case {"type": kind}:
            return str(schema.get("format", kind)) + _bounds(schema)
        case _:
            return "any JSON"


def _bounds(schema: Json) -> str:
    said = [words.format(schema[name]) for name, words in BOUNDS.items() if name in schema]
    return f" ({', '.join(said)})" if said else ""
