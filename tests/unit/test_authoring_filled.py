"""Arguments that a person fills in: what a model is offered, what it may give, what a person may."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from app.authoring import (
    Agent,
    Approval,
    External,
    Fill,
    ScriptedModel,
    Sensitive,
    Tool,
    Workflow,
    WorkflowMistakes,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from app.domain.pause import PauseKind

people = InboxChannel("people")
Iban = Annotated[str, Field(min_length=5)]


@tool(channel=people, fill=["iban"])
async def pay(customer: Annotated[str, Field(max_length=3)], iban: Iban, note: str = "-") -> str:
    return f"{customer} {iban} {note}"


class Account(BaseModel):
    customer: str
    iban: Iban = Field(alias="IBAN")
    bic: Annotated[str, Sensitive] = "preset"

    @field_validator("customer")
    @classmethod
    def is_known(cls, value: str) -> str:
        if value == "nobody":
            raise ValueError("nobody is not a customer")
        return value

    @model_validator(mode="after")
    def belongs_together(self) -> "Account":
        if self.iban.startswith(self.customer):
            raise ValueError("customer and account are the same")
        return self


@tool(channel=people, fill=["iban", "bic"])
async def open_account(account: Account) -> str:
    return account.iban


def test_it_waits_for_input_and_not_for_an_approval():
    assert pay.asked() == [PauseKind.INPUT]
    assert pay.policy_for(PauseKind.INPUT).channel == "people"


def test_an_approval_of_its_own_comes_first():
    both = tool(channel=people, fill=["iban"], approval=Approval("Really?"))(pay.fn)
    assert both.asked() == [PauseKind.APPROVAL, PauseKind.INPUT]


def test_a_model_is_not_offered_what_a_person_fills_in():
    assert list(pay.offered_schema["properties"]) == ["customer", "note"]
    assert pay.offered_schema["required"] == ["customer"]
    assert list(pay.arguments_schema["properties"]) == ["customer", "iban", "note"]
    assert list(open_account.offered_schema["properties"]) == ["customer"]


def test_a_person_is_shown_what_to_fill_in():
    assert pay.fill_schema["properties"] == {
        "iban": {"minLength": 5, "title": "Iban", "type": "string"}
    }
    assert pay.fill_schema["required"] == ["iban"]
    assert list(open_account.fill_schema["properties"]) == ["IBAN", "bic"]
    assert open_account.fill_schema["properties"]["bic"]["x-sensitive"] is True
    assert "preset" not in str(open_account.fill_schema)


def test_a_tool_of_which_nothing_is_filled_in_is_offered_whole():
    whole = tool(pay.fn)
    assert whole.offered_schema == whole.arguments_schema
    assert whole.read_offered({"customer": "a", "iban": "12345"}) == whole.read_arguments(
        {"customer": "a", "iban": "12345"}
    )


def test_what_a_model_gives_is_read_without_what_is_missing():
    read = pay.read_offered({"customer": "a"})
    assert isinstance(read, pay.parameters)
    assert read.model_dump() == {"customer": "a", "note": "-"}


@pytest.mark.parametrize(
    ("asked", "arguments", "said"),
    [
        (pay, {"customer": "a", "iban": "12345"}, "/iban: a person fills it in"),
        (open_account, {"customer": "a", "IBAN": "12345"}, "/IBAN: a person fills it in"),
        (open_account, {"customer": "nobody"}, "nobody is not a customer"),
        (pay, {"customer": "a", "other": 1}, "/other: Extra inputs are not permitted"),
    ],
)
def test_what_a_model_gives_wrongly_is_an_error_before_anybody_is_asked(
    asked: Tool[..., Any], arguments: Any, said: str
):
    with pytest.raises(ValueError, match=said):
        asked.read_offered(arguments)


@pytest.mark.parametrize("arguments", [{}, {"customer": "long"}, {"customer": 1}, [], None])
def test_what_a_model_gives_is_validated(arguments: Any):
    with pytest.raises(ValidationError):
        pay.read_offered(arguments)


def test_a_persons_value_completes_the_arguments():
    given = {"customer": "a"}
    assert pay.filled(given, {"iban": "12345"}) == {"customer": "a", "iban": "12345"}
    assert given == {"customer": "a"}
    assert open_account.filled(given, {"IBAN": "12345", "bic": "x"}) == {
        "customer": "a",
        "IBAN": "12345",
        "bic": "x",
    }


def wrong_places(asked: Tool[..., Any], value: Any) -> list[tuple[int | str, ...]]:
    with pytest.raises(ValidationError) as caught:
        asked.filled({"customer": "12345"}, value)
    return [each["loc"] for each in caught.value.errors()]


def test_a_persons_value_is_validated_by_type_and_rule_all_at_once():
    assert wrong_places(pay, {"iban": "1", "customer": "b"}) == [("iban",), ("customer",)]
    assert wrong_places(open_account, {"IBAN": "1", "bic": 2}) == [("IBAN",), ("bic",)]
    assert wrong_places(pay, {}) == [("iban",)]
    assert wrong_places(pay, "12345") == [()]


def test_a_persons_value_must_fit_what_the_model_gave():
    assert wrong_places(open_account, {"IBAN": "123456"}) == [()]


def test_the_condition_of_an_approval_looks_at_what_the_model_gave():
    def is_known(customer: str, note: str) -> bool:
        return customer != "a"

    asked = tool(channel=people, fill=["iban"], approval=Approval(when=is_known))(pay.fn)
    assert asked.asks_about(asked.read_offered({"customer": "b"})) is True
    assert asked.asks_about(asked.read_offered({"customer": "a"})) is False


def test_a_condition_that_looks_at_what_is_not_there_yet_asks():
    def is_foreign(account: Account) -> bool:
        return account.iban.startswith("X")

    asked = tool(channel=people, fill=["iban"], approval=Approval(when=is_foreign))(open_account.fn)
    assert asked.asks_about(asked.read_offered({"customer": "a"})) is True


async def test_the_tool_is_called_with_everything():
    arguments = open_account.read_arguments(
        open_account.filled({"customer": "a"}, {"IBAN": "12345"})
    )
    assert isinstance(arguments, Account)
    assert (arguments.iban, arguments.bic) == ("12345", "preset")


def test_a_script_calls_it_without_what_a_person_fills_in():
    (call,) = call_tool(pay, customer="abc").calls
    assert call.arguments == {"customer": "abc"}
    (call,) = call_tool(pay, "abc", note="n").calls
    assert call.arguments == {"customer": "abc", "note": "n"}
    with pytest.raises(TypeError, match="missing a required argument: 'customer'"):
        call_tool(pay, note="n")
    with pytest.raises(TypeError):
        call_tool(pay, customer="abc", colour="red")


def test_a_script_that_gives_it_anyway_is_heard_as_a_model_would_be():
    (call,) = call_tool(pay, customer="abc", iban="DE123").calls
    assert call.arguments == {"customer": "abc", "iban": "DE123"}
    with pytest.raises(ValueError, match="a person fills it in"):
        pay.read_offered(call.arguments)


def test_a_tool_of_one_model_is_called_by_its_fields_or_by_a_whole_one():
    (call,) = call_tool(open_account, customer="a").calls
    assert call.arguments == {"customer": "a"}
    (call,) = call_tool(open_account, Account(customer="a", IBAN="DE123")).calls
    assert call.arguments == {"customer": "a"}


def test_terms_of_what_is_filled_in_stand_where_it_is_named():
    termed = tool(fill=Fill("Where to?", ["iban"], channel=people))(pay.fn)
    assert termed.filled_in == ("iban",)
    assert termed.asked() == [PauseKind.INPUT]
    assert termed.channel_for(PauseKind.INPUT) is people
    assert list(termed.channels()) == [people]


def mistakes(*tools: Tool[..., Any]) -> list[str]:
    agent = Agent("clerk", prompt="", model=ScriptedModel([reply_with("")]), tools=tools)
    with pytest.raises(WorkflowMistakes) as found:
        Workflow("work", version="1", input=str, steps=[agent], channels=[people])
    return [each.message for each in found.value.mistakes]


def test_wrong_terms_are_told_when_the_workflow_is_built():
    strangers = InboxChannel("strangers")
    wrong_end: Any = "approve"
    assert mistakes(tool(external=External())(pay.fn)) == [
        "external=True could never be asked without channel="
    ]
    assert mistakes(tool(channel=people, fill=Fill("", []))(pay.fn)) == [
        "fill: the message is empty",
        "fill: it names no parameter",
    ]
    assert mistakes(tool(channel=people, fill=Fill("?", ["bic"]))(pay.fn)) == [
        "fill= names 'bic', which is not a parameter"
    ]
    assert mistakes(tool(external=External(channel=strangers))(pay.fn)) == [
        "asks the channel 'strangers', which is not in channels="
    ]
    (told,) = mistakes(
        tool(channel=people, external=External(quorum=2, on_expire="reject"))(pay.fn)
    )
    assert "quorum=2 could never matter" in told
    told = mistakes(tool(channel=people, fill=Fill("?", ["iban"], on_expire=wrong_end))(pay.fn))
    assert "it is one of reject, fail, wait" in told[0]
