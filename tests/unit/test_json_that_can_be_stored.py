"""What JSON may hold so that it can be stored, and where the fault is if it may not."""

import math
from typing import Any

import pytest

from app.domain.json import InvalidJson, check_json


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**63 - 1,
        1.5,
        1e308,
        "",
        "ä😀\u202e\x01",
        {},
        {"": [None, {"a/b": "c"}]},
        nested(64),
    ],
)
def test_what_postgres_and_checkpoints_hold_passes(value: object) -> None:
    check_json(value)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ("\0", ""),
        ("\ud800", ""),
        ({"a": ["x", {"b~/": "a\0"}]}, "/a/1/b~0~1"),
        ({"a": {"\0": 1}}, "/a"),
        ({"\udc00": 1}, ""),
        ([1, math.nan], "/1"),
        ([math.inf], "/0"),
        ({"a": 2**63}, "/a"),
        ({"a": -(2**63) - 1}, "/a"),
        ({1: 2}, ""),
        ([b"x"], "/0"),
        ((1, 2), ""),
        ([{1, 2}], "/0"),
        (nested(65), "/0" * 64),
        (nested(100_000), "/0" * 64),
    ],
)
def test_what_they_do_not_hold_is_pointed_at(value: object, pointer: str) -> None:
    with pytest.raises(InvalidJson) as refused:
        check_json(value)
    assert [each.pointer for each in refused.value.fields] == [pointer]


def test_the_depth_that_is_allowed_can_be_less() -> None:
    check_json([[]], max_depth=2)
    with pytest.raises(InvalidJson):
        check_json([[[]]], max_depth=2)
