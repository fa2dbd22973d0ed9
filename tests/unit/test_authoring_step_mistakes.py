"""A writer's mistakes in steps and their gates: all in one report, each with its place."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    Choose,
    Condition,
    Confirm,
    Loop,
    ModelRouter,
    Parallel,
    Review,
    Router,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    Workflow,
    WorkflowMistakes,
    ask_user,
    get_user_input,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel, InboxChannel

people = InboxChannel("people")
stranger = InboxChannel("stranger")
HOUR = timedelta(hours=1)


class Tone(BaseModel):
    tone: str


async def one(context: StepContext, value: str) -> str: ...
async def two(context: StepContext, value: str) -> str: ...


def yes(value: str) -> bool: ...
def pick(value: str) -> str: ...


def agent(name: str = "writer", **options: Any) -> Agent:
    given: dict[str, Any] = {"prompt": "Write.", "model": ScriptedModel([reply_with("done")])}
    return Agent(name, **(given | options))


def workflow(*steps: Any, **options: Any) -> Workflow:
    given: dict[str, Any] = {"version": "1", "input": str, "channels": [people]}
    return Workflow("work", steps=steps, **(given | options))


def mistakes(*steps: Any, **options: Any) -> list[str]:
    with pytest.raises(WorkflowMistakes) as caught:
        workflow(*steps, **options)
    return [str(each) for each in caught.value.mistakes]


def in_step(step: Any, **options: Any) -> str:
    """The one mistake of a step called `s`."""
    (found,) = mistakes(step, **options)
    assert found.startswith("step 's': ")
    return found.removeprefix("step 's': ")


def test_mistakes_at_any_depth_are_in_one_report_each_with_its_place():
    async def vague(context: StepContext, value): ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]

    inside: list[Any] = [
        Step("a", one, before=Confirm("", channel=stranger)),
        Loop("l", steps=[vague], max_iterations=0),  # pyright: ignore[reportUnknownArgumentType]
        Parallel("p", [Step("x", one, on_error="explode"), Step("x", two)]),  # pyright: ignore[reportArgumentType]
        Router(
            "r", choices=[one], select=ModelRouter(model="gpt", prompt="", after_decision="end")
        ),
    ]
    assert mistakes(Steps("top", [Condition("c", when=yes, then=inside)])) == [
        "step 'top/c/a': before=Confirm(…): the message is empty",
        "step 'top/c/l': max_iterations=0 must be a whole number from 1",
        "step 'top/c/l/vague': the return annotation is missing",
        "step 'top/c/l/vague': the annotation of 'value' is missing",
        "step 'top/c/p': two steps have the name 'x'",
        "step 'top/c/p/x': on_error= is 'fail', 'skip' or AskError(…), not 'explode'",
        "step 'top/c/r': select=ModelRouter(…): model 'gpt' must be written as 'provider:name'",
        "step 'top/c/r': select=ModelRouter(…): after_decision='end' is not a choice",
        "step 'top/c/p': gives a dict of x, x, and step 'top/c/r/one' wants str",
        "step 'top/c/a', before=Confirm(…): asks the channel 'stranger', which is not in channels=",
    ]


# ── Containers ───────────────────────────────────────────────────────────────────────────────────

CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "steps": lambda steps: Steps("s", steps),
    "condition": lambda steps: Condition("s", when=yes, then=steps),
    "router": lambda steps: Router("s", choices=steps, select=pick),
    "loop": lambda steps: Loop("s", steps=steps, max_iterations=2),
    "parallel": lambda steps: Parallel("s", steps),
}
LISTS = {"condition": "then", "router": "choices"}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("steps", [[], None, one, "one"])
def test_a_container_needs_steps(kind: str, steps: Any):
    found = in_step(CONTAINERS[kind](steps))
    assert found == f"{LISTS.get(kind, 'steps')}= must be a list with at least one step"


@pytest.mark.parametrize("kind", CONTAINERS)
def test_two_steps_in_a_container_of_one_name(kind: str):
    found = mistakes(CONTAINERS[kind]([one, Step("one", two)]))
    assert found == ["step 's': two steps have the name 'one'"]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_what_stands_in_a_container_must_be_a_step(kind: str):
    (found, *_) = mistakes(CONTAINERS[kind](["one"]))
    assert "'one' is not a step" in found


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_needs_a_name_that_fits_a_path(kind: str):
    part = CONTAINERS[kind]([one])
    named = type(part)(**(vars(part) | {"name": "a/b"}))
    assert any("'a/b' is not a name" in each for each in mistakes(named))


def test_one_name_may_stand_in_two_containers():
    workflow(Steps("a", [one, two]), Steps("b", [one, two]))


def test_a_name_may_not_stand_in_both_branches_of_a_condition():
    condition = Condition("s", when=yes, then=[one], otherwise=[one])
    assert in_step(condition) == "two steps have the name 'one'"


def test_steps_in_a_step_are_not_a_step():
    (found,) = mistakes(Step("s", Steps("inner", [one])))  # pyright: ignore[reportArgumentType]
    assert "is not a step: it is an Agent, a function, a Workflow, or Step(name, …)" in found


def test_otherwise_must_be_a_list():
    condition = Condition("s", when=yes, then=[one], otherwise=None)  # pyright: ignore[reportArgumentType]
    assert in_step(condition) == "otherwise= must be a list"


def test_a_description_must_be_a_text():
    assert in_step(Step("s", one, description=None)) == "description= must be a text"  # pyright: ignore[reportArgumentType]


def test_something_must_decide_a_condition():
    unasked = "nothing decides: it needs when=, or a Confirm in before="
    assert in_step(Condition("s", then=[one])) == unasked
    workflow(Condition("s", then=[one], before=Confirm("Really?")))


@pytest.mark.parametrize("count", [0, -1, None, 1.5, True])
def test_a_loop_needs_an_end(count: Any):
    found = in_step(Loop("s", steps=[one], max_iterations=count))
    assert found == f"max_iterations={count!r} must be a whole number from 1"


def takes_nothing() -> bool: ...
def takes_two(one: str, other: str) -> bool: ...
def takes_odd(value: Callable[[], int]) -> bool: ...


@pytest.mark.parametrize("name", ["when", "until", "select"])
def test_a_function_that_decides_takes_one_value(name: str):
    def deciding(fn: Any) -> Any:
        match name:
            case "when":
                return Condition("s", when=fn, then=[one])
            case "until":
                return Loop("s", steps=[one], until=fn, max_iterations=2)
            case _:
                return Router("s", choices=[one], select=fn)

    taking = f"{name}= must take one value, that before it"
    assert in_step(deciding(takes_nothing)) == taking
    assert in_step(deciding(takes_two)) == taking
    assert in_step(deciding("yes")) == f"{name}= is not a function: 'yes'"
    assert in_step(deciding(takes_odd)).startswith(f"{name}= takes what cannot be read from JSON:")


def test_a_function_that_decides_returns_what_decides():
    def truth(value: str) -> bool: ...
    def number(value: str) -> int: ...
    def listed(value: str) -> list[str]: ...

    assert in_step(Condition("s", when=listed, then=[one])) == (  # pyright: ignore[reportArgumentType]
        "when= returns list[str], and must return a bool"
    )
    assert in_step(Loop("s", steps=[one], until=number, max_iterations=2)) == (  # pyright: ignore[reportArgumentType]
        "until= returns int, and must return a bool"
    )
    assert in_step(Router("s", choices=[one], select=truth)) == (  # pyright: ignore[reportArgumentType]
        "select= returns bool, and must return the name of a choice, or a list of names"
    )


def test_a_function_must_not_select_what_is_no_choice():
    def wrong(value: str) -> Literal["one", "three"]: ...
    def wrong_list(value: str) -> list[Literal["one", "two", "three"]]: ...

    assert mistakes(Router("s", choices=[one, two], select=wrong)) == [
        "step 's': select= returns 'three', which is not a choice",
        "step 's': the choice 'two' could never be taken: select= does not return it",
    ]
    assert in_step(Router("s", choices=[one, two], select=wrong_list)) == (
        "select= returns 'three', which is not a choice"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": 7}, "model= must be 'provider:name', a LangChain chat model or a ScriptedModel"),
        ({"prompt": None}, "prompt= must be a text"),
        ({"after_decision": "end"}, "after_decision='end' is not a choice"),
        ({"timeout": 3}, "timeout= must be a timedelta, not int"),
        ({"retries": -1}, "retries=-1 must be a whole number from 0"),
    ],
)
def test_what_is_wrong_with_a_router_that_is_a_model(options: dict[str, Any], said: str):
    given: dict[str, Any] = {"model": "openai:gpt-5-mini", "prompt": "Pick."}
    router = Router("s", choices=[one], select=ModelRouter(**(given | options)))
    assert in_step(router) == f"select=ModelRouter(…): {said}"


# ── Every ask ────────────────────────────────────────────────────────────────────────────────────


def before(ask: Any) -> Any:
    return Step("s", one, before=ask)


def select(ask: Any) -> Any:
    return Router("s", choices=[one], select=ask)


def after(ask: Any) -> Any:
    return Step("s", one, after=ask)


def after_each(ask: Any) -> Any:
    return Loop("s", steps=[one], max_iterations=2, after_each=ask)


def on_error(ask: Any) -> Any:
    return Step("s", one, on_error=ask)


def made(ask: Any, **defaults: Any) -> Callable[..., Any]:
    def make(**options: Any) -> Any:
        return ask(**(defaults | options))

    return make


confirm = made(Confirm, message="Go?")
ask_input = made(AskInput, message="Which?", model=Tone)
choose = made(Choose, message="Which?")
review = made(Review, message="Good?")
ask_error = made(AskError, message="And now?")

ASKS = {
    "before=Confirm": (before, confirm, "reject, fail, wait, approve"),
    "before=AskInput": (before, ask_input, "reject, fail, wait"),
    "select=Choose": (select, choose, "reject, fail, wait"),
    "after=Review": (after, review, "reject, fail, wait, approve"),
    "after_each=Review": (after_each, review, "reject, fail, wait, approve"),
    "on_error=AskError": (on_error, ask_error, "fail, skip, wait"),
}


@pytest.mark.parametrize("place", ASKS)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"message": " "}, "the message is empty"),
        ({"channel": "people"}, "channel= is not a channel: 'people'"),
        ({"expires_after": timedelta(0)}, "expires_after= must be longer than nothing"),
        ({"expires_after": 60}, "expires_after= must be a timedelta, not int"),
        ({"on_expire": "wait"}, "on_expire='wait' could never happen without expires_after="),
        ({"remind_before": HOUR}, "remind_before= could never happen without expires_after="),
        (
            {"remind_before": 2 * HOUR, "expires_after": HOUR},
            "remind_before= is not shorter than expires_after=",
        ),
        ({"escalate_to": people}, "escalate_to= could never happen without expires_after="),
        (
            {"escalate_before": HOUR, "expires_after": 2 * HOUR},
            "escalate_before= needs escalate_to=",
        ),
        (
            {"escalate_before": HOUR, "expires_after": HOUR, "escalate_to": people},
            "escalate_before= is not shorter than expires_after=",
        ),
        ({"approvers": "ann"}, "approvers= must be a list of names"),
        ({"quorum": 0}, "quorum=0 must be a whole number from 1"),
        ({"quorum": 2, "approvers": ["ann"]}, "quorum=2 is larger than the 1 named approvers"),
    ],
)
def test_what_is_wrong_with_the_terms_of_an_ask(place: str, options: dict[str, Any], said: str):
    put, ask, _ = ASKS[place]
    assert in_step(put(ask(**options))) == f"{place}(…): {said}"


@pytest.mark.parametrize("place", ASKS)
def test_only_on_a_yes_or_a_no_can_several_agree(place: str):
    put, ask, allowed = ASKS[place]
    asked = put(ask(quorum=2))
    if "approve" in allowed:
        workflow(asked)
    else:
        said = "quorum=2 could never matter: only on a yes or a no can several agree"
        assert in_step(asked) == f"{place}(…): {said}"


@pytest.mark.parametrize("place", ASKS)
def test_an_expiry_means_what_the_ask_can_mean(place: str):
    put, ask, allowed = ASKS[place]
    for ending in ("reject", "fail", "wait", "approve", "skip", "retry", "cancel"):
        asked = put(ask(on_expire=ending, expires_after=HOUR))
        if ending in allowed.split(", "):
            workflow(asked)
        else:
            said = f"{place}(…): on_expire={ending!r} is unknown here: it is one of {allowed}"
            assert in_step(asked) == said


REJECTED = {
    "before=Confirm": "cancel, skip, fail, else",
    "before=AskInput": "cancel, skip, fail",
    "select=Choose": "cancel, skip, fail",
    "after=Review": "retry, skip, cancel, fail",
    "after_each=Review": "retry, cancel, fail",
}


@pytest.mark.parametrize("place", REJECTED)
def test_a_rejection_means_what_the_ask_can_mean(place: str):
    put, ask, _ = ASKS[place]
    for ending in ("cancel", "skip", "fail", "retry", "approve", "wait"):
        asked = put(ask(on_reject=ending))
        if ending in REJECTED[place].split(", "):
            workflow(asked)
        else:
            said = (
                f"{place}(…): on_reject={ending!r} is unknown here: it is one of {REJECTED[place]}"
            )
            assert in_step(asked) == said


def test_else_is_of_a_condition_that_has_an_otherwise():
    asking = Confirm("Go?", on_reject="else")
    assert in_step(before(asking)) == (
        "before=Confirm(…): on_reject='else' is of a Condition alone: it is one of cancel, skip, fail"
    )
    without = Condition("s", when=yes, then=[one], before=asking)
    assert in_step(without) == "before=Confirm(…): on_reject='else' needs otherwise="
    workflow(Condition("s", then=[one], otherwise=[two], before=asking))


def test_an_otherwise_that_nothing_leads_to():
    condition = Condition("s", then=[one], otherwise=[two], before=Confirm("Go?"))
    assert in_step(condition) == (
        "otherwise= could never run: it needs when=, or on_reject='else' of a Confirm"
    )


@pytest.mark.parametrize("ask", [review(), choose(), ask_error(), "yes", None, True])
def test_nothing_but_confirm_and_ask_input_stands_before_a_step(ask: Any):
    for listed in (ask, [ask]):
        assert in_step(before(listed)).startswith("before= takes Confirm and AskInput, not ")


@pytest.mark.parametrize("ask", [confirm(), choose(), ask_error(), "yes", [review()]])
def test_nothing_but_a_review_stands_after_a_step(ask: Any):
    assert in_step(after(ask)).startswith("after= takes a Review, not ")
    assert in_step(after_each(ask)).startswith("after_each= takes a Review, not ")


@pytest.mark.parametrize("ask", [confirm(), review(), None, "retry"])
def test_nothing_but_ask_error_is_asked_about_an_error(ask: Any):
    assert in_step(on_error(ask)).startswith("on_error= is 'fail', 'skip' or AskError(…), not ")


@pytest.mark.parametrize("ask", [confirm(), review()])
def test_nothing_but_choose_asks_for_a_route(ask: Any):
    assert in_step(select(ask)).startswith("select= is not a function: ")


# ── Asks that could never fire, or that nobody could answer ──────────────────────────────────────


def test_input_that_no_function_and_no_agent_could_read():
    asking = AskInput("Which?", Tone)
    said = "before=AskInput(…): nobody could read it here: it belongs before a function or an agent"
    nested = Workflow("nested", version="1", input=str, steps=[one])
    for step in (
        Steps("s", [one], before=asking),
        Parallel("s", [one], before=asking),
        Condition("s", when=yes, then=[one], before=asking),
        Step("s", nested, before=asking),
    ):
        assert in_step(step) == said
    workflow(Step("a", agent(), before=asking), Step("b", one, before=[asking]))


def test_the_same_input_asked_for_twice():
    asking = [AskInput("Which?", Tone), AskInput("Really?", Tone)]
    assert in_step(before(asking)) == (
        "two AskInput fill in Tone: context.input would find the first alone"
    )


@pytest.mark.parametrize("model", [str, dict, None, Tone(tone="a")])
def test_input_is_a_pydantic_model(model: Any):
    assert "is not a pydantic model" in in_step(before(AskInput("Which?", model)))


def test_input_must_be_readable_from_json():
    class Odd(BaseModel):
        value: Callable[[], int]

    assert "Odd cannot be read from JSON:" in in_step(before(AskInput("Which?", Odd)))


def test_retries_that_could_never_happen():
    assert in_step(after(review(on_reject="cancel", max_retries=2))) == (
        "after=Review(…): max_retries= could never matter with on_reject='cancel'"
    )
    assert in_step(after_each(review(max_retries=2))) == (
        "after_each=Review(…): max_retries= could never matter: max_iterations= ends the loop"
    )


@pytest.mark.parametrize("count", [0, -1, None, 1.5])
@pytest.mark.parametrize("place", ["after=Review", "on_error=AskError"])
def test_retries_are_a_count(place: str, count: Any):
    put, ask, _ = ASKS[place]
    found = in_step(put(ask(max_retries=count)))
    assert found == f"{place}(…): max_retries={count!r} must be a whole number from 1"


def test_a_review_looks_at_the_output_alone():
    async def later(value: str) -> bool: ...

    assert in_step(after(review(when="yes"))) == "after=Review(…): when= is not a function"
    assert in_step(after(review(when=takes_two))).endswith("when= must take one value, the output")
    assert in_step(after(review(when=later))).endswith(
        "must not be async: it looks at the output alone"
    )


def test_what_becomes_of_an_error_in_a_workflow_is_up_to_its_steps():
    nested = Workflow("nested", version="1", input=str, steps=[one])
    workflow(Step("s", nested, before=Confirm("Go?"), after=Review("Good?")))
    assert in_step(Step("s", nested, on_error=AskError("And now?"))) == (
        "on_error= could never matter here: it belongs to the steps of the workflow"
    )


@pytest.mark.parametrize("place", ASKS)
def test_an_ask_without_a_channel_asks_the_first_of_the_workflow(place: str):
    put, ask, _ = ASKS[place]
    built = workflow(put(ask()), channels=[stranger, people])
    assert {each["channel"] for each in built.description()["stops"]} == {"stranger"}
    assert mistakes(put(ask()), channels=[]) == [
        f"step 's', {place}(…): asks nobody: it needs channel=, or the workflow channels="
    ]


@pytest.mark.parametrize("place", ASKS)
def test_the_channels_of_every_ask_must_be_among_the_channels(place: str):
    put, ask, _ = ASKS[place]
    asked = put(ask(channel=stranger, escalate_to=InboxChannel("boss"), expires_after=HOUR))
    assert mistakes(asked) == [
        f"step 's', {place}(…): asks the channel 'stranger', which is not in channels=",
        f"step 's', {place}(…): asks the channel 'boss', which is not in channels=",
    ]


def test_an_approver_that_is_a_channel_must_be_among_the_channels():
    workflow(before(confirm(approvers=["channel:people"])))
    assert mistakes(before(confirm(approvers=["channel:boss", "ann"]))) == [
        "step 's', before=Confirm(…): the approver 'channel:boss' is not in channels="
    ]


@pytest.mark.parametrize("asking", [ask_user, get_user_input])
def test_a_tool_that_asks_needs_somebody_to_ask(asking: Any):
    workflow(agent(tools=[asking]))
    assert mistakes(agent(tools=[asking]), channels=[]) == [
        f"agent 'writer', tool {asking.name!r}: asks nobody: the workflow has no channels="
    ]


# ── Workflows in workflows ───────────────────────────────────────────────────────────────────────


def test_the_channels_of_a_workflow_in_a_workflow_are_asked_too():
    nested = Workflow(
        "nested", version="1", input=str, steps=[before(confirm())], channels=[stranger]
    )
    built = workflow(nested)
    assert [each.name for each in built.channels] == ["people", "stranger"]


def test_two_channels_of_one_name_in_two_workflows():
    nested = Workflow(
        "nested", version="1", input=str, steps=[one], channels=[AutoApproveChannel("people")]
    )
    assert mistakes(nested) == ["workflow: two channels have the name 'people'"]


def test_two_agents_of_one_name_in_two_workflows():
    nested = Workflow("nested", version="1", input=str, steps=[agent()])
    assert mistakes(agent(), nested) == ["workflow: two agents have the name 'writer'"]
    same = agent()
    nested = Workflow("nested", version="1", input=str, steps=[same])
    assert workflow(same, nested).agents == (same,)


def test_a_workflow_may_stand_in_a_workflow_twice():
    nested = Workflow("nested", version="1", input=str, steps=[one])
    workflow(Step("first", nested), Step("second", nested))
    assert mistakes(nested, nested) == ["workflow: two steps have the name 'nested'"]


# ── Arguments that a person fills in ─────────────────────────────────────────────────────────────


async def pay(customer: str, iban: str) -> str: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fill": ["iban"]}, "fill= could never be asked without channel="),
        ({"fill": "iban", "channel": people}, "fill= must be a list of parameters, or Fill(…)"),
        ({"fill": ["iban", "iban"], "channel": people}, "fill= names 'iban' twice"),
        ({"fill": ["bic"], "channel": people}, "fill= names 'bic', which is not a parameter"),
        (
            {"fill": ["iban"], "channel": people, "external": True},
            "fill= could never be asked with external=True: whoever does the call has them",
        ),
    ],
)
def test_what_is_wrong_with_what_is_filled_in(options: dict[str, Any], said: str):
    (found,) = mistakes(agent(tools=[tool(**options)(pay)]))
    assert found == f"agent 'writer', tool 'pay': {said}"
