"""Tools: what their signatures say, how they are called, and what they wait for."""

import threading
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.authoring import Approval, Question, Tool, ToolContext, tool
from app.channels import InboxChannel
from app.domain.ask import Policy
from app.domain.ids import CallId, RunId, ThreadId
from app.domain.json import Json
from app.domain.pause import PauseKind

people = InboxChannel("people")
bosses = InboxChannel("bosses")


class Refund(BaseModel):
    order: str
    amount: Decimal = Field(gt=0)


class Host:
    """A run that has no answers and remembers nothing."""

    async def pause(self, question: Question[Any]) -> Json:
        raise AssertionError(question.message)

    async def step(self, name: str, work: Any) -> Json:
        return await work()

    def report_cost(self, usd: Decimal) -> None:
        raise AssertionError(usd)


context = ToolContext(call_id=CallId("c"), run_id=RunId("r"), thread_id=ThreadId("t"), host=Host())


@tool
async def find_order(order: str, most: Annotated[int, Field(ge=1)] = 1) -> dict[str, int]:
    """Looks an order up.

    And says how many there are.
    """
    return {order: most}


@tool(channel=people)
async def refund(context: ToolContext, request: Refund) -> str:
    return f"{request.amount} by {context.call_id}"


@tool
def thread_name(*, prefix: str, copy: bool = False, schema: str = "") -> str:
    return f"{prefix}{threading.current_thread().name}{copy}{schema}"


def test_name_and_description_come_from_the_function():
    assert find_order.name == "find_order"
    assert find_order.description == "Looks an order up.\n\nAnd says how many there are."
    assert refund.description == ""


def test_the_schema_of_plain_parameters_is_an_object_of_them():
    assert find_order.arguments_schema["properties"] == {
        "order": {"title": "Order", "type": "string"},
        "most": {"default": 1, "minimum": 1, "title": "Most", "type": "integer"},
    }
    assert find_order.arguments_schema["required"] == ["order"]
    assert find_order.arguments_schema["additionalProperties"] is False


def test_the_schema_of_one_model_is_the_models_own_and_the_context_is_not_in_it():
    assert refund.parameters is Refund
    assert refund.takes_context
    assert set(refund.arguments_schema["properties"]) == {"order", "amount"}


async def test_a_call_hands_over_what_was_read_and_defaults():
    assert await find_order.call(context, find_order.read_arguments({"order": "A"})) == {"A": 1}


async def test_a_call_hands_over_the_context_and_the_model():
    arguments = refund.read_arguments({"order": "A", "amount": "1.50"})
    assert await refund.call(context, arguments) == "1.50 by c"


async def test_a_sync_function_runs_in_a_thread_and_its_parameters_may_have_any_name():
    result = await thread_name.call(context, thread_name.read_arguments({"prefix": "in "}))
    assert result.startswith("in ")
    assert threading.main_thread().name not in result
    assert result.endswith("False")


async def test_positional_only_parameters_are_handed_over_too():
    @tool
    def add(one: int, /, other: int = 2) -> int:
        return one + other

    assert await add.call(context, add.read_arguments({"one": 1})) == 3


async def test_a_result_that_is_not_of_the_declared_type_is_refused():
    @tool
    async def lies() -> int:
        return "many"  # pyright: ignore[reportReturnType]

    with pytest.raises(ValidationError):
        await lies.call(context, lies.read_arguments({}))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"order": "A", "most": 0}, {"order": None}, {"order": "A", "x": 1}, [], None, "A"],
)
def test_arguments_that_do_not_fit_are_refused(arguments: Json):
    with pytest.raises(ValidationError):
        find_order.read_arguments(arguments)


def test_members_that_a_model_does_not_name_are_refused_on_request():
    extra = {"order": "A", "amount": 1, "note": "x"}
    assert refund.read_arguments(extra) == Refund(order="A", amount=Decimal(1))
    with pytest.raises(ValidationError, match="note"):
        refund.read_arguments(extra, closed=True)


def test_a_model_that_takes_any_member_keeps_taking_it():
    class Open(BaseModel, extra="allow"):
        a: int

    @tool
    async def free(value: Open) -> None: ...

    assert free.dump_arguments(free.read_arguments({"a": 1, "b": 2}, closed=True)) == {
        "a": 1,
        "b": 2,
    }


def test_arguments_come_back_as_they_were_dumped():
    class Aliased(BaseModel):
        number: int = Field(alias="the number")
        raw: bytes = b""

    @tool
    async def take(value: Aliased, when: timedelta, raw: bytes = b"\xff\x00") -> None: ...

    arguments = take.read_arguments({"value": {"the number": 1}, "when": "PT1H"})
    dumped = take.dump_arguments(arguments)
    assert dumped == {"value": {"the number": 1, "raw": ""}, "when": "PT1H", "raw": "_wA="}
    assert take.read_arguments(dumped) == arguments


def test_a_proposal_of_a_typed_call_is_what_a_model_would_write():
    assert refund.proposed(Refund(order="A", amount=Decimal("1.50"))) == {
        "order": "A",
        "amount": "1.50",
    }
    assert find_order.proposed("A") == {"order": "A"}
    assert find_order.proposed(order="A", most=2) == {"order": "A", "most": 2}


def kinds(of: Tool[..., Any]) -> list[PauseKind]:
    return of.asked()


def test_a_tool_without_a_channel_asks_nobody():
    assert kinds(find_order) == []
    assert not find_order.asks_about(find_order.read_arguments({"order": "A"}))


def test_a_tool_with_a_channel_waits_for_an_approval():
    assert kinds(refund) == [PauseKind.APPROVAL]
    assert refund.policy_for(PauseKind.APPROVAL) == Policy(channel="people")
    assert refund.asks_about(Refund(order="A", amount=Decimal(1)))


def test_an_external_tool_waits_for_a_result_and_for_an_approval_only_if_it_says_so():
    @tool(channel=people, external=True)
    async def call_customer(customer: str) -> str: ...

    @tool(channel=people, external=True, approval=Approval(channel=bosses))
    async def call_customer_if_allowed(customer: str) -> str: ...

    assert kinds(call_customer) == [PauseKind.EXTERNAL_RESULT]
    assert kinds(call_customer_if_allowed) == [PauseKind.APPROVAL, PauseKind.EXTERNAL_RESULT]
    assert call_customer_if_allowed.policy_for(PauseKind.APPROVAL).channel == "bosses"
    assert call_customer_if_allowed.policy_for(PauseKind.EXTERNAL_RESULT).channel == "people"


def test_the_terms_of_an_approval_reach_the_policy():
    approval = Approval(
        "Pay?",
        expires_after=timedelta(hours=4),
        on_expire="fail",
        escalate_to=bosses,
        approvers=["group:finance"],
        quorum=2,
    )
    assert approval.policy(people) == Policy(
        channel="people",
        expires_after=timedelta(hours=4),
        on_expire="fail",
        escalate_to="bosses",
        escalate_before=timedelta(hours=1),
        approvers=("group:finance",),
        quorum=2,
    )


def is_large(anything: Refund) -> bool:
    return anything.amount > 50


def test_a_condition_decides_by_the_arguments_whether_to_ask():
    @tool(channel=people, approval=Approval(when=is_large))
    async def pay(request: Refund) -> str: ...

    assert not pay.asks_about(Refund(order="A", amount=Decimal(50)))
    assert pay.asks_about(Refund(order="A", amount=Decimal(51)))


def test_a_condition_on_plain_parameters_gets_them_by_name():
    def unusual(most: int, order: str) -> bool:
        return order == "A" and most == 3

    @tool(channel=people, approval=Approval(when=unusual))
    async def pay(order: str, most: int) -> str: ...

    assert pay.asks_about(pay.read_arguments({"order": "A", "most": 3}))
    assert not pay.asks_about(pay.read_arguments({"order": "A", "most": 2}))


def test_a_condition_cannot_change_what_is_called():
    def meddles(request: Refund) -> bool:
        request.order = "B"
        return True

    @tool(channel=people, approval=Approval(when=meddles))
    async def pay(request: Refund) -> str: ...

    arguments = Refund(order="A", amount=Decimal(1))
    assert pay.asks_about(arguments)
    assert arguments.order == "A"


def test_a_default_may_be_a_field_with_rules():
    @tool
    async def pay(amount: int = Field(default=3, ge=1)) -> int: ...

    assert pay.dump_arguments(pay.read_arguments({})) == {"amount": 3}
    with pytest.raises(ValidationError):
        pay.read_arguments({"amount": 0})


def forgets_to_answer(request: Refund) -> Any:
    return None


def crashes(request: Refund) -> bool:
    raise ZeroDivisionError


@pytest.mark.parametrize("when", [forgets_to_answer, crashes])
def test_a_condition_that_cannot_be_told_asks(when: Any):
    @tool(channel=people, approval=Approval(when=when))
    async def pay(request: Refund) -> str: ...

    assert pay.asks_about(Refund(order="A", amount=Decimal(1)))
