"""What may be answered to a pause: the JSON Schema of its decision, for each shape."""

from collections.abc import Sequence
from typing import Any

from app.domain.decision import MAX_BY, MAX_FEEDBACK

Schema = dict[str, Any]

_WHO: Schema = {
    "by": {"type": "string", "minLength": 1, "maxLength": MAX_BY},
    "feedback": {"type": ["string", "null"], "maxLength": MAX_FEEDBACK},
}


def verdict_schema(**overrides: Schema) -> Schema:
    """A yes or a no, where a yes may bring an override: `override_arguments=`, `override_output=`."""
    split = {name: _hoisted(schema) for name, schema in overrides.items()}
    properties: Schema = {name: inner for name, (inner, _) in split.items()}
    shape: Schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, **properties, **_WHO},
        "required": ["approved"],
        "additionalProperties": False,
    }
    if not overrides:
        return shape
    refusal: Schema = {"properties": {"approved": {"const": False}}, "required": ["approved"]}
    none: Schema = {name: {"type": "null"} for name in overrides}
    definitions: Schema = {
        name: each for _, found in split.values() for name, each in found.items()
    }
    shape |= {"if": refusal, "then": {"properties": none}}
    return shape | ({"$defs": definitions} if definitions else {})


def value_schema(value: Schema) -> Schema:
    """An answer, or its refusal."""
    inner, definitions = _hoisted(value)
    shape: Schema = {
        "type": "object",
        "properties": {"value": inner, "approved": {"const": False}, **_WHO},
        "oneOf": [{"required": ["value"]}, {"required": ["approved"]}],
        "additionalProperties": False,
    }
    return shape | ({"$defs": definitions} if definitions else {})


def choices_schema(choices: Sequence[str], *, multiple: bool) -> Schema:
    """The names of a router's choices: one, or with `multiple` several, each once."""
    names: Schema = {"type": "array", "items": {"enum": list(choices)}, "minItems": 1}
    return names | ({"uniqueItems": True} if multiple else {"maxItems": 1})


def action_schema(*actions: str, value: Schema | None = None) -> Schema:
    """What to do next, by name; `value` is that of the actions which take one."""
    inner, definitions = _hoisted(value or {})
    given: Schema = {} if value is None else {"value": inner}
    shape: Schema = {
        "type": "object",
        "properties": {"action": {"enum": list(actions)}, **given, **_WHO},
        "required": ["action"],
        "additionalProperties": False,
    }
    return shape | ({"$defs": definitions} if definitions else {})


def _hoisted(schema: Schema) -> tuple[Schema, Schema]:
    """A schema without its definitions, and these: references are read from the root."""
    inner = {key: each for key, each in schema.items() if key != "$defs"}
    return inner, schema.get("$defs", {})
