"""Declared types: what is stored comes back as it was, and what fits what is known beforehand."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError

from app.authoring.kinds import fits
from app.authoring.shape import adapter_of, dump, load
from app.domain.json import InvalidJson


class Colour(enum.Enum):
    RED = "red"


class Article(BaseModel):
    title: str
    when: datetime
    colour: Colour
    key: UUID
    price: Decimal
    more: dict[str, Any] = {}


class Special(Article):
    """A kind of article."""


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    on: date
    price: Decimal
    parts: tuple[int, ...]


@dataclass
class Point:
    x: int
    y: int = 0


ARTICLE = Article(
    title="ü",
    when=datetime(2024, 2, 29, 12, tzinfo=UTC),
    colour=Colour.RED,
    key=UUID(int=7),
    price=Decimal("1.10"),
    more={"a": [None, 1.5]},
)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Article, ARTICLE),
        (list[Article], [ARTICLE]),
        (Strict, Strict(on=date(2024, 2, 29), price=Decimal("0.1"), parts=(1, 2))),
        (Point, Point(x=1)),
        (bytes, b"\xff\x00"),
        (dict[int, bytes], {1: b"\xff"}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (datetime, datetime(2024, 2, 29, tzinfo=UTC)),
        (timedelta, timedelta(days=1, microseconds=1)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (Colour, Colour.RED),
        (int | None, None),
        (None, None),
        (Any, {"a": [1, None, ""]}),
        (str, ""),
        (bool, False),
    ],
)
def test_what_is_stored_comes_back_as_it_was(declared: Any, value: Any):
    adapter = adapter_of(declared)
    assert load(adapter, dump(adapter, value)) == value


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (str, "a\0"),
        (str, "\ud800"),
        (int, 2**63),
        (float, float("nan")),
        (list[float], [float("inf")]),
        (Any, float("inf")),
        (dict[str, Any], {"a": float("-inf")}),
        (int, "1"),
        (Any, object()),
    ],
)
def test_what_cannot_be_stored_is_refused(declared: Any, value: Any):
    with pytest.raises((InvalidJson, PydanticSerializationError, UnicodeEncodeError)):
        dump(adapter_of(declared), value)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, int),
        (bool, int),
        (int, float),
        (Special, Article),
        (int, Any),
        (Any, int),
        (int, object),
        (int, int | None),
        (Literal["a"], str),
        (Literal["a"], Literal["a", "b"]),
        (list[Special], list[Article]),
        (list[int], list),
        (dict[str, int], dict[str, Any]),
        (dict[str, int], Mapping[str, int]),
        (Annotated[str, "note"], str),
        (None, Optional[int]),  # noqa: UP045 - the older spelling has to fit as well
        (None, type(None)),
    ],
)
def test_a_type_that_fits(given: Any, wanted: Any):
    assert fits(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, str),
        (float, int),
        (Article, Special),
        (int | None, int),
        (str, Literal["a"]),
        (Literal["a", "b"], Literal["a"]),
        (Literal[1], str),
        (list[int], list[str]),
        (list[int], int),
        (tuple[int, ...], list[int]),
        (Colour, str),
        (None, int),
    ],
)
def test_a_type_that_does_not_fit(given: Any, wanted: Any):
    assert not fits(given, wanted)
