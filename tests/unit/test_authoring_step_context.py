"""What steps read: input that was filled in, feedback, what was rejected, and which way they go."""

from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    AgentStep,
    AuthoringError,
    Choose,
    Condition,
    ConditionNode,
    Review,
    Router,
    RouterNode,
    ScriptedModel,
    Step,
    StepContext,
    Workflow,
    reply_with,
)
from app.channels import InboxChannel
from app.domain.ids import RunId, ThreadId

people = InboxChannel("people")


class Tone(BaseModel):
    tone: str


class LoudTone(Tone):
    loud: bool = True


def context(**given: Any) -> StepContext:
    return StepContext(run_id=RunId("r"), thread_id=ThreadId("t"), **given)


def test_input_is_read_by_its_model():
    filled = context(inputs=(LoudTone(tone="a"), Tone(tone="b")))
    assert filled.input(Tone) == Tone(tone="b")
    assert filled.input(LoudTone) == LoudTone(tone="a")


def test_input_that_was_not_asked_for_is_a_mistake_that_says_what_to_write():
    with pytest.raises(AuthoringError, match=r"there is no AskInput\(…, Tone\) before it"):
        context(inputs=(LoudTone(tone="a"),)).input(Tone)


def test_without_a_rejected_review_there_is_no_feedback_and_no_previous_output():
    assert (context().feedback, context().previous_output) == (None, None)


def writer() -> AgentStep:
    agent = Agent("writer", prompt="Write.", model=ScriptedModel([reply_with("done")]))
    (step,) = Workflow("work", version="1", input=str, steps=[agent]).steps
    assert isinstance(step, AgentStep)
    return step


def test_an_agent_reads_what_was_filled_in_below_its_work():
    assert writer().read("the work", inputs=[Tone(tone="a")]) == 'the work\n\nTone: {"tone":"a"}'


def test_an_agent_reads_what_was_rejected_and_why():
    read = writer().read("the work", feedback="shorter", previous_output=Tone(tone="long"))
    assert read == "the work\n\nYour previous answer was rejected: long\n\nFeedback: shorter"


# ── Ways ─────────────────────────────────────────────────────────────────────────────────────────


async def one(context: StepContext, value: str) -> str: ...
async def two(context: StepContext, value: str) -> str: ...


def router(select: Any) -> RouterNode:
    listed = Router("r", choices=[one, two], select=select)
    (node,) = Workflow("work", version="1", input=str, steps=[listed], channels=[people]).steps
    assert isinstance(node, RouterNode)
    return node


@pytest.mark.parametrize(
    ("selected", "names"),
    [("one", ("one",)), (["two", "one"], ("two", "one")), (("two",), ("two",))],
)
def test_a_function_selects_one_or_several_in_its_order(selected: Any, names: tuple[str, ...]):
    assert router(Choose("Which?")).chosen(selected) == names


@pytest.mark.parametrize(
    ("selected", "said"),
    [
        ("three", "the router 'r' has no choice 'three'"),
        (["one", "three"], "the router 'r' has no choice 'three'"),
        ([], "the router 'r' needs the name of a choice, or a list"),
        (None, "the router 'r' needs the name of a choice, or a list"),
        (True, "the router 'r' needs the name of a choice, or a list"),
        ([["one"]], r"the router 'r' has no choice \['one'\]"),
        (["one", "one"], "the router 'r' was given a choice twice"),
    ],
)
def test_what_is_no_choice_is_refused(selected: Any, said: str):
    with pytest.raises(ValueError, match=said):
        router(Choose("Which?")).chosen(selected)


def test_a_choice_is_found_by_its_name():
    assert router(Choose("Which?")).choice("two").name == "two"


async def test_a_look_is_a_function_sync_or_async():
    async def later(value: str) -> bool:
        return value == "a"

    def condition(when: Any) -> ConditionNode:
        listed = Condition("c", when=when, then=[one])
        (node,) = Workflow("work", version="1", input=str, steps=[listed]).steps
        assert isinstance(node, ConditionNode)
        return node

    for when in (later, lambda value: value == "a"):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        look = condition(when).when
        assert look is not None
        assert (await look.at("a"), await look.at("b")) == (True, False)
    bare = condition(bool).when
    assert bare is not None
    assert (await bare.at("a"), await bare.at("")) == (True, False)


def test_a_review_asks_unless_its_condition_says_no_and_nothing_else():
    def crashes(value: str) -> bool:
        raise RuntimeError(value)

    def vague(value: str) -> Any:
        return None

    conditions: list[Any] = [None, lambda _: True, lambda _: False, crashes, vague]  # pyright: ignore[reportUnknownLambdaType]
    asked = [Review("Good?", when=each).asks_about("a") for each in conditions]
    assert asked == [True, True, False, True, True]


def test_what_a_model_router_reads_of_a_choice():
    async def told(context: StepContext, value: str) -> str:
        """Tells everybody."""
        return value

    agent = Agent(
        "writer", description="Writes", prompt="", model=ScriptedModel([reply_with("done")])
    )
    listed = Router(
        "r",
        choices=[agent, told, one, Step("named", told, description="Tells some")],
        select=Choose("Which?"),
    )
    (node,) = Workflow("work", version="1", input=str, steps=[listed], channels=[people]).steps
    assert [each.description for each in node.children] == [
        "Writes",
        "Tells everybody.",
        "",
        "Tells some",
    ]
