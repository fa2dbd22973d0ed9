"""Workflows that are written rightly: what their steps take, give and are called."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.authoring import (
    Agent,
    AgentStep,
    Approval,
    FunctionStep,
    Limits,
    ScriptedModel,
    Sensitive,
    Step,
    StepContext,
    Tool,
    Workflow,
    reply_with,
    tool,
)
from app.channels import HttpCallbackChannel, InboxChannel
from app.domain.ids import RunId, ThreadId

people = InboxChannel("people")
context = StepContext(run_id=RunId("r"), thread_id=ThreadId("t"))


class Errand(BaseModel):
    text: str


class Done(BaseModel):
    text: str
    score: int = 0


class Article(BaseModel):
    title: str
    body: str


@tool(channel=people)
async def send(to: str, password: Annotated[str, Sensitive] = "preset") -> str:
    """Sends it."""
    return to


def agent(name: str = "assistant", **options: Any) -> Agent:
    given: dict[str, Any] = {
        "prompt": "Do it.",
        "model": ScriptedModel([reply_with("done")]),
        "tools": [send],
    }
    return Agent(name, **(given | options))


async def count(context: StepContext, errand: Errand) -> int:
    return len(errand.text)


def double(context: StepContext, number: float) -> float:
    return number * 2


def workflow(*steps: Any, **options: Any) -> Workflow:
    given: dict[str, Any] = {"version": "1", "input": Errand, "channels": [people]}
    return Workflow("work", steps=steps, **(given | options))


def test_functions_and_agents_keep_their_name_as_the_steps_name():
    built = workflow(agent(), agent("second"), Step("a third step", agent("third")), output=Done)
    assert [step.name for step in built.steps] == ["assistant", "second", "a third step"]


async def test_function_steps_check_what_they_are_given_and_what_they_give():
    step, doubled = workflow(count, double, output=float).steps
    assert isinstance(step, FunctionStep)
    assert isinstance(doubled, FunctionStep)
    assert await step.call(context, Errand(text="four")) == 4
    assert await doubled.call(context, 4) == 8.0
    with pytest.raises(ValidationError):
        await step.call(context, "four")


async def test_an_object_that_can_be_called_is_a_step_by_its_name():
    class Counter:
        async def __call__(self, context: StepContext, errand: Errand) -> int:
            return 1

    (step,) = workflow(Step("count", Counter())).steps
    assert isinstance(step, FunctionStep)
    assert await step.call(context, Errand(text="")) == 1


def agent_step(built: Workflow) -> AgentStep:
    (step,) = (each for each in built.steps if isinstance(each, AgentStep))
    return step


@dataclass
class Plain:
    a: int


class Titled(BaseModel):
    text: str
    urgent: bool


class Numbered(BaseModel):
    number: int


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("a text", "a text"),
        (Errand(text="a text"), "a text"),
        (Titled(text="a text", urgent=True), '{"text":"a text","urgent":true}'),
        (Numbered(number=1), '{"number":1}'),
        ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'),
        (Plain(a=1), '{"a":1}'),
        (None, "null"),
    ],
)
def test_an_agent_reads_a_text_or_the_only_text_of_a_model_or_json(value: Any, read: str):
    assert agent_step(workflow(agent())).read(value) == read


def test_an_answer_is_put_into_the_only_string_field_of_what_comes_next():
    async def publish(context: StepContext, done: Done) -> str:
        return done.text

    assert agent_step(workflow(agent(), output=Done)).answer("yes") == Done(text="yes")
    assert agent_step(workflow(agent(), publish)).answer("yes") == Done(text="yes")


def test_an_answer_is_text_where_text_or_anything_is_wanted():
    async def shout(context: StepContext, text: str) -> str:
        return text.upper()

    assert agent_step(workflow(agent())).answer("yes") == "yes"
    assert agent_step(workflow(agent(), output=str)).answer("yes") == "yes"
    assert agent_step(workflow(agent(), output=str | None)).answer("yes") == "yes"
    assert agent_step(workflow(agent(), shout)).answer("yes") == "yes"


def test_an_answer_that_breaks_the_rules_of_its_field_is_refused():
    class Short(BaseModel):
        text: Annotated[str, Field(max_length=2)]

    with pytest.raises(ValidationError):
        agent_step(workflow(agent(), output=Short)).answer("yes")


def test_an_agent_with_an_output_answers_in_json():
    step = agent_step(workflow(agent(output=Article), output=Article))
    article = Article(title="a", body="b")
    assert step.said.validate_json('{"title": "a", "body": "b"}') == article
    assert step.answer(article) == article
    with pytest.raises(ValidationError):
        step.said.validate_json("not json")


def test_input_is_read_with_every_member_named():
    built = workflow(agent())
    assert built.read_input({"text": "a"}) == Errand(text="a")
    for wrong in ({}, {"text": "a", "more": 1}, "a", None):
        with pytest.raises(ValidationError):
            built.read_input(wrong)


def test_the_output_is_that_of_the_last_step_unless_it_is_said():
    assert workflow(count).output_schema == {"type": "integer"}
    assert workflow(agent()).output_schema == {"type": "string"}
    assert workflow(agent(), output=Done).output_schema["title"] == "Done"


def test_two_channels_of_one_class_and_name_are_the_same_channel():
    workflow(agent(), channels=[InboxChannel("people")])


def test_a_channel_that_nobody_asks_by_declaration_may_be_there_for_questions():
    built = workflow(count, channels=[people, HttpCallbackChannel("bosses")])
    assert built.channel("bosses") is not None
    assert built.channel("nobody") is None


# ── Fingerprints ─────────────────────────────────────────────────────────────────────────────────


def fingerprint(tools: list[Tool[..., Any]], **options: Any) -> str:
    return workflow(agent(tools=tools, **options)).fingerprint


def test_words_models_and_the_version_do_not_change_the_fingerprint():
    class First(BaseModel):
        """One."""

        title: str = Field(description="of it", examples=["a"])

    class Second(BaseModel):
        """Another."""

        title: str

    def variant(model: type[BaseModel]) -> Tool[..., Any]:
        async def send(draft: Any) -> str: ...

        send.__doc__ = model.__doc__
        send.__annotations__["draft"] = model
        return tool(send)

    before = fingerprint([variant(First)], prompt="One", model="openai:a", description="one")
    after = workflow(
        agent(
            tools=[variant(Second)], prompt="Two", model="openai:b", limits=Limits(model_calls=3)
        ),
        version="2",
    )
    assert before == after.fingerprint


def test_the_shape_changes_the_fingerprint():
    async def plain(to: str) -> str: ...
    async def other(to: str) -> str: ...
    async def typed(to: int) -> str: ...

    typed.__name__ = "plain"
    shapes = [
        fingerprint([]),
        fingerprint([tool(plain)]),
        fingerprint([tool(other)]),
        fingerprint([tool(typed)]),
        fingerprint([tool(channel=people)(plain)]),
        fingerprint([tool(channel=people, external=True)(plain)]),
        fingerprint([tool(channel=people, external=True, approval=Approval())(plain)]),
        workflow(agent("renamed", tools=[])).fingerprint,
        workflow(Step("renamed", agent(tools=[]))).fingerprint,
        workflow(agent(tools=[]), agent("second", tools=[])).fingerprint,
        workflow(agent("second", tools=[]), agent(tools=[])).fingerprint,
    ]
    assert len(set(shapes)) == len(shapes)


def test_the_order_of_an_agents_tools_does_not_change_the_fingerprint():
    async def one() -> None: ...
    async def two() -> None: ...

    assert fingerprint([tool(one), tool(two)]) == fingerprint([tool(two), tool(one)])


# ── Description ──────────────────────────────────────────────────────────────────────────────────


def test_a_description_is_json_and_says_whom_each_tool_asks():
    built = workflow(agent(limits=Limits(tool_calls=8)), count_words, output=int)
    shown = built.description()
    assert json.loads(json.dumps(shown)) == shown
    assert [(each["type"], each["path"]) for each in shown["steps"]] == [
        ("agent", "work/assistant"),
        ("function", "work/count_words"),
    ]
    (described,) = shown["agents"]
    assert described["limits"] == {
        "model_calls": {"limit": 12, "default": True},
        "tool_calls": {"limit": 8, "default": False},
    }
    (asked,) = described["tools"][0]["asks"]
    assert (asked["kind"], asked["channel"]) == ("approval", "people")
    assert 's0t0{{"send: approval by people"}}' in shown["graph"]


async def count_words(context: StepContext, text: str) -> int:
    return len(text.split())


def test_a_description_tells_no_prompt_no_key_and_no_sensitive_default():
    class Chat:
        api_key = "sk-secret"

        def bind_tools(self, *args: Any, **kwargs: Any) -> Any: ...
        async def ainvoke(self, *args: Any, **kwargs: Any) -> Any: ...
        def __repr__(self) -> str:
            return self.api_key

    shown = repr(workflow(agent(model=Chat(), prompt="the prompt")).description())
    assert "Chat" in shown
    for hidden in ("sk-secret", "the prompt", "preset"):
        assert hidden not in shown
