"""Scripted models and the replies they are written in."""

from decimal import Decimal

import pytest

from app.authoring import (
    AuthoringError,
    ModelMessage,
    ModelRequest,
    Reply,
    ScriptedModel,
    ToolCall,
    Usage,
    call_tool,
    call_tools,
    reply_with,
    tool,
)


@tool
async def find(order: str) -> str:
    return order


def request(turn: int) -> ModelRequest:
    return ModelRequest(
        agent="cashier", turn=turn, messages=(ModelMessage(role="user", text=f"turn {turn}"),)
    )


def test_a_function_answers_by_the_request_alone():
    model = ScriptedModel(lambda asked: reply_with(asked.messages[-1].text))
    assert model.reply(request(3)).text == "turn 3"


def test_a_list_has_one_reply_a_turn_and_starts_over_with_each_visit():
    model = ScriptedModel([call_tool(find, order="A"), reply_with("done")])
    assert [model.reply(request(turn)).text for turn in (0, 1, 0)] == ["", "done", ""]


def test_a_list_that_runs_out_names_the_agent():
    with pytest.raises(AuthoringError, match=r"'cashier' has 1 replies.* turn 2"):
        ScriptedModel([reply_with("a")]).reply(request(1))


def test_a_call_by_tool_or_by_name_is_the_same_proposal():
    typed, named = call_tool(find, order="A"), call_tool("find", {"order": "A"})
    assert typed == named == Reply(calls=(ToolCall(tool="find", arguments={"order": "A"}),))


def test_a_call_by_name_may_have_no_arguments_or_broken_ones():
    assert call_tool("find").calls[0].arguments == {}
    assert call_tool("find", "{not json").calls[0].arguments == "{not json"


def test_a_call_plays_the_providers_id():
    assert call_tool(find, order="A", provider_id="call_1").calls[0].provider_id == "call_1"
    assert call_tool("find", provider_id="call_1").calls[0].provider_id == "call_1"
    assert call_tool("find").calls[0].provider_id == ""


def test_several_calls_are_one_reply_in_their_order():
    both = call_tools(call_tool(find, order="A"), call_tool(find, order="B"), call_tool("other"))
    assert [(call.tool, call.arguments) for call in both.calls] == [
        ("find", {"order": "A"}),
        ("find", {"order": "B"}),
        ("other", {}),
    ]


def test_a_reply_costs_nothing_unless_it_says_so():
    assert reply_with("a").usage == Usage(input_tokens=0, output_tokens=0, cost=Decimal(0))
    spent = Usage(input_tokens=2, output_tokens=1, cost=Decimal("0.5"))
    two = call_tools(Reply(usage=spent), Reply(usage=spent))
    assert two.usage == Usage(input_tokens=4, output_tokens=2, cost=Decimal("1.0"))
