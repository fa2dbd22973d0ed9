"""A writer's mistakes: parts raise none, the workflow raises all, each with its place."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    Approval,
    AuthoringError,
    Channel,
    Limits,
    ScriptedModel,
    Step,
    StepContext,
    ToolContext,
    Workflow,
    WorkflowMistakes,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel, HttpCallbackChannel, InboxChannel

people = InboxChannel("people")
bosses = HttpCallbackChannel("bosses")
HOUR = timedelta(hours=1)


class Errand(BaseModel):
    text: str


class Article(BaseModel):
    title: str
    body: str


class NoSchema:
    """Not a type that JSON can say."""


def agent(name: Any = "assistant", **options: Any) -> Agent:
    given: dict[str, Any] = {"prompt": "Do it.", "model": ScriptedModel([reply_with("done")])}
    return Agent(name, **(given | options))


def mistakes(*steps: Any, **options: Any) -> list[str]:
    given: dict[str, Any] = {
        "name": "work",
        "version": "1.0.0",
        "input": Errand,
        "channels": [people, bosses],
        "steps": list(steps or [agent()]),
    }
    with pytest.raises(WorkflowMistakes) as caught:
        Workflow(**(given | options))
    return [str(mistake) for mistake in caught.value.mistakes]


def in_tool(fn: Callable[..., Any], **options: Any) -> str:
    """The one mistake of a tool made of `fn`."""
    made = tool(**options)(fn)
    (found,) = mistakes(agent(tools=[made]))
    place = f"agent 'assistant', tool {made.name!r}: "
    assert found.startswith(place)
    return found.removeprefix(place)


async def send(to: str) -> str:
    return to


def in_approval(**options: Any) -> str:
    found = in_tool(send, channel=people, approval=Approval(**options))
    assert found.startswith("approval: ")
    return found.removeprefix("approval: ")


def in_step(step: Any, **options: Any) -> str:
    (found,) = mistakes(step, **options)
    return found


def test_all_mistakes_are_in_one_report_each_with_its_place():
    @tool(channel=InboxChannel("stranger"))
    async def first(to):  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
        return to  # pyright: ignore[reportUnknownVariableType]

    @tool(retries=-1)
    async def second() -> str: ...

    async def step(context: StepContext, value: int) -> str: ...

    parts = [agent(tools=[first, second], limits=Limits(model_calls=0)), step]
    with pytest.raises(AuthoringError) as caught:
        Workflow("work", version="", input=Errand, steps=parts, history=-1)
    assert caught.value.code == "authoring_error"
    assert caught.value.message.splitlines() == [
        "The workflow 'work' has 8 mistakes:",
        "  - workflow: version '' must be text as '1.0.0': letters, digits, '.', '+', '_' or '-'",
        "  - workflow: history=-1 must be a whole number from 0",
        "  - step 'assistant': answers in words, and step 'step' wants int: give the agent output=",
        "  - agent 'assistant': limits: model_calls=0 must be a whole number from 1",
        "  - agent 'assistant', tool 'first': the return annotation is missing",
        "  - agent 'assistant', tool 'first': the annotation of 'to' is missing",
        "  - agent 'assistant', tool 'second': retries=-1 must be a whole number from 0",
        "  - agent 'assistant', tool 'first': asks the channel 'stranger', which is not in channels=",
    ]


# ── Workflow ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", "two words", "a/b", "1st", "é", "a" * 65, None, 7])
def test_a_workflows_name_must_fit_an_address(name: Any):
    assert mistakes(name=name)[0].startswith(f"workflow: {name!r} is not a name")


@pytest.mark.parametrize("version", ["", " 1", "1/2", None, 1.0])
def test_a_version_must_be_a_short_text(version: Any):
    assert mistakes(version=version)[0].startswith(f"workflow: version {version!r} must be text")


@pytest.mark.parametrize("steps", [[], None, "steps", agent()])
def test_steps_must_be_a_list_that_is_not_empty(steps: Any):
    assert mistakes(steps=steps) == ["workflow: steps= must be a list with at least one step"]


def test_an_input_or_output_that_json_cannot_say_is_a_mistake():
    (found,) = mistakes(input=NoSchema)
    assert found.startswith("workflow: input= cannot be read from JSON:")
    found, *_ = mistakes(output=Callable[[], int])
    assert found.startswith("workflow: output= cannot be read from JSON:")


def test_two_steps_of_one_name():
    async def same(context: StepContext, value: Errand) -> Errand: ...

    assert mistakes(same, same) == ["workflow: two steps have the name 'same'"]


def test_two_agents_of_one_name():
    found = mistakes(Step("one", agent()), Step("two", agent()))
    assert found == ["workflow: two agents have the name 'assistant'"]


def test_one_agent_in_two_steps_is_no_mistake():
    same = agent()
    Workflow("work", version="1", input=Errand, steps=[Step("one", same), Step("two", same)])


@pytest.mark.parametrize("history", [-1, None, 1.5, True])
def test_history_is_a_count(history: Any):
    assert mistakes(history=history) == [
        f"workflow: history={history!r} must be a whole number from 0"
    ]


# ── Channels ─────────────────────────────────────────────────────────────────────────────────────


def test_a_channel_in_use_must_be_among_the_channels():
    assert (
        in_tool(send, channel=InboxChannel("x"))
        == "asks the channel 'x', which is not in channels="
    )


def test_the_channels_of_an_approval_must_be_among_the_channels():
    stranger = InboxChannel("x")
    approval = Approval(channel=stranger, expires_after=HOUR, escalate_to=InboxChannel("y"))
    found = mistakes(agent(tools=[tool(approval=approval)(send)]))
    assert [each.partition(": ")[2] for each in found] == [
        "asks the channel 'x', which is not in channels=",
        "asks the channel 'y', which is not in channels=",
    ]


def test_a_namesake_of_another_class_is_not_the_same_channel():
    found = in_tool(send, channel=AutoApproveChannel("people"))
    assert found == (
        "asks AutoApproveChannel('people'), and channels= has another InboxChannel('people')"
    )


@pytest.mark.parametrize("other", [InboxChannel("people"), bosses.__class__("People")])
def test_two_channels_of_one_name(other: Channel):
    assert mistakes(channels=[people, other]) == ["workflow: two channels have the name 'people'"]


@pytest.mark.parametrize("name", ["", "a b", "a__b", "a/b"])
def test_a_channels_name_must_fit_a_setting(name: str):
    (found,) = mistakes(channels=[InboxChannel(name)])
    assert found.startswith(f"channel {name!r}: {name!r} is not a name")


def test_channels_must_be_a_list_of_channels():
    assert mistakes(channels=people) == ["workflow: channels= must be a list"]
    assert mistakes(channels=["people"]) == [
        "workflow: channels= has 'people', which is not a channel"
    ]
    assert in_tool(send, channel="people") == "channel= is not a channel: 'people'"


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "gpt-5"}, "model 'gpt-5' must be written as 'provider:name'"),
        ({"model": "openai:"}, "model 'openai:' must be written as 'provider:name'"),
        (
            {"model": 7},
            "model= must be 'provider:name', a LangChain chat model or a ScriptedModel",
        ),
        ({"model": ScriptedModel([])}, "its scripted model has no replies"),
        ({"model": ScriptedModel(["a"])}, "its scripted model has 'a', which is not a Reply"),  # pyright: ignore[reportArgumentType]
        ({"prompt": None}, "prompt= must be a text"),
        ({"description": None}, "description= must be a text"),
        ({"tools": None}, "tools= must be a list"),
        ({"tools": tool(send)}, "tools= must be a list"),
        ({"tools": [len]}, f"{len!r} is not a tool: decorate the function with @tool"),
        ({"tools": [tool(send), tool(send)]}, "two of its tools have the name 'send'"),
        ({"limits": 3}, "limits= must be Limits(...)"),
        (
            {"limits": Limits(model_calls=0)},
            "limits: model_calls=0 must be a whole number from 1",
        ),
        (
            {"limits": Limits(tool_calls=-1)},
            "limits: tool_calls=-1 must be a whole number from 0",
        ),
        ({"output": 3}, "output= must be a pydantic model"),
        ({"timeout": timedelta(0)}, "timeout= must be longer than nothing"),
        ({"timeout": 30}, "timeout= must be a timedelta, not int"),
        ({"timeout": None}, "timeout= must be a timedelta, not NoneType"),
        ({"retries": 1.5}, "retries=1.5 must be a whole number from 0"),
    ],
)
def test_what_is_wrong_with_an_agent(options: dict[str, Any], said: str):
    assert mistakes(agent(**options)) == [f"agent 'assistant': {said}"]


def test_an_agents_output_must_have_a_schema():
    class Odd(BaseModel, arbitrary_types_allowed=True):
        value: NoSchema

    (found,) = mistakes(agent(output=Odd))
    assert found.startswith("agent 'assistant': output= cannot be read from JSON:")


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a[1]", "a\nb", None])
def test_an_agents_name_must_fit_a_path(name: Any):
    assert f"agent {name!r}: {name!r} is not a name" in mistakes(agent(name))[-1]


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_must_say_what_it_returns():
    async def silent(to: str): ...

    assert in_tool(silent) == "the return annotation is missing"


def test_a_tool_must_say_what_it_takes():
    async def vague(to, *rest: str, **others: int) -> str: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]

    found = mistakes(agent(tools=[tool(vague)]))  # pyright: ignore[reportUnknownArgumentType]
    assert [each.partition("'vague': ")[2] for each in found] == [
        "the annotation of 'to' is missing",
        "*rest: str is not allowed: every argument needs a name and a type",
        "**others: int is not allowed: every argument needs a name and a type",
    ]


def test_the_context_of_a_tool_comes_first():
    async def late(to: str, context: ToolContext) -> str: ...

    assert in_tool(late) == "the context must be the first parameter"


def test_a_tool_returns_and_does_not_yield():
    async def streams() -> AsyncIterator[str]:
        yield "a"

    assert in_tool(streams) == "it yields; it must return its result"


def test_the_context_of_a_step_is_not_one_of_a_tool():
    async def confused(context: StepContext, to: str) -> str: ...

    assert in_tool(confused) == "a tool gets a ToolContext, not a StepContext"


def test_types_that_json_cannot_say_are_mistakes():
    async def takes(it: NoSchema) -> str: ...
    async def calls(it: Callable[[], int]) -> str: ...
    async def gives() -> NoSchema: ...

    assert in_tool(takes).startswith("'it' cannot be read from JSON:")
    assert in_tool(calls).startswith("'it' cannot be read from JSON:")
    assert in_tool(gives).startswith("its result cannot be stored as JSON:")


def test_a_model_without_a_schema_is_a_mistake_of_its_tool():
    class Odd(BaseModel):
        value: Callable[[], int]

    async def takes(it: Odd) -> str: ...

    assert in_tool(takes).startswith("'it' cannot be read from JSON:")


def test_a_default_must_be_of_its_type():
    async def takes(to: int = "many") -> str: ...  # pyright: ignore[reportArgumentType]

    assert in_tool(takes) == "the default of 'to' is not of its type"


def test_a_parameter_with_a_leading_underscore_cannot_be_an_argument():
    async def hides(_to: str) -> str: ...

    assert in_tool(hides) == "'_to' begins with '_', which no argument of a model may"


def test_an_annotation_that_names_nothing_is_a_mistake():
    async def lost(to: str) -> str: ...

    lost.__annotations__["to"] = "Nowhere"
    assert in_tool(lost) == "its annotations cannot be read: name 'Nowhere' is not defined"


def test_a_lambda_is_no_tool():
    assert "'<lambda>' is not a name" in mistakes(agent(tools=[tool(lambda: "a")]))[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": timedelta(seconds=-1)}, "timeout= must be longer than nothing"),
        ({"timeout": 3}, "timeout= must be a timedelta, not int"),
        ({"retries": -1}, "retries=-1 must be a whole number from 0"),
        ({"retries": True}, "retries=True must be a whole number from 0"),
        (
            {"on_crash": "explode", "channel": people},
            "on_crash='explode' is unknown here: it is one of run_again, ask",
        ),
        ({"on_crash": "ask"}, "on_crash='ask' could never ask anybody without channel="),
        ({"external": True}, "external=True could never be asked without channel="),
        (
            {"external": True, "channel": people, "timeout": HOUR},
            "timeout= could never matter with external=True: the function is not run",
        ),
        (
            {"external": True, "channel": people, "retries": 1},
            "retries= could never matter with external=True: the function is not run",
        ),
        (
            {"external": True, "channel": people, "on_crash": "ask"},
            "on_crash= could never matter with external=True: the function is not run",
        ),
        ({"approval": Approval()}, "approval= could never fire without channel="),
        ({"approval": "yes", "channel": people}, "approval= must be an Approval(...)"),
    ],
)
def test_what_is_wrong_with_a_tools_options(options: dict[str, Any], said: str):
    assert in_tool(send, **options) == said


# ── Approvals ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"message": ""}, "the message is empty"),
        (
            {"on_expire": "skip", "expires_after": HOUR},
            "on_expire='skip' is unknown here: it is one of reject, fail, wait, approve",
        ),
        ({"on_expire": "fail"}, "on_expire='fail' could never happen without expires_after="),
        ({"expires_after": timedelta(0)}, "expires_after= must be longer than nothing"),
        ({"expires_after": 60}, "expires_after= must be a timedelta, not int"),
        ({"remind_before": HOUR}, "remind_before= could never happen without expires_after="),
        (
            {"remind_before": HOUR, "expires_after": HOUR},
            "remind_before= is not shorter than expires_after=",
        ),
        ({"escalate_to": bosses}, "escalate_to= could never happen without expires_after="),
        (
            {"escalate_before": HOUR, "expires_after": 2 * HOUR},
            "escalate_before= needs escalate_to=",
        ),
        (
            {"escalate_to": "bosses", "expires_after": HOUR},
            "escalate_to= is not a channel: 'bosses'",
        ),
        ({"quorum": 0}, "quorum=0 must be a whole number from 1"),
        (
            {"quorum": 3, "approvers": ["ann", "bob"]},
            "quorum=3 is larger than the 2 named approvers",
        ),
        ({"approvers": "ann"}, "approvers= must be a list of names"),
        (
            {"approvers": ["ann", "group:"]},
            "'group:' is not an approver: it is a name, 'group:…' or 'channel:…'",
        ),
        ({"approvers": ["ann", "ann"]}, "the approver 'ann' stands there twice"),
        ({"when": "large"}, "when= is not a function"),
    ],
)
def test_what_is_wrong_with_an_approval(options: dict[str, Any], said: str):
    assert in_approval(**options) == said


def test_a_quorum_may_be_larger_than_the_names_if_a_group_is_among_them():
    approval = Approval(quorum=3, approvers=["ann", "group:finance"])
    asking = agent(tools=[tool(channel=people, approval=approval)(send)])
    Workflow("work", version="1", input=Errand, steps=[asking], channels=[people])


def test_a_condition_that_does_not_take_the_arguments():
    def of_nothing() -> bool: ...
    def of_another(amount: int) -> bool: ...

    assert in_approval(when=of_nothing).startswith("when= does not take the tool's arguments")
    assert in_approval(when=of_another).startswith("when= does not take the tool's arguments")


def test_a_condition_must_not_be_async():
    async def large(to: str) -> bool: ...

    assert in_approval(when=large) == "when= must not be async: it looks at the arguments alone"


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_must_be_an_agent_or_a_function():
    found = "'research' is not a step: it is an Agent, a function, a Workflow, or Step(name, …)"
    assert in_step("research").endswith(found)
    assert "is not a step" in in_step(tool(send))


def test_a_step_without_a_name_of_its_own_needs_one():
    async def named(context: StepContext, value: Errand) -> str: ...

    found, *_ = mistakes(lambda context, value: value)  # pyright: ignore[reportUnknownLambdaType]
    assert found == "step '<lambda>': a lambda has no name: write Step(name, …)"
    Workflow("work", version="1", input=Errand, steps=[Step("a", partial(named))])


@pytest.mark.parametrize("name", ["", "a/b", "a[0]", None])
def test_a_steps_name_must_fit_a_path(name: Any):
    assert in_step(Step(name, agent())).startswith(f"step {name!r}: {name!r} is not a name")


def test_a_step_takes_the_context_and_a_value():
    async def one(value: Errand) -> str: ...
    async def three(context: StepContext, value: Errand, more: int) -> str: ...
    async def swapped(value: Errand, context: StepContext) -> str: ...

    assert in_step(one) == "step 'one': it takes 1 parameters; a step takes (context, value)"
    assert in_step(three) == "step 'three': it takes 3 parameters; a step takes (context, value)"
    assert any(
        "the first parameter, 'value', must be a StepContext" in each for each in mistakes(swapped)
    )


def test_a_step_must_say_what_it_takes_and_returns():
    async def vague(context: StepContext, value): ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]

    assert mistakes(vague) == [  # pyright: ignore[reportUnknownArgumentType]
        "step 'vague': the return annotation is missing",
        "step 'vague': the annotation of 'value' is missing",
    ]


def test_a_steps_types_must_be_storable():
    async def takes(context: StepContext, value: NoSchema) -> str: ...
    async def gives(context: StepContext, value: Errand) -> NoSchema: ...

    assert "step 'takes': its input cannot be stored as JSON" in mistakes(takes)[0]
    assert "step 'gives': its result cannot be stored as JSON" in in_step(gives)


def test_types_must_fit_from_the_input_over_the_steps_to_the_output():
    async def first(context: StepContext, value: Article) -> int: ...
    async def second(context: StepContext, value: list[str]) -> str: ...

    assert mistakes(first, second, output=Article) == [
        "step 'first': wants Article, and the workflow's input is Errand",
        "step 'first': gives int, and step 'second' wants list[str]",
        "step 'second': gives str, and the workflow's output is Article",
    ]


def test_an_agents_answer_must_fit_what_comes_next():
    class Rated(BaseModel):
        text: str
        score: int

    async def publish(context: StepContext, article: Article) -> str: ...

    assert in_step(agent(), output=Rated) == (
        "step 'assistant': answers in words, and the workflow's output is Rated: give the agent output="
    )
    (found,) = mistakes(agent(), publish)
    assert found.startswith("step 'assistant': answers in words, and step 'publish' wants Article")
    (found,) = mistakes(agent(output=Errand), publish)
    assert found == "step 'assistant': gives Errand, and step 'publish' wants Article"
