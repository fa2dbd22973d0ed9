"""What is told of steps: their tree, where they may stop, what may be answered, and their shape."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    Approval,
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
    Sensitive,
    Step,
    StepContext,
    Steps,
    Workflow,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from examples.publishing import publishing

people = InboxChannel("people")


class Tone(BaseModel):
    tone: str


class SecretTone(BaseModel):
    tone: Annotated[str, Sensitive] = "preset"


async def one(context: StepContext, value: str) -> str: ...
async def two(context: StepContext, value: str) -> str: ...


def yes(value: str) -> bool: ...
def pick(value: str) -> str: ...


@tool(channel=people, fill=["iban"], approval=Approval("Pay?", expires_after=timedelta(hours=1)))
async def pay(customer: str, iban: str) -> str: ...


def agent(**options: Any) -> Agent:
    given: dict[str, Any] = {"prompt": "Pay.", "model": ScriptedModel([reply_with("done")])}
    return Agent("clerk", **(given | options))


def workflow(*steps: Any) -> Workflow:
    return Workflow("work", version="1", input=str, steps=steps, channels=[people])


# ── The tree ─────────────────────────────────────────────────────────────────────────────────────


def paths(steps: list[Any]) -> list[str]:
    found: list[str] = []
    for step in steps:
        found.append(f"{step['path']} ({step['type']})")
        for inner in ("then", "otherwise", "choices", "steps"):
            found += paths(step.get(inner, []))
    return found


def test_a_description_has_the_whole_tree():
    nested = Workflow("nested", version="2", input=str, steps=[one])
    built = workflow(
        Steps("a", [one, Condition("b", when=yes, then=[one], otherwise=[two])]),
        Loop("c", steps=[Router("d", choices=[one, nested], select=pick)], max_iterations=2),
        Parallel("e", [Step("clerk", agent()), one]),
    )
    shown = built.description()
    assert json.loads(json.dumps(shown)) == shown
    assert paths(shown["steps"]) == [
        "work/a (steps)",
        "work/a/one (function)",
        "work/a/b (condition)",
        "work/a/b/one (function)",
        "work/a/b/two (function)",
        "work/c (loop)",
        "work/c/d (router)",
        "work/c/d/one (function)",
        "work/c/d/nested (workflow)",
        "work/c/d/nested/one (function)",
        "work/e (parallel)",
        "work/e/clerk (agent)",
        "work/e/one (function)",
    ]
    loop = shown["steps"][1]
    assert loop["max_iterations"] == 2
    assert loop["steps"][0]["select"] == {"by": "function"}
    assert loop["steps"][0]["choices"][1]["workflow"] == {"name": "nested", "version": "2"}
    assert [each["name"] for each in shown["agents"]] == ["clerk"]


def test_a_description_says_who_picks_the_way():
    def picking(select: Any) -> Any:
        return workflow(Router("r", choices=[one], select=select)).description()["steps"][0][
            "select"
        ]

    assert picking(Choose("Which?", multiple=True)) == {"by": "person", "multiple": True}
    router = ModelRouter(model="openai:gpt-5-mini", prompt="the prompt", after_decision="one")
    assert picking(router) == {
        "by": "model",
        "model": "openai:gpt-5-mini",
        "after_decision": "one",
    }


# ── Where it may stop ────────────────────────────────────────────────────────────────────────────


def test_publishing_may_stop_at_each_of_its_asks():
    stops = [
        (each["path"], each["kind"], each["channel"]) for each in publishing.description()["stops"]
    ]
    assert stops == [
        ("publishing/research", "confirmation", "editors"),
        ("publishing/draft", "input", "editors"),
        ("publishing/draft", "review", "editors"),
        ("publishing/draft", "error", "editors"),
        ("publishing/polish", "review", "editors"),
        ("publishing/legal check/check names", "review", "lawyers"),
        ("publishing/outlet", "route", "editors"),
        ("publishing/announce/press", "confirmation", "editors"),
    ]


def test_a_stop_tells_its_terms():
    stop = publishing.description()["stops"][5]
    assert {key: stop[key] for key in ("level", "message", "on_reject", "on_expire")} == {
        "level": "step",
        "message": "May we name them?",
        "on_reject": "cancel",
        "on_expire": "reject",
    }
    assert (stop["expires_after_seconds"], stop["remind_before_seconds"]) == (172_800, 14_400)


def test_a_workflow_may_stop_at_the_tools_of_its_agents():
    built = workflow(Steps("a", [Step("clerk", agent(tools=[pay]))]))
    stops = built.description()["stops"]
    assert [(each["path"], each["level"], each["tool"], each["kind"]) for each in stops] == [
        ("work/a/clerk", "executor", "pay", "approval"),
        ("work/a/clerk", "executor", "pay", "input"),
    ]
    assert [each["message"] for each in stops] == ["Pay?", None]
    overriding = stops[0]["response_schema"]["properties"]["override_arguments"]
    assert list(overriding["properties"]) == ["customer"]
    (described,) = built.description()["agents"][0]["tools"]
    assert described["filled_by_a_person"] == ["iban"]


# ── What may be answered ─────────────────────────────────────────────────────────────────────────


def accepts(step: Any, decision: Any) -> bool:
    """Whether the schema of the one ask in a step allows a decision."""
    (stop,) = workflow(step).description()["stops"]
    jsonschema.Draft202012Validator.check_schema(stop["response_schema"])
    return jsonschema.Draft202012Validator(stop["response_schema"]).is_valid(decision)


YES: dict[str, Any] = {"approved": True, "by": "ann"}
NO: dict[str, Any] = {"approved": False, "by": "ann", "feedback": "no"}
confirmed = Step("s", one, before=Confirm("Go?"))
filled = Step("s", one, before=AskInput("Which?", Tone))
reviewed = Step("s", one, after=Review("Good?"))
repeated = Loop("s", steps=[one], max_iterations=2, after_each=Review("Good?"))
chosen = Router("s", choices=[one, two], select=Choose("Which?"))
several = Router("s", choices=[one, two], select=Choose("Which?", multiple=True))
failing = Step("s", one, on_error=AskError("And now?"))


@pytest.mark.parametrize(
    ("step", "decision"),
    [
        (confirmed, YES),
        (confirmed, NO),
        (filled, {"value": {"tone": "a"}}),
        (filled, NO),
        (reviewed, YES | {"override_output": "better"}),
        (reviewed, NO),
        (repeated, YES | {"override_output": "better"}),
        (chosen, {"value": ["one"]}),
        (several, {"value": ["two", "one"]}),
        (several, NO),
        (failing, {"action": "retry"}),
        (failing, {"action": "skip"}),
        (failing, {"action": "fail", "by": "ann"}),
    ],
)
def test_what_may_be_answered(step: Any, decision: Any):
    assert accepts(step, decision)


@pytest.mark.parametrize(
    ("step", "decision"),
    [
        (confirmed, YES | {"override_output": "better"}),
        (confirmed, {"approved": "true"}),
        (confirmed, {"value": True}),
        (filled, {"value": dict[str, str]()}),
        (filled, {"value": {"tone": 1}}),
        (filled, YES),
        (reviewed, YES | {"override_output": 1}),
        (reviewed, NO | {"override_output": "better"}),
        (reviewed, YES | {"override_arguments": {"a": 1}}),
        (chosen, {"value": ["one", "two"]}),
        (chosen, {"value": "one"}),
        (chosen, {"value": list[str]()}),
        (several, {"value": ["one", "one"]}),
        (several, {"value": ["three"]}),
        (failing, {"action": "ignore"}),
        (failing, YES),
    ],
)
def test_what_may_not_be_answered(step: Any, decision: Any):
    assert not accepts(step, decision)


def test_an_error_is_skipped_only_where_the_step_may_be_left_out():
    async def count(context: StepContext, value: int) -> int: ...
    async def measure(context: StepContext, value: str) -> int: ...

    built = workflow(Step("measure", measure, on_error=AskError("And now?")), count)
    (stop,) = built.description()["stops"]
    assert stop["response_schema"]["properties"]["action"] == {"enum": ["retry", "fail"]}


def test_a_description_tells_no_sensitive_default():
    built = workflow(Step("s", one, before=AskInput("Which?", SecretTone)))
    assert "preset" not in json.dumps(built.description())


# ── The graph ────────────────────────────────────────────────────────────────────────────────────


def test_the_graph_has_every_step_and_every_ask():
    lines = [line.strip() for line in publishing.description()["graph"].splitlines()]
    assert lines[0] == "flowchart TD"
    for line in (
        's0b0{{"confirmation by editors"}}',
        's0["research"]',
        "s0b0 --> s0",
        's1e{{"error by editors"}}',
        "s1 -.-> s1e",
        's2_r -- "again" --> s2_i',
        's3_w -- "yes" --> s3_t0',
        's3_w -- "no" --> s4w',
        's4w{{"route by editors"}}',
        "s5_0 --> finish",
        "s5_1 --> finish",
    ):
        assert line in lines
    assert lines.count("end") == sum(line.startswith("subgraph") for line in lines) == 4


def test_the_edges_of_the_graph_lead_from_its_nodes_to_its_nodes():
    lines = [line.strip() for line in publishing.description()["graph"].splitlines()[1:]]
    edges = [line for line in lines if " --> " in line or " -.-> " in line]
    nodes = {line.partition("[")[0].partition("{")[0].partition("(")[0] for line in lines}
    for edge in edges:
        start, *_, end = edge.split()
        assert {start, end} <= nodes


# ── Fingerprints ─────────────────────────────────────────────────────────────────────────────────


def fingerprint(*steps: Any) -> str:
    return workflow(*steps).fingerprint


def condition(**options: Any) -> Condition:
    given: dict[str, Any] = {"when": yes, "then": [one], "otherwise": [two]}
    return Condition("a", **(given | options))


def nested(version: str, *steps: Any) -> Workflow:
    return Workflow("a", version=version, input=str, steps=steps, channels=[people])


def test_every_change_of_the_tree_and_of_the_kinds_of_ask_changes_the_fingerprint():
    async def three(context: StepContext, value: str) -> str: ...

    shapes = [
        fingerprint(one),
        fingerprint(Step("a", one)),
        fingerprint(Step("a", one, before=Confirm("Go?"))),
        fingerprint(Step("a", one, before=[Confirm("Go?"), Confirm("Really?")])),
        fingerprint(Step("a", one, before=AskInput("Which?", Tone))),
        fingerprint(Step("a", one, before=AskInput("Which?", SecretTone))),
        fingerprint(Step("a", one, after=Review("Good?"))),
        fingerprint(Step("a", one, on_error=AskError("And now?"))),
        fingerprint(Steps("a", [one])),
        fingerprint(Steps("a", [one, two])),
        fingerprint(Steps("a", [two, one])),
        fingerprint(Steps("a", [Steps("b", [two, one])])),
        fingerprint(Parallel("a", [one, two])),
        fingerprint(Loop("a", steps=[one, two], max_iterations=2)),
        fingerprint(Loop("a", steps=[one, two], max_iterations=2, after_each=Review("Good?"))),
        fingerprint(condition()),
        fingerprint(condition(otherwise=[three])),
        fingerprint(condition(then=[one, two], otherwise=[])),
        fingerprint(condition(before=Confirm("Go?", on_reject="else"))),
        fingerprint(condition(when=None, before=Confirm("Go?", on_reject="else"))),
        fingerprint(Router("a", choices=[one, two], select=pick)),
        fingerprint(Router("a", choices=[one, two], select=Choose("Which?"))),
        fingerprint(Router("a", choices=[one, two], select=ModelRouter(model="a:b", prompt=""))),
        fingerprint(nested("1", one)),
        fingerprint(nested("1", two)),
        fingerprint(agent()),
        fingerprint(agent(tools=[pay])),
        fingerprint(
            agent(tools=[tool(channel=people, fill=["customer"], approval=pay.approval)(pay.fn)])
        ),
    ]
    assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: nested("1", one), lambda: nested("2", one)),
        (
            lambda: Step("a", one, before=Confirm("Go?")),
            lambda: Step(
                "a",
                one,
                before=Confirm("Go on?", on_reject="skip", expires_after=timedelta(hours=1)),
                description="changed",
                on_error="skip",
            ),
        ),
        (
            lambda: Loop("a", steps=[one], max_iterations=2),
            lambda: Loop("a", steps=[one], max_iterations=5, until=yes),
        ),
        (
            lambda: Router("a", choices=[one], select=ModelRouter(model="a:b", prompt="One")),
            lambda: Router("a", choices=[one], select=ModelRouter(model="c:d", prompt="Two")),
        ),
    ],
)
def test_words_terms_models_and_versions_do_not_change_the_fingerprint(
    before: Callable[[], Any], after: Callable[[], Any]
):
    assert fingerprint(before()) == fingerprint(after())
