"""What a tool's context does with answers, steps and costs, whoever hosts it."""

from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.authoring import AuthoringError, Declined, Question, ToolContext
from app.domain.ids import CallId, RunId, ThreadId
from app.domain.json import Json


class Host:
    """A run with prepared answers that keeps the results of steps, as JSON."""

    def __init__(self, *answers: Json) -> None:
        self.answers = list(answers)
        self.results: dict[str, Json] = {}
        self.costs: list[Decimal] = []

    async def pause(self, question: Question[Any]) -> Json:
        return self.answers.pop(0)

    async def step(self, name: str, work: Callable[[], Awaitable[Json]]) -> Json:
        if name not in self.results:
            self.results[name] = await work()
        return self.results[name]

    def report_cost(self, usd: Decimal) -> None:
        self.costs.append(usd)


def context_of(host: Host) -> ToolContext:
    return ToolContext(call_id=CallId("c"), run_id=RunId("r"), thread_id=ThreadId("t"), host=host)


class Booking(BaseModel):
    on: date
    raw: bytes = b""


async def test_pause_gives_the_typed_answer():
    context = context_of(Host({"on": "2024-02-29"}, "b"))
    assert await context.pause(Question("When?", answer=Booking)) == Booking(on=date(2024, 2, 29))
    assert await context.pause(Question("Which?", options=["a", "b"])) == "b"


async def test_pause_refuses_a_question_with_a_mistake_before_anybody_is_asked():
    host = Host("a")
    with pytest.raises(AuthoringError, match="options= is empty"):
        await context_of(host).pause(Question("Which?", options=[]))
    assert host.answers == ["a"]


async def test_an_answer_that_the_question_does_not_take_is_not_returned():
    with pytest.raises(ValidationError):
        await context_of(Host("c")).pause(Question("Which?", options=["a", "b"]))


async def test_a_step_runs_once_and_gives_its_result_again():
    context, ran = context_of(Host()), list[int]()

    async def book() -> Booking:
        ran.append(1)
        return Booking(on=date(2024, 2, 29))

    assert await context.step("book", book) == Booking(on=date(2024, 2, 29))
    assert await context.step("book", book) == Booking(on=date(2024, 2, 29))
    assert ran == [1]


async def test_a_step_keeps_plain_json_of_a_function_without_a_declared_result():
    host = Host()
    assert await context_of(host).step("plain", lambda: {"a": [1, None]}) == {"a": [1, None]}
    assert host.results == {"plain": {"a": [1, None]}}


async def test_a_step_whose_result_would_not_come_back_as_it_was_is_refused():
    host = Host()
    with pytest.raises(TypeError, match="'when' gave date"):
        await context_of(host).step("when", lambda: date(2024, 2, 29))
    assert host.results == {}


async def test_a_step_that_fails_stores_nothing():
    host = Host()

    def fails() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await context_of(host).step("fails", fails)
    assert host.results == {}


def test_reported_costs_are_exact():
    host = Host()
    context_of(host).report_cost(0.1)
    context_of(host).report_cost(Decimal("0.02"))
    assert host.costs == [Decimal("0.1"), Decimal("0.02")]


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), Decimal("-0.01"), Decimal("NaN")])
def test_a_cost_that_is_negative_or_not_finite_is_refused(cost: Any):
    host = Host()
    with pytest.raises(ValueError, match="finite number from 0"):
        context_of(host).report_cost(cost)
    assert host.costs == []


def test_a_declined_question_says_by_whom_and_why():
    assert str(Declined("ann")) == "declined by ann"
    assert str(Declined("ann", "no time")) == "declined by ann: no time"
