"""What is typed at a prompt, and the value that it stands for."""

from typing import Any

import pytest

from app.cli.durations import spoken
from app.cli.fields import Misfit, parsed
from app.cli.screen import visible

NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
DECIMAL = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^-?[0-9.]+$"}]}
SECRET = {"anyOf": [{"type": "string"}, {"const": "***"}], "x-sensitive": True}
SIZES = {"enum": ["small", "large", 3]}
ROOT = {"$defs": {"Size": SIZES, "Level": {"$ref": "#/$defs/Size"}}}


@pytest.mark.parametrize(
    ("line", "schema", "value"),
    [
        ("3", {"type": "string"}, "3"),
        ('""', {"type": "string"}, ""),
        ("hello", {}, "hello"),
        ("yes", {"type": "boolean"}, True),
        ("N", {"type": "boolean"}, False),
        ("-7", {"type": "integer"}, -7),
        ("007", {"type": "integer"}, 7),
        ("0.5", {"type": "number"}, 0.5),
        ("2", {"type": "number"}, 2),
        ("2", NULLABLE, 2),
        ("12.50", DECIMAL, "12.50"),
        ("s3cret", SECRET, "s3cret"),
        ("large", SIZES, "large"),
        ("LARGE", SIZES, "large"),
        ("3", SIZES, 3),
        ("1", {"$ref": "#/$defs/Level"}, "small"),
        ("a, b", {"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ("1,2", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ("[1, [2]]", {"type": "array"}, [1, [2]]),
        ("large, 1", {"type": "array", "items": SIZES}, ["large", "small"]),
        ("large", {"type": "array", "items": SIZES, "maxItems": 1}, ["large"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("null", {"type": ["integer", "string", "null"]}, None),
    ],
)
def test_a_line_becomes_the_value_that_the_schema_asks_for(
    line: str, schema: dict[str, Any], value: object
) -> None:
    found = parsed(line, schema, ROOT)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("line", "schema", "expected"),
    [
        ("", {"type": "string"}, "An answer is needed"),
        ("perhaps", {"type": "boolean"}, "yes or no"),
        ("1.5", {"type": "integer"}, "whole number"),
        ("many", {"type": "number"}, "a number"),
        ("huge", SIZES, "small, large, 3; or by number, from 1 to 3"),
        ("9", SIZES, "from 1 to 3"),
        ("{", {"type": "object"}, "JSON"),
        ("a", {"type": "array", "items": {"type": "integer"}}, "whole number"),
    ],
)
def test_a_line_that_cannot_be_the_value_says_what_can(
    line: str, schema: dict[str, Any], expected: str
) -> None:
    with pytest.raises(Misfit, match=expected):
        parsed(line, schema, ROOT)


def test_references_that_go_in_circles_end() -> None:
    root = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert parsed("text", {"$ref": "#/$defs/A"}, root) == "text"


def test_invisible_characters_are_spelled_out_and_the_lines_of_a_text_are_kept() -> None:
    assert visible("a\tb\nc d é 日本") == "a\tb\nc d é 日本"
    assert visible("\x1b[31m\r\u202e\u200b\x9b") == "⟨U+001B⟩[31m⟨U+000D⟩⟨U+202E⟩⟨U+200B⟩⟨U+009B⟩"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.6, "1 min"), (3700, "1 h 1 min"), (90_061, "1 d 1 h")]
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert spoken(seconds) == said
