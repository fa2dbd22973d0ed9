"""Values over pauses and restarts: they come back as what they were, or the run fails before it pauses."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from app.authoring import (
    AskInput,
    Confirm,
    Loop,
    Parallel,
    Review,
    Sensitive,
    Step,
    StepContext,
    Workflow,
)
from app.domain.decision import InvalidDecision
from app.domain.json import Json
from tests.engine_runs import EngineRun, approvers, run

GATE = Confirm("Go on?", channel=approvers)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Rank(IntEnum):
    LOW = 1
    HIGH = 2


class Money(BaseModel):
    model_config = ConfigDict(frozen=True)

    amount: Decimal
    currency: Literal["EUR", "USD"] = "EUR"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


@dataclass(frozen=True)
class Point:
    x: int
    at: datetime


class Entry(TypedDict):
    key: UUID
    price: Decimal


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    price: Decimal
    raw: bytes


class Aliased(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)

    inner: int = Field(alias="outerName")


class Texts(BaseModel):
    raw: bytes


class Everything(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    at: datetime
    day: date
    hour: time
    lasts: timedelta
    key: UUID
    price: Decimal
    raw: bytes
    colour: Colour
    rank: Rank
    money: list[Money]
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]
    by_key: dict[UUID, Decimal]
    pair: tuple[int, str]
    some: set[int]
    maybe: int | None = None


NOW = datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC)
EVERYTHING = Everything(
    at=NOW,
    day=date(2024, 2, 29),
    hour=time(1, 2, 3),
    lasts=timedelta(days=1, seconds=2, microseconds=3),
    key=UUID(int=7),
    price=Decimal("1.10"),
    raw=bytes(range(256)),
    colour=Colour.BLUE,
    rank=Rank.HIGH,
    money=[Money(amount=Decimal("0.10"))],
    pets=[Dog(name="Rex"), Cat()],
    by_key={UUID(int=1): Decimal("1.000")},
    pair=(1, "x"),
    some={1, 2},
)

VALUES: dict[str, tuple[Any, Any]] = {
    "everything": (Everything, EVERYTHING),
    "a datetime": (datetime, NOW),
    "a naive datetime": (datetime, datetime(2024, 2, 29, 1, 2)),  # noqa: DTZ001 - as it was given
    "a date": (date, date(2024, 2, 29)),
    "a duration": (timedelta, timedelta(milliseconds=1)),
    "a uuid": (UUID, UUID(int=2**127)),
    "a decimal": (Decimal, Decimal("12345678901234567890.123456789")),
    "bytes": (bytes, b"\x00\xff\xfe"),
    "no bytes": (bytes, b""),
    "an enum": (Colour, Colour.RED),
    "an int enum": (Rank, Rank.LOW),
    "a set": (set[UUID], {UUID(int=1), UUID(int=2)}),
    "a frozen set": (frozenset[int], frozenset({1, 2})),
    "a tuple": (tuple[int, Decimal], (1, Decimal("2.0"))),
    "a dict of models": (dict[str, Money], {"a": Money(amount=Decimal(1))}),
    "a list of unions": (list[Cat | Dog], [Dog(name="Rex"), Cat()]),
    "a dataclass": (Point, Point(x=1, at=NOW)),
    "a typed dict": (Entry, Entry(key=UUID(int=3), price=Decimal("1.0"))),
    "a strict model": (
        Strict,
        Strict(day=date(2024, 1, 1), price=Decimal("1.5"), raw=b"x"),
    ),
    "an aliased model": (Aliased, Aliased(outerName=3)),
    "an address": (IPv4Address, IPv4Address("127.0.0.1")),
    "a path": (PurePosixPath, PurePosixPath("/a/b")),
    "a text": (str, "é\n\t‮😀"),
    "an empty text": (str, ""),
    "nothing": (None, None),
    "nothing, maybe": (int | None, None),
    "false": (bool, False),
    "zero": (int, 0),
    "a big integer": (int, 2**63 - 1),
    "a float": (float, 0.1),
    "plain JSON": (Any, {"a": [1, None, {"b": ""}], "": {}}),
    "an empty list": (list[int], []),
}


def gives(kind: Any, value: Any) -> Any:
    """A step function that gives a value of a type."""

    def give(context: StepContext, text: str) -> Any:
        return value

    give.__annotations__["return"] = kind
    return give


def takes(kind: Any, seen: list[Any]) -> Any:
    """A step function that keeps what it was given, and what it finds among the outputs."""

    def take(context: StepContext, value: Any) -> str:
        seen.extend([value, context.outputs["give"]])
        return "taken"

    take.__annotations__["value"] = kind
    return take


def passing(kind: Any, value: Any, seen: list[Any]) -> Workflow:
    return Workflow(
        "work",
        version="1",
        input=str,
        steps=[
            Step("give", gives(kind, value)),
            Step("take", takes(kind, seen), before=GATE),
        ],
        channels=[approvers],
    )


@pytest.mark.parametrize("name", VALUES)
async def test_a_value_comes_back_over_a_pause_and_a_restart_as_what_it_was(name: str) -> None:
    kind, value = VALUES[name]
    seen: list[Any] = []
    paused = await run(passing(kind, value, seen))
    await paused.restarted().approve()
    assert paused.output == "taken"
    assert seen == [value, value]
    assert [type(each) for each in seen] == [type(value)] * 2


async def test_a_value_keeps_its_type_in_a_loop_in_branches_and_in_what_was_rejected() -> None:
    seen: list[Any] = []

    def add(context: StepContext, price: Decimal) -> Decimal:
        seen.append((price, context.previous_output))
        return price + Decimal("0.10")

    def total(context: StepContext, value: dict[str, Decimal]) -> Decimal:
        return sum(value.values(), Decimal(0))

    fork = Parallel("fork", [Step("a", add, before=GATE), Step("b", add)])
    loop = Loop(
        "loop",
        steps=[fork, Step("total", total)],
        max_iterations=2,
        after_each=Review("Good?", channel=approvers),
    )
    served = Workflow("work", version="1", input=Decimal, steps=[loop], channels=[approvers])
    paused = await run(served, "1.00")
    await paused.restarted().approve()
    await paused.restarted().reject()
    await paused.restarted().approve()
    await paused.restarted().approve()
    assert paused.output == "4.60"
    first = (Decimal("1.00"), None)
    second = (Decimal("2.20"), Decimal("2.20"))
    assert sorted(seen, key=str) == [first, first, second, second]


async def test_what_was_filled_in_keeps_its_types() -> None:
    seen: list[Any] = []

    def read(context: StepContext, text: str) -> str:
        seen.append(context.input(Everything))
        return text

    ask = AskInput("Everything?", Everything, channel=approvers)
    served = Workflow(
        "work",
        version="1",
        input=str,
        steps=[Step("read", read, before=[ask, GATE])],
        channels=[approvers],
    )
    paused = await run(served)
    value = EVERYTHING.model_dump(mode="json", exclude={"raw"}) | {"raw": "AAE="}
    with pytest.raises(InvalidDecision):
        await paused.fill(value | {"price": "much"})
    raw = Everything.model_validate_json(Everything.model_validate(value).model_dump_json()).raw
    await paused.restarted().fill(value)
    await paused.restarted().approve()
    assert seen == [EVERYTHING.model_copy(update={"raw": raw})]


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


UNSTORABLE: dict[str, tuple[Any, Any]] = {
    "NUL": (str, "a\0b"),
    "a lone surrogate": (str, "\ud800"),
    "infinity": (float, float("inf")),
    "not a number": (float, float("nan")),
    "an integer beyond 64 bits": (int, 2**64),
    "a thousand levels": (Any, deep(1_000)),
    "an object of no type": (Any, object()),
    "a NUL in a key": (dict[str, int], {"a\0": 1}),
    "another type than declared": (int, "three"),
    "a set among anything": (Any, {"a": {object()}}),
    "a decimal of infinity": (Decimal, Decimal("Infinity")),
    "bytes in a model that takes texts": (Texts, Texts(raw=b"\xff")),
}


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_what_cannot_be_stored_fails_the_run_before_it_pauses(name: str) -> None:
    kind, value = UNSTORABLE[name]
    failed = await run(passing(kind, value, []))
    assert failed.error.code == "step_failed"
    assert failed.error.step == "work/give"
    assert failed.asks == []


async def test_bytes_that_cannot_be_stored_say_what_their_model_needs() -> None:
    failed = await run(passing(Texts, Texts(raw=b"\xff"), []))
    assert "ser_json_bytes" in failed.error.message


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_what_cannot_be_stored_is_not_reviewed(name: str) -> None:
    kind, value = UNSTORABLE[name]
    step = Step("give", gives(kind, value), after=Review("Good?", channel=approvers))
    served = Workflow("work", version="1", input=str, steps=[step], channels=[approvers])
    failed = await run(served)
    assert (failed.error.code, failed.asks) == ("step_failed", [])


@pytest.mark.parametrize("value", ["a\0b", "\ud800", float("inf"), 2**64, deep(200)], ids=repr)
async def test_an_override_that_cannot_be_stored_is_refused(value: Any) -> None:
    step = Step("give", gives(Any, 1), after=Review("Good?", channel=approvers))
    served = Workflow("work", version="1", input=str, steps=[step], channels=[approvers])
    paused = await run(served)
    with pytest.raises(InvalidDecision) as refused:
        await paused.settle_override(value)
    assert refused.value.fields[0].pointer.startswith("/override_output")
    await paused.approve()
    assert paused.output == 1


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}], ids=repr)
async def test_an_override_may_be_anything_that_the_type_allows(value: Json) -> None:
    step = Step("give", gives(Any, "something"), after=Review("Good?", channel=approvers))
    served = Workflow("work", version="1", input=str, steps=[step], channels=[approvers])
    paused: EngineRun = await run(served)
    await paused.restarted().override(value)
    assert paused.output == value


async def test_an_override_of_null_is_refused_where_the_type_has_none() -> None:
    step = Step("give", gives(str, "something"), after=Review("Good?", channel=approvers))
    served = Workflow("work", version="1", input=str, steps=[step], channels=[approvers])
    paused = await run(served)
    with pytest.raises(InvalidDecision):
        await paused.settle_override(None)


# ── Values that nobody may see ───────────────────────────────────────────────────────────────────


class Login(BaseModel):
    name: str
    password: Annotated[str, Sensitive]


SECRET = "hunter22"


async def test_a_filled_in_secret_reaches_its_step_and_nobody_else() -> None:
    seen: list[str] = []

    def login(context: StepContext, text: str) -> str:
        seen.append(context.input(Login).password)
        return f"logged in with {seen[0]}"

    def fails(context: StepContext, text: str) -> str:
        raise RuntimeError(f"no way: {text}")

    ask = AskInput("Login?", Login, channel=approvers)
    served = Workflow(
        "work",
        version="1",
        input=str,
        steps=[
            Step("login", login, before=ask, after=Review("Good?", channel=approvers)),
            Step("fails", fails),
        ],
        channels=[approvers],
    )
    paused = await run(served)
    await paused.restarted().fill({"name": "ann", "password": SECRET})
    assert seen == [SECRET]
    assert paused.settled[0].shown["value"] == {"name": "ann", "password": "***"}
    assert SECRET not in str(paused.ask.shown)
    await paused.restarted().approve()
    assert SECRET not in str(paused.error)
    shown = [step.shown_output for step in paused.steps.values()]
    assert SECRET not in str(shown)
    assert paused.steps["work/login"].output == f"logged in with {SECRET}"


async def test_a_secret_of_a_reviewed_output_is_masked_and_kept_by_an_override_that_sends_it_back() -> (
    None
):
    seen: list[Login] = []

    def use(context: StepContext, login: Login) -> str:
        seen.append(login)
        return "used"

    give = gives(Login, Login(name="ann", password=SECRET))
    served = Workflow(
        "work",
        version="1",
        input=str,
        steps=[
            Step("give", give, after=Review("Good?", channel=approvers)),
            Step("use", use),
        ],
        channels=[approvers],
    )
    paused = await run(served)
    assert paused.ask.shown["output"] == {"name": "ann", "password": "***"}
    await paused.restarted().approve(override_output={"name": "bob", "password": "***"})
    assert seen == [Login(name="bob", password=SECRET)]
    assert SECRET not in str(paused.settled[0].shown)
