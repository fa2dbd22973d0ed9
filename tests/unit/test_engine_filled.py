"""Calls of which a person fills in arguments, and tools with which a model asks a person."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from app.authoring import (
    Approval,
    Sensitive,
    ask_user,
    call_tool,
    call_tools,
    get_user_input,
    tool,
)
from app.domain.decision import Decline, InvalidDecision, Value, Verdict
from app.domain.pause import PauseKind
from app.engine.served import ServedTool
from tests.engine_runs import EngineRun, approvers, run, script, workflow

paid: list[tuple[str, str, str]] = []


@tool(channel=approvers, fill=["iban"])
async def pay(
    customer: Annotated[str, Field(max_length=5)],
    iban: Annotated[str, Sensitive, Field(min_length=5)],
    note: str = "-",
) -> str:
    """Pays a customer."""
    paid.append((customer, iban, note))
    return f"paid {customer}"


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    paid.clear()


def calling(*arguments: Any, called: Any = pay) -> EngineRun:
    model = script(call_tools(*(call_tool(called.name, each) for each in arguments)))
    return EngineRun(workflow(called, model=model))


async def test_a_call_waits_until_a_person_filled_in_what_is_missing():
    started = await calling({"customer": "C-1"}).go()
    assert started.ask.kind is PauseKind.INPUT
    assert started.shown_call["arguments"] == {"customer": "C-1"}
    assert "iban" in started.shown_call["arguments_schema"]["properties"]
    value = started.ask.shown["response_schema"]["properties"]["value"]
    assert list(value["properties"]) == ["iban"]
    assert paid == []
    ended = await started.restarted().decide(Value(value={"iban": "DE123"}))
    assert ended.output == "paid C-1"
    assert paid == [("C-1", "DE123", "-")]


def test_a_model_is_not_offered_what_a_person_fills_in():
    served = ServedTool(pay)
    assert list(served.spec.parameters["properties"]) == ["customer", "note"]
    assert list(served.schema["properties"]) == ["customer", "iban", "note"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"customer": "C-1", "iban": "DE123"}, "/iban: a person fills it in"),
        ({"customer": "too long"}, "invalid arguments: /customer"),
        ({}, "invalid arguments: /customer"),
    ],
)
async def test_what_a_model_gives_wrongly_is_told_to_it_and_nobody_is_asked(
    arguments: Any, said: str
):
    ended = await calling(arguments).go()
    assert said in str(ended.output)
    assert (ended.asks, paid) == ([], [])


@pytest.mark.parametrize(
    ("value", "pointers"),
    [
        ({"iban": "DE"}, ["/value/iban"]),
        ({}, ["/value/iban"]),
        ({"iban": 1, "customer": "x"}, ["/value/iban", "/value/customer"]),
        ("DE123", ["/value"]),
        (None, ["/value"]),
    ],
)
async def test_a_wrong_value_names_every_wrong_field_and_the_pause_stays_open(
    value: Any, pointers: list[str]
):
    started = await calling({"customer": "C-1"}).go()
    with pytest.raises(InvalidDecision) as caught:
        await started.settle(Value(value=value))
    assert [each.pointer for each in caught.value.fields] == pointers
    with pytest.raises(InvalidDecision):
        await started.settle(Verdict(approved=True))
    assert (await started.decide(Value(value={"iban": "DE123"}))).output == "paid C-1"


async def test_a_person_may_decline_to_fill_it_in():
    started = await calling({"customer": "C-1"}).go()
    ended = await started.decide(Decline(feedback="unknown"))
    assert ended.output == "Tool error: declined by alice: unknown"
    assert paid == []


async def test_each_call_is_filled_in_on_its_own():
    started = await calling({"customer": "C-1"}, {"customer": "C-2"}).go()
    second = await started.decide(Value(value={"iban": "DE111"}))
    assert second.shown_call["arguments"] == {"customer": "C-2"}
    ended = await second.decide(Value(value={"iban": "DE222"}))
    assert ended.output == "paid C-1\npaid C-2"
    assert sorted(paid) == [("C-1", "DE111", "-"), ("C-2", "DE222", "-")]


async def test_an_approval_of_its_own_comes_first_and_may_change_what_the_model_gave():
    both = tool(channel=approvers, fill=["iban"], approval=Approval("Really?"))(pay.fn)
    started = await calling({"customer": "C-1"}, called=both).go()
    assert started.ask.kind is PauseKind.APPROVAL
    with pytest.raises(InvalidDecision):
        await started.settle(
            Verdict(approved=True, override_arguments={"customer": "C-2", "iban": "DE123"})
        )
    asked = await started.approve(override_arguments={"customer": "C-2"})
    assert asked.ask.kind is PauseKind.INPUT
    ended = await asked.decide(Value(value={"iban": "DE123"}))
    assert paid == [("C-2", "DE123", "-")]
    assert str(ended.output).startswith("paid C-2")


async def test_a_rejected_call_is_not_filled_in():
    both = tool(channel=approvers, fill=["iban"], approval=Approval("Really?"))(pay.fn)
    ended = await (await calling({"customer": "C-1"}, called=both).go()).reject("no")
    assert ended.output == "Tool error: the call was rejected by alice: no"
    assert paid == []


async def test_what_was_filled_in_is_masked_where_it_is_sensitive():
    started = await calling({"customer": "C-1"}).go()
    settled = await started.settle(Value(value={"iban": "DE123"}))
    assert settled.shown["value"] == {"iban": "***"}


async def test_a_model_asks_a_person():
    asked = call_tool(ask_user, "Which account?", options=["main", "reserve"])
    started = await run(workflow(ask_user, model=script(asked)))
    assert started.ask.kind is PauseKind.INTERACTIVE
    assert (started.ask.shown["message"], started.ask.shown["options"]) == (
        "Which account?",
        ["main", "reserve"],
    )
    with pytest.raises(InvalidDecision):
        await started.settle(Value(value="other"))
    assert (await started.restarted().decide(Value(value="main"))).output == "main"


async def test_a_model_has_a_person_fill_in_values():
    fields = [{"name": "day", "type": "date"}, {"name": "seats", "type": "integer"}]
    asked = call_tool("get_user_input", {"message": "The booking", "fields": fields})
    started = await run(workflow(get_user_input, model=script(asked)))
    for wrong in (
        {"day": "2030-01-31"},
        {"day": "soon", "seats": 1},
        {"day": "2030-01-31", "seats": "1"},
        {"day": "2030-01-31", "seats": 1.0},
        {"day": "2030-01-31", "seats": True},
    ):
        with pytest.raises(InvalidDecision):
            await started.settle(Value(value=wrong))
    filled = {"day": "2030-01-31", "seats": 2}
    ended = await started.restarted().decide(Value(value=filled))
    assert ended.output == '{"day":"2030-01-31","seats":2}'


async def test_a_person_may_decline_to_answer_a_model():
    started = await run(workflow(ask_user, model=script(call_tool(ask_user, "Who?"))))
    assert (await started.decide(Decline())).output == "Tool error: declined by alice"


async def test_a_secret_that_was_filled_in_is_in_no_text_that_anybody_reads():
    telling = tool(channel=approvers, fill=["iban"])(telling_pay)
    started = await calling({"customer": "C-1"}, called=telling).go()
    ended = await started.restarted().decide(Value(value={"iban": "DE12345"}))
    assert ended.output == "paid to DE12345"
    assert ended.ended.shown_output == "paid to ***"
    assert ended.steps["work/assistant"].shown_output == "paid to ***"


async def telling_pay(customer: str, iban: Annotated[str, Sensitive]) -> str:
    """Pays a customer, and says too much."""
    return f"paid to {iban}"
