"""Types from step to step: through containers, past steps that may be left out, into workflows."""

from datetime import timedelta
from typing import Any, Literal, NotRequired, cast

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from app.authoring import (
    Agent,
    AgentStep,
    AskError,
    AskInput,
    Choose,
    Condition,
    ConditionNode,
    Confirm,
    Loop,
    LoopNode,
    Parallel,
    ParallelNode,
    Review,
    Router,
    RouterNode,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    StepsNode,
    Workflow,
    WorkflowMistakes,
    WorkflowNode,
    reply_with,
)
from app.channels import InboxChannel

people = InboxChannel("people")


class Errand(BaseModel):
    text: str


class Done(BaseModel):
    text: str
    score: int = 0


class Tone(BaseModel):
    tone: str


async def to_text(context: StepContext, value: Errand) -> str: ...
async def to_number(context: StepContext, value: str) -> int: ...
async def keep_text(context: StepContext, value: str) -> str: ...
async def keep_number(context: StepContext, value: int) -> int: ...
async def finish(context: StepContext, value: str) -> Done: ...
async def redo(context: StepContext, value: Done) -> Done: ...
async def whatever(context: StepContext, value: Any) -> Any: ...


def agent(name: str = "writer", **options: Any) -> Agent:
    given: dict[str, Any] = {"prompt": "Write.", "model": ScriptedModel([reply_with("done")])}
    return Agent(name, **(given | options))


def workflow(*steps: Any, **options: Any) -> Workflow:
    given: dict[str, Any] = {"version": "1", "input": Errand, "channels": [people]}
    return Workflow("work", steps=steps, **(given | options))


def mistakes(*steps: Any, **options: Any) -> list[str]:
    with pytest.raises(WorkflowMistakes) as caught:
        workflow(*steps, **options)
    return [str(each) for each in caught.value.mistakes]


# ── In a sequence ────────────────────────────────────────────────────────────────────────────────


def test_steps_hand_on_what_their_last_one_gives():
    built = workflow(Steps("both", [to_text, to_number]), keep_number)
    (both, _) = built.steps
    assert isinstance(both, StepsNode)
    assert both.output.validate_python(3) == 3
    assert mistakes(Steps("both", [to_text, to_number]), keep_text) == [
        "step 'both/to_number': gives int, and step 'keep_text' wants str"
    ]
    assert mistakes(to_text, Steps("both", [keep_number])) == [
        "step 'to_text': gives str, and step 'both/keep_number' wants int"
    ]


def test_the_first_step_of_a_container_takes_the_workflows_input():
    assert mistakes(Steps("a", [Steps("b", [keep_text])])) == [
        "step 'a/b/keep_text': wants str, and the workflow's input is Errand"
    ]


def test_an_agents_answer_becomes_what_is_wanted_behind_its_container():
    built = workflow(Steps("a", [to_text, Steps("b", [agent()])]), redo)
    assert isinstance(built.steps[0], StepsNode)
    (_, inner) = built.steps[0].steps
    assert isinstance(inner, StepsNode)
    (step,) = inner.steps
    assert isinstance(step, AgentStep)
    assert step.answer("yes") == Done(text="yes")


def test_an_agents_answer_must_fit_everything_that_may_read_it():
    taken = Condition("c", when=lambda value: True, then=[redo], otherwise=[finish])
    assert mistakes(agent(), taken) == [
        "step 'writer': answers in words, and step 'c/finish' wants str: give the agent output="
    ]


# ── Condition ────────────────────────────────────────────────────────────────────────────────────


def test_both_ways_through_a_condition_must_fit():
    split = Condition("c", when=bool, then=[to_number], otherwise=[keep_text])
    assert mistakes(to_text, split, keep_text) == [
        "step 'c/to_number': gives int, and step 'keep_text' wants str"
    ]
    assert mistakes(to_text, split, keep_number) == [
        "step 'c/keep_text': gives str, and step 'keep_number' wants int"
    ]
    assert mistakes(
        to_text, Condition("c", when=bool, then=[keep_text], otherwise=[keep_number])
    ) == ["step 'to_text': gives str, and step 'c/keep_number' wants int"]


def test_a_condition_without_otherwise_may_hand_on_what_it_was_given():
    assert mistakes(to_text, Condition("c", when=bool, then=[to_number]), keep_number) == [
        "step 'to_text': gives str, and step 'keep_number' wants int where step 'c' is left out"
    ]
    built = workflow(to_text, Condition("c", when=bool, then=[to_number]))
    assert built.output_schema["anyOf"] == [{"type": "integer"}, {"type": "string"}]


def test_a_condition_looks_at_what_it_is_given():
    def is_large(value: int) -> bool: ...

    assert mistakes(to_text, Condition("c", when=is_large, then=[keep_text])) == [
        "step 'to_text': gives str, and when= of step 'c' wants int"
    ]
    (condition,) = workflow(Condition("c", when=lambda value: True, then=[to_text])).steps
    assert isinstance(condition, ConditionNode)
    assert condition.when is not None
    assert condition.when.input.validate_json('{"text": "a"}') == Errand(text="a")


# ── Router ───────────────────────────────────────────────────────────────────────────────────────


def test_every_choice_of_a_router_must_fit():
    def pick(value: str) -> str: ...

    router = Router("r", choices=[to_number, keep_text], select=pick)
    assert mistakes(to_text, router, keep_text) == [
        "step 'r/to_number': gives int, and step 'keep_text' wants str"
    ]
    assert mistakes(router) == [
        "select= of step 'r': wants str, and the workflow's input is Errand",
        "step 'r/to_number': wants str, and the workflow's input is Errand",
        "step 'r/keep_text': wants str, and the workflow's input is Errand",
    ]


def several(value: Any) -> list[str]: ...


@pytest.mark.parametrize("select", [Choose("Which?", multiple=True), several])
def test_where_several_choices_may_be_taken_each_must_fit_the_others(select: Any):
    router = Router("r", choices=[to_number, Step("text", keep_text)], select=select)
    assert mistakes(to_text, router) == [
        "step 'r/to_number': gives int, and step 'r/text' wants str"
    ]


def test_where_one_choice_is_taken_it_need_not_fit_the_others():
    router = Router("r", choices=[to_number, finish], select=Choose("Which?"))
    built = workflow(to_text, router)
    assert isinstance(built.steps[1], RouterNode)
    assert built.output.validate_python(3) == 3


# ── Loop ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_feeds_itself():
    assert mistakes(to_text, Loop("l", steps=[to_number], max_iterations=2)) == [
        "step 'l/to_number': gives int, and step 'l/to_number' wants str"
    ]
    workflow(to_text, Loop("l", steps=[to_number], max_iterations=1))
    workflow(to_text, Loop("l", steps=[to_number, Step("text", whatever)], max_iterations=2))


def test_a_loop_looks_at_what_its_steps_give():
    def is_large(value: int) -> bool: ...

    loop = Loop("l", steps=[keep_text], until=is_large, max_iterations=2)
    assert mistakes(to_text, loop) == [
        "step 'l/keep_text': gives str, and until= of step 'l' wants int"
    ]
    looked = Loop("l", steps=[finish], until=lambda value: True, max_iterations=1)
    (_, node) = workflow(to_text, looked).steps
    assert isinstance(node, LoopNode)
    assert node.until is not None
    assert node.until.input.validate_json('{"text": "a"}') == Done(text="a")


def test_an_agent_in_a_loop_reads_what_it_wrote():
    (loop, _) = workflow(Loop("l", steps=[agent()], max_iterations=3), redo).steps
    assert isinstance(loop, LoopNode)
    (step,) = loop.steps
    assert isinstance(step, AgentStep)
    read = [
        step.input.validate_json(each) for each in ('{"text": "a"}', '{"text": "a", "score": 1}')
    ]
    assert read == [Errand(text="a"), Done(text="a", score=1)]


# ── Parallel ─────────────────────────────────────────────────────────────────────────────────────


class Both(TypedDict):
    text: str
    number: int


class Some(TypedDict):
    text: str
    number: NotRequired[int]


class BothModel(BaseModel):
    text: str
    number: int = 0


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


def side_by_side(**options: Any) -> Parallel:
    return Parallel("p", [Step("text", keep_text), Step("number", to_number, **options)])


def taking(wanted: Any) -> Step:
    async def take(context: StepContext, value: Any) -> str: ...

    take.__annotations__["value"] = wanted
    return Step("take", take)


@pytest.mark.parametrize(
    "wanted",
    [Any, dict, dict[str, Any], dict[str, str | int], Both, Some, BothModel, dict[str, Any] | None],
)
def test_a_parallel_gives_a_dict_of_outputs_by_name(wanted: Any):
    built = workflow(to_text, side_by_side(), taking(wanted))
    assert isinstance(built.steps[1], ParallelNode)
    given = {"text": "a", "number": 1}
    assert built.steps[1].output.validate_python(given) == given


@pytest.mark.parametrize("wanted", [str, list[str], Closed])
def test_a_parallel_gives_nothing_but_a_dict(wanted: type):
    name = wanted.__name__ if wanted in {str, Closed} else "list[str]"
    assert mistakes(to_text, side_by_side(), taking(wanted)) == [
        f"step 'p': gives a dict of text, number, and step 'take' wants {name}"
    ]


def test_the_parts_of_a_parallel_must_fit():
    assert mistakes(to_text, side_by_side(), taking(dict[str, str])) == [
        "step 'p/number': gives int, and step 'take' wants dict[str, str]"
    ]


def test_a_branch_that_may_be_left_out_is_not_in_the_dict():
    skipping = side_by_side(before=Confirm("Go?", on_reject="skip"))
    built = workflow(to_text, skipping)
    assert built.output.validate_python({"text": "a"}) == {"text": "a"}
    workflow(to_text, skipping, taking(Some))
    workflow(to_text, skipping, taking(dict[str, Any]))
    assert mistakes(to_text, skipping, taking(Both)) == [
        "step 'p/number': may be left out, and step 'take' wants Both"
    ]


def test_an_agent_in_a_parallel_answers_as_its_part_is_wanted():
    class Parts(TypedDict):
        done: Done
        words: str

    parallel = Parallel("p", [Step("done", agent("a")), Step("words", agent("b"))])
    (node, _) = workflow(parallel, taking(Parts)).steps
    assert isinstance(node, ParallelNode)
    done, words = cast("tuple[AgentStep, AgentStep]", node.steps)
    assert done.answer("a") == Done(text="a")
    assert words.answer("a") == "a"


# ── Workflows ────────────────────────────────────────────────────────────────────────────────────

inner = Workflow("inner", version="1", input=str, steps=[to_number], channels=[people])


def test_a_workflow_takes_its_input_and_gives_its_output():
    built = workflow(to_text, inner, keep_number)
    assert isinstance(built.steps[1], WorkflowNode)
    assert built.steps[1].workflow is inner
    assert mistakes(inner) == ["step 'inner': wants str, and the workflow's input is Errand"]
    assert mistakes(to_text, inner, keep_text) == [
        "step 'inner': gives int, and step 'keep_text' wants str"
    ]


def test_an_agent_answers_into_a_workflow():
    taking_done = Workflow("taking", version="1", input=Done, steps=[redo])
    (step, _) = workflow(agent(), taking_done).steps
    assert isinstance(step, AgentStep)
    assert step.answer("yes") == Done(text="yes")


# ── Steps that are left out ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "gates",
    [
        {"before": Confirm("Go?", on_reject="skip")},
        {"before": [AskInput("Which?", Tone, on_reject="skip")]},
        {"after": Review("Good?", on_reject="skip")},
        {"on_error": "skip"},
        {"on_error": AskError("And now?", on_expire="skip", expires_after=timedelta(hours=1))},
    ],
)
def test_where_a_step_may_be_left_out_the_next_one_sees_the_output_before_it(gates: Any):
    assert mistakes(to_text, Step("middle", to_number, **gates), keep_number) == [
        "step 'to_text': gives str, and step 'keep_number' wants int where step 'middle' is left out"
    ]
    built = workflow(to_text, Step("middle", to_number, **gates))
    assert built.output.validate_python("a") == "a"


def test_a_router_may_be_left_out():
    router = Router("r", choices=[to_number], select=Choose("Which?", on_reject="skip"))
    assert mistakes(to_text, router, keep_number) == [
        "step 'to_text': gives str, and step 'keep_number' wants int where step 'r' is left out"
    ]


def test_the_output_must_fit_where_all_steps_are_left_out():
    step = Step("only", to_text, on_error="skip")
    assert mistakes(step, output=str) == [
        "the workflow's output: is str where step 'only' is left out, and the workflow's input is Errand"
    ]


def test_a_failed_step_may_be_skipped_only_where_the_next_one_takes_what_it_was_given():
    asking = AskError("And now?")
    _, same, other, _ = workflow(
        to_text,
        Step("same", keep_text, on_error=asking),
        Step("other", to_number, on_error=asking),
        keep_number,
    ).steps
    assert (same.skippable, other.skippable) == (True, False)


def test_a_failed_branch_may_be_skipped_only_where_nobody_needs_it():
    asking = side_by_side(on_error=AskError("And now?"))
    free = workflow(to_text, asking).steps[1].children[1]
    needed = workflow(to_text, asking, taking(Both)).steps[1].children[1]
    assert (free.skippable, needed.skippable) == (True, False)


def test_a_function_may_name_what_it_selects():
    def pick(value: Errand) -> Literal["to_text", "whatever"]: ...

    workflow(Router("r", choices=[to_text, whatever], select=pick))
