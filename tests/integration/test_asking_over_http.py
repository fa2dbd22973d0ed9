"""What a person fills in for a call, and what a model asks a person, over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import Field

from app.authoring import (
    Agent,
    Approval,
    ModelRequest,
    Parallel,
    Reply,
    ScriptedModel,
    Sensitive,
    Step,
    Workflow,
    ask_user,
    call_tool,
    call_tools,
    get_user_input,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from tests.service import Api, approval, rejection
from tests.serving import service

Json = dict[str, Any]

desk = InboxChannel("desk")
paid: list[tuple[str, str, int]] = []


@tool(channel=desk, approval=Approval("Pay?"), fill=["iban", "days"])
async def pay(
    to: str,
    iban: Annotated[str, Sensitive, Field(min_length=8)],
    days: Annotated[int, Field(ge=1, le=30)],
) -> str:
    """Pays somebody."""
    paid.append((to, iban, days))
    return f"paid {to}"


FIELDS = [
    {"name": "day", "type": "date"},
    {"name": "size", "type": "text", "options": ["small", "large"]},
    {"name": "extras", "type": "list of texts", "required": False},
]
CALLS = {
    "pay": call_tool("pay", {"to": "Ann"}),
    "ask": call_tool(ask_user, "Which colour?", options=["red", "blue"], multiple=True),
    "free": call_tool(ask_user, "What else?"),
    "form": call_tool("get_user_input", {"message": "The booking", "fields": FIELDS}),
}


def clerk(name: str) -> Agent:
    def answer(request: ModelRequest) -> Reply:
        heard = [each.text for each in request.messages if each.role == "tool"]
        if heard:
            return reply_with(" & ".join(heard))
        names = request.messages[-1].text.split()
        return call_tools(*(CALLS[each] for each in names))

    tools = [pay, ask_user, get_user_input]
    return Agent(name, prompt="Help.", model=ScriptedModel(answer), tools=tools)


clerks = Workflow("clerks", version="1", input=str, steps=[clerk("clerk")], channels=[desk])
both = Workflow(
    "both",
    version="1",
    input=str,
    steps=[Parallel("fork", [Step("one", clerk("one")), Step("two", clerk("two"))])],
    channels=[desk],
)


@asynccontextmanager
async def asked(database_url: str, work: str) -> AsyncGenerator[tuple[Api, Json]]:
    paid.clear()
    async with service(database_url, [clerks, both]) as served:
        api = Api(served.client)
        yield api, await api.started("clerks", work)


def value(given: object) -> Json:
    return {"value": given, "by": "alice"}


async def test_a_call_is_approved_then_filled_in_and_runs_with_all_of_it(database_url: str) -> None:
    async with asked(database_url, "pay") as (api, run):
        assert run["pause"]["kind"] == "approval"
        assert run["pause"]["call"]["arguments"] == {"to": "Ann"}
        run = await api.decided(run["pause"], approval(override_arguments={"to": "Bob"}))
        pause = run["pause"]
        assert (pause["kind"], pause["level"]) == ("input", "executor")
        assert pause["call"]["arguments"] == {"to": "Bob"}
        assert pause["call"]["sensitive_paths"] == ["/iban"]
        assert list(pause["call"]["arguments_schema"]["properties"]) == ["to", "iban", "days"]
        filled = pause["response_schema"]["properties"]["value"]
        assert list(filled["properties"]) == ["iban", "days"]
        wrong = await api.decide(pause, value({"iban": "DE1", "days": 31, "to": "me"}))
        assert wrong.status_code == 422
        assert sorted(each["pointer"] for each in wrong.json()["errors"]) == [
            "/decision/value/days",
            "/decision/value/iban",
            "/decision/value/to",
        ]
        assert paid == []
        run = await api.decided(pause, value({"iban": "DE12345678", "days": 3}))
        assert run["status"] == "completed"
        assert run["output"].startswith("paid Bob")
        assert paid == [("Bob", "DE12345678", 3)]
        shown = run["pauses"][1]["decision"]["value"]
        assert shown == {"iban": "***", "days": 3}
        assert "DE12345678" not in "".join(api.heard)


async def test_a_call_that_nobody_fills_in_is_declined_and_does_not_run(database_url: str) -> None:
    async with asked(database_url, "pay") as (api, run):
        run = await api.decided(run["pause"])
        run = await api.decided(run["pause"], rejection(feedback="unknown"))
        assert run["output"] == "Tool error: declined by alice: unknown"
        assert paid == []


@pytest.mark.parametrize("wrong", [["green"], [], ["red", "red"], "red", None])
async def test_a_model_gets_only_answers_that_it_offered(wrong: object, database_url: str) -> None:
    async with asked(database_url, "ask free") as (api, run):
        assert run["pause"]["options"] == ["red", "blue"]
        refused = await api.decide(run["pause"], value(wrong))
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_decision")
        run = await api.decided(run["pause"], value(["blue", "red"]))
        assert run["pause"]["message"] == "What else?"
        run = await api.decided(run["pause"], value("nothing"))
        assert run["output"] == '["blue","red"] & nothing'


async def test_a_model_gets_the_values_of_its_form_by_type_and_rule(database_url: str) -> None:
    async with asked(database_url, "form") as (api, run):
        pause = run["pause"]
        assert pause["message"] == "The booking"
        wrong = await api.decide(pause, value({"day": "soon", "size": "huge", "extras": [1]}))
        assert {each["pointer"] for each in wrong.json()["errors"]} == {
            "/decision/value/day",
            "/decision/value/size",
            "/decision/value/extras/0",
        }
        run = await api.decided(pause, value({"day": "2030-01-31", "size": "small"}))
        assert run["output"] == '{"day":"2030-01-31","size":"small"}'


async def test_agents_side_by_side_ask_and_are_answered_each_for_itself(database_url: str) -> None:
    async with asked(database_url, "free") as (api, _):
        run = await api.started("both", "free form")
        opened = {each["step"]["name"]: each for each in run["pauses"]}
        run = await api.decided(opened["two"], value("two"))
        run = await api.decided(opened["one"], value("one"))
        forms = {each["step"]["name"]: each for each in run["pauses"] if each["status"] == "open"}
        run = await api.decided(forms["one"], value({"day": "2030-01-01", "size": "small"}))
        run = await api.decided(forms["two"], value({"day": "2030-02-02", "size": "large"}))
        assert run["output"] == {
            "one": 'one & {"day":"2030-01-01","size":"small"}',
            "two": 'two & {"day":"2030-02-02","size":"large"}',
        }
