"""What is wrong with guardrails, judges and limits is told when the workflow is built, all at once."""

from decimal import Decimal
from typing import Any

import pytest

from app.authoring import (
    Agent,
    Block,
    Guards,
    Limits,
    ModelJudge,
    ScriptedModel,
    Tool,
    ToolCall,
    Workflow,
    WorkflowMistakes,
    reply_with,
    tool,
)
from app.channels import InboxChannel

people = InboxChannel("people")
MODEL = ScriptedModel([reply_with("done")])


def look_at_call(call: ToolCall) -> Block | None:
    return None


def look_at_result(call: ToolCall, result: str) -> None: ...


def look_at_value(value: str) -> None: ...


@tool(channel=people, before_call=[look_at_call], after_call=[look_at_result])
async def gated(text: str) -> str:
    return text


@tool
async def free(text: str) -> str:
    return text


def built(
    *tools: Tool[..., Any], guards: Any = None, limits: Any = None, **options: Any
) -> Workflow:
    agent = Agent("assistant", prompt="Help.", model=MODEL, tools=tools, **options)
    more: dict[str, Any] = {"guards": guards, "limits": limits}
    return Workflow(
        "work",
        version="1",
        input=str,
        steps=[agent],
        channels=[people],
        **{name: each for name, each in more.items() if each is not None},
    )


def mistakes(*tools: Tool[..., Any], **options: Any) -> list[str]:
    with pytest.raises(WorkflowMistakes) as found:
        built(*tools, **options)
    return [each.message for each in found.value.mistakes]


def test_guardrails_of_every_kind_are_taken_and_described() -> None:
    described = built(
        gated,
        before_tool_call=[look_at_call],
        on_decision=[look_at_result],
        after_tool_call=[look_at_result],
        before_answer=[look_at_value],
        judges=[look_at_value, ModelJudge("critic", model=MODEL, prompt="Good?")],
        guards=Guards(input=[look_at_value], output=[look_at_value]),
        limits=Limits(run_cost=Decimal("0.50")),
    ).description()
    (agent,) = described["agents"]
    assert agent["guardrails"] == {
        "before_tool_call": ["look_at_call"],
        "on_decision": ["look_at_result"],
        "after_tool_call": ["look_at_result"],
        "before_answer": ["look_at_value"],
        "judges": ["look_at_value", "critic"],
    }
    assert agent["limits"]["judge_retries"] == {"limit": 3, "default": True}
    assert agent["tools"][0]["before_call"] == ["look_at_call"]
    assert agent["tools"][0]["after_call"] == ["look_at_result"]
    assert described["guards"] == {"input": ["look_at_value"], "output": ["look_at_value"]}
    assert described["limits"] == {"run_cost": {"limit": "0.50", "default": False}}


def test_guardrails_are_functions_of_the_right_parameters() -> None:
    assert mistakes(gated, before_tool_call=[look_at_result]) == [
        "before_tool_call=: look_at_result must take the call"
    ]
    assert mistakes(gated, after_tool_call=[look_at_call]) == [
        "after_tool_call=: look_at_call must take the call and its result"
    ]
    assert mistakes(gated, before_answer=["no"], judges=look_at_value) == [
        "before_answer= has 'no', which is not a function",
        "judges= must be a list",
    ]
    wrong: Any = [look_at_result]
    assert mistakes(guards=Guards(input=wrong)) == [
        "guards: input=: look_at_result must take the input"
    ]
    assert mistakes(guards=[look_at_value]) == ["guards= must be Guards(...)"]


def test_a_guardrail_needs_a_name_to_be_told_by() -> None:
    def nameless(call: ToolCall) -> None: ...

    nameless.__name__ = "<lambda>"
    (told,) = mistakes(gated, before_tool_call=[nameless])
    assert told == (
        "before_tool_call= has a lambda, which has no name to be told by: define a function"
    )


def test_a_guardrail_that_could_never_fire_is_a_mistake() -> None:
    assert mistakes(before_tool_call=[look_at_call]) == [
        "before_tool_call= could never fire: the agent has no tools"
    ]
    assert mistakes(free, on_decision=[look_at_result]) == [
        "on_decision= could never fire: no call of its tools waits for an approval"
    ]


def test_a_judge_is_checked_like_an_agent() -> None:
    judge = ModelJudge("", model="nonsense", prompt="Good?", retries=-1)
    assert len(mistakes(judges=[judge])) == 3


def test_limits_stand_where_they_mean_something() -> None:
    (of_workflow,) = mistakes(limits=Limits(model_calls=3))
    assert "only run_cost= is of a workflow" in of_workflow
    wrong: list[Any] = [Decimal(0), Decimal("NaN"), 0.5, 1]
    for cost in wrong:
        (told,) = mistakes(limits=Limits(run_cost=cost))
        assert told.startswith("limits: run_cost=")


def test_the_limits_of_an_agent_are_counts_and_a_duration() -> None:
    agent = Agent(
        "assistant",
        prompt="Help.",
        model=MODEL,
        limits=Limits(judge_retries=2, run_cost=Decimal(1)),
    )
    told = [each.message for each in agent.mistakes()]
    assert told == [
        "limits: run_cost= is of a workflow: it counts everything in a run",
        "limits: judge_retries= could never matter without judges=",
    ]


def test_the_smallest_budget_in_a_workflow_holds() -> None:
    inner = Workflow(
        "inner",
        version="1",
        input=str,
        steps=[Agent("inner", prompt="", model=MODEL)],
        limits=Limits(run_cost=Decimal("0.10")),
    )
    outer = Workflow(
        "outer", version="1", input=str, steps=[inner], limits=Limits(run_cost=Decimal("0.50"))
    )
    assert outer.budget == Decimal("0.10")
    assert built().budget is None
