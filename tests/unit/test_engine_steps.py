"""Steps in sequence: agents and functions, what they hand on, and how they fail."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    StepContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.domain.event import EventType
from app.domain.step import StepStatus
from tests.engine_runs import EngineRun, approvers, run, script, workflow


class Topic(BaseModel):
    text: str


class Page(BaseModel):
    body: str


@tool(channel=approvers)
async def publish(body: str) -> str:
    return f"published {body}"


def publisher(name: str = "publisher") -> Agent:
    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return reply_with(last.text) if last.role == "tool" else call_tool(publish, body=last.text)

    return Agent(name, prompt="Publish.", model=ScriptedModel(answer), tools=[publish])


calls: list[str] = []


async def research(context: StepContext, topic: Topic) -> str:
    calls.append("research")
    return f"facts about {topic.text}"


def shout(context: StepContext, text: str) -> Page:
    calls.append("shout")
    return Page(body=text.upper())


def pipeline(*steps: Any, **options: Any) -> Workflow:
    return Workflow("press", version="1", input=Topic, steps=steps, channels=[approvers], **options)


async def test_steps_run_in_sequence_each_on_the_output_before() -> None:
    ended = await run(pipeline(research, shout), {"text": "cats"})
    assert ended.output == {"body": "FACTS ABOUT CATS"}
    assert [(step.path, step.type, step.index) for step in ended.steps.values()] == [
        ("press/research", "function", 0),
        ("press/shout", "function", 1),
    ]
    assert ended.steps["press/research"].output == "facts about cats"


async def test_an_agent_pauses_in_the_middle_and_the_rest_then_runs() -> None:
    calls.clear()
    paused = await run(pipeline(research, publisher(), shout), {"text": "cats"})
    assert paused.ask.place == "press/publisher#0.0"
    assert paused.ask.shown["step"] == {
        "name": "publisher", "path": "press/publisher", "index": 1, "type": "agent",
    }  # fmt: skip
    await paused.restarted().go()
    assert len(paused.asks) == 1
    await paused.restarted().approve()
    assert paused.output == {"body": "PUBLISHED FACTS ABOUT CATS"}
    assert calls == ["research", "shout"], "what has ended is not repeated"


async def test_two_agents_in_a_row_each_ask_for_themselves() -> None:
    paused = await run(pipeline(publisher("one"), publisher("two"), history=2), {"text": "cats"})
    await paused.restarted().approve()
    await paused.restarted().reject()
    assert paused.places == ["press/one#0.0", "press/two#0.0"]
    assert paused.output == "Tool error: the call was rejected by alice"
    assert [entry.agent for entry in paused.ended.history] == ["one", "two"]
    assert [entry.messages[0]["text"] for entry in paused.ended.history] == [
        "cats",
        "published cats",
    ]


async def test_an_agents_answer_goes_into_the_only_text_that_is_wanted_next() -> None:
    def length(context: StepContext, page: Page) -> int:
        return len(page.body)

    ended = await run(
        pipeline(Agent("writer", prompt="", model=script(reply_with("four"))), length),
        {"text": "x"},
    )
    assert ended.output == 4
    assert ended.steps["press/writer"].output == {"body": "four"}


async def test_an_agent_reads_the_only_text_of_a_model_and_anything_else_as_json() -> None:
    seen: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        seen.append(request.messages[-1].text)
        return reply_with("done")

    def measure(context: StepContext, text: str) -> dict[str, int]:
        return {"words": 2}

    reader = Agent("reader", prompt="", model=ScriptedModel(answer))
    await run(
        pipeline(reader, measure, Agent("other", prompt="", model=reader.model)), {"text": "cats"}
    )
    assert seen == ["cats", '{"words":2}']


class Everything(BaseModel):
    at: datetime
    key: UUID
    price: Decimal
    raw: bytes


everything = Everything(
    at=datetime(2024, 2, 29, tzinfo=UTC),
    key=UUID(int=7),
    price=Decimal("1.10"),
    raw=b"text",
)


async def test_an_output_keeps_its_type_over_a_pause() -> None:
    def make(context: StepContext, topic: Topic) -> Everything:
        return everything

    seen: list[Any] = []

    def check(context: StepContext, text: str) -> bool:
        seen.append(context.outputs["make"])
        return context.outputs["make"] == everything

    paused = await run(pipeline(make, publisher(), check), {"text": "x"})
    await paused.restarted().approve()
    assert paused.output is True
    assert isinstance(seen[0], Everything)


async def test_outputs_of_steps_are_there_by_name_and_no_others() -> None:
    def names(context: StepContext, page: Page) -> list[str]:
        return sorted(context.outputs)

    ended = await run(pipeline(research, shout, names), {"text": "x"})
    assert ended.output == ["research", "shout"]


async def test_an_output_that_cannot_be_stored_fails_the_run() -> None:
    def odd(context: StepContext, topic: Topic) -> str:
        return "a\0b"

    failed = await run(pipeline(odd, publisher()), {"text": "x"})
    assert failed.error.code == "step_failed"
    assert failed.error.step == "press/odd"
    assert failed.asks == []


async def test_a_step_that_raises_fails_the_run_at_that_step() -> None:
    def broken(context: StepContext, text: str) -> str:
        raise RuntimeError("no paper")

    failed = await run(pipeline(research, broken, shout), {"text": "x"})
    assert failed.error.code == "step_failed"
    assert failed.error.message == "no paper"
    assert failed.error.step == "press/broken"
    assert failed.steps["press/broken"].status is StepStatus.FAILED
    assert "press/shout" not in failed.steps
    assert failed.events[-1].type is EventType.STEP_FAILED


async def test_an_agent_that_fails_after_a_decision_keeps_what_was_spent() -> None:
    def answer(request: ModelRequest) -> Reply:
        if request.turn == 0:
            return call_tool(publish, body="x")
        raise RuntimeError

    failed = await run(workflow(publish, model=ScriptedModel(answer)))
    await failed.restarted().approve()
    assert failed.error.code == "model_error"
    assert [entry.place for entry in failed.ledger] == [
        "work/assistant#0",
        "work/assistant#0.0",
    ]


async def test_history_is_what_an_agent_reads_before_its_work() -> None:
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Reply:
        requests.append(request)
        return reply_with(f"answer {len(requests)}")

    served = workflow(model=ScriptedModel(answer), history=5)
    first = await run(served, "one")
    second = await run(served, "two", history={"assistant": list(first.said())})
    assert [(each.role, each.text) for each in requests[1].messages] == [
        ("system", "Help."),
        ("user", "one"),
        ("assistant", "answer 1"),
        ("user", "two"),
    ]
    assert [message["text"] for message in second.said()] == ["two", "answer 2"]


async def test_a_workflow_without_history_hands_none_on() -> None:
    assert (await run(workflow(model=script(reply_with("hi"))))).ended.history == ()


class Verdict(BaseModel):
    good: bool
    why: str


async def test_an_agent_with_an_output_answers_in_its_json() -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        prompts.append(request.messages[0].text)
        return reply_with('```json\n{"good": true, "why": "it is"}\n```')

    ended = await run(workflow(model=ScriptedModel(answer), output=Verdict))
    assert ended.output == {"good": True, "why": "it is"}
    assert "JSON Schema" in prompts[0]
    assert "why" in prompts[0]


async def test_an_answer_that_is_not_the_json_is_asked_for_again_within_the_limits() -> None:
    def answer(request: ModelRequest) -> Reply:
        if request.turn == 0:
            return reply_with("It is good.")
        assert "not the JSON" in request.messages[-1].text
        return reply_with('{"good": true, "why": "it is"}')

    ended = await run(workflow(model=ScriptedModel(answer), output=Verdict))
    assert ended.output == {"good": True, "why": "it is"}
    stubborn = ScriptedModel(lambda _: reply_with("It is good."))
    failed = await run(workflow(model=stubborn, output=Verdict))
    assert failed.error.code == "limit_exceeded"


async def test_a_run_of_many_steps_writes_before_every_effect_and_not_more_often() -> None:
    calls.clear()
    seen: list[list[str]] = []
    ended = EngineRun(pipeline(research, shout), {"text": "cats"})
    ended.before_write = lambda: seen.append(list(calls))
    await ended.go()
    assert seen == [["research"]], "the first step's output is kept before the second runs"
