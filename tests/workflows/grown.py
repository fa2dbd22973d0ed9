"""Random workflows as the service serves them: `tests.workflows.grown:grown_17` is that of the number 17."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
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
    ModelRequest,
    ModelRouter,
    Parallel,
    Question,
    Reply,
    Review,
    Router,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    Tool,
    ToolContext,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.authoring.declared import StepEntry
from app.channels import InboxChannel
from tests.workflows.effects import VARIABLE
from tests.workflows.growth import (
    OPTIONS,
    Gate,
    Grown,
    GrownAgent,
    GrownCondition,
    GrownFork,
    GrownFunction,
    GrownLoop,
    GrownRouter,
    GrownSteps,
    GrownTool,
    answer_of,
    grown,
    is_even,
    marked,
    moment,
    ways,
)

desk = InboxChannel("desk")


class Word(BaseModel):
    word: str


def __getattr__(name: str) -> Workflow:
    prefix, _, number = name.partition("_")
    if prefix != "grown" or not number.isdigit():
        raise AttributeError(name)
    return build(int(number))


def build(number: int) -> Workflow:
    """The workflow of a number."""
    return Workflow(
        f"grown_{number}",
        version="1",
        input=str,
        steps=_all_built(grown(number)),
        channels=[desk],
    )


def _all_built(steps: tuple[Grown, ...]) -> list[StepEntry]:
    return [_built(each) for each in steps]


def _built(step: Grown) -> StepEntry:
    gates: dict[str, Any] = {
        "before": [_asked(gate) for gate in step.before],
        "after": None if step.after is None else _asked(step.after),
    }
    match step:
        case GrownFunction(error=error):
            on_error: Any = error if isinstance(error, str) else _asked(error)
            return Step(step.name, _function(step), on_error=on_error, **gates)
        case GrownAgent():
            return Step(step.name, _agent(step), **gates)
        case _:
            return _container(step, gates)


def _container(step: Grown, gates: dict[str, Any]) -> StepEntry:
    match step:
        case GrownSteps(is_workflow=True):
            inner = _all_built(step.steps)
            workflow = Workflow(step.name, version="1", input=str, steps=inner, channels=[desk])
            return Step(step.name, workflow, **gates)
        case GrownSteps():
            return Steps(step.name, _all_built(step.steps), **gates)
        case GrownCondition():
            then, otherwise = _all_built(step.then), _all_built(step.otherwise)
            when = is_even if step.looks else None
            return Condition(step.name, when=when, then=then, otherwise=otherwise, **gates)
        case GrownRouter():
            return _router(step, gates)
        case GrownLoop():
            return _loop(step, gates)
        case GrownFork():
            return Parallel(step.name, _all_built(step.branches), **gates)
        case _:
            raise AssertionError(step)


def _router(step: GrownRouter, gates: dict[str, Any]) -> Router:
    names = [each.name for each in step.choices]

    def select(value: str) -> list[str]:
        return ways(value, names)

    def answer(request: ModelRequest) -> Reply:
        return reply_with(ways(request.messages[-1].text, names)[0])

    model = ModelRouter(
        model=ScriptedModel(answer), prompt="Which way?", after_decision=step.after_decision
    )
    by_itself = model if step.has_model else select
    chosen = by_itself if step.choose is None else _asked(step.choose)
    return Router(step.name, choices=_all_built(step.choices), select=chosen, **gates)


def _loop(step: GrownLoop, gates: dict[str, Any]) -> Loop:
    return Loop(
        step.name,
        steps=_all_built(step.steps),
        max_iterations=step.most,
        until=is_even if step.looks else None,
        after_each=None if step.each is None else _asked(step.each),
        **gates,
    )


def _asked(gate: Gate) -> Any:
    on_reject = cast("Any", gate.on_reject)
    match gate.kind:
        case "confirm":
            return Confirm(gate.text, channel=desk, on_reject=on_reject)
        case "input":
            return AskInput(gate.text, Word, channel=desk, on_reject=on_reject)
        case "choose":
            return Choose(gate.text, channel=desk, multiple=gate.most > 1, on_reject=on_reject)
        case "error":
            return AskError(gate.text, channel=desk, max_retries=gate.most)
        case "review":
            return _review(gate)


def _review(gate: Gate) -> Review:
    return Review(
        gate.text,
        channel=desk,
        on_reject=cast("Any", gate.on_reject),
        when=is_even if gate.looks else None,
        max_retries=gate.most if gate.on_reject == "retry" else Review.max_retries,
    )


# ── What they do ─────────────────────────────────────────────────────────────────────────────────


def _note(run_id: str, what: str) -> None:
    line = {"what": what, "run": run_id, "at": time.time()}
    with Path(os.environ[VARIABLE]).open("ab", buffering=0) as file:
        file.write(orjson.dumps(line) + b"\n")


def _function(step: GrownFunction) -> Callable[[StepContext, Any], str]:
    def run(context: StepContext, value: Any) -> str:
        words = [each.word for each in context.inputs if isinstance(each, Word)]
        made = marked(step.name, value, context.feedback, context.previous_output, words)
        _note(context.run_id, made)
        time.sleep(moment(made))
        if step.fails and is_even(made):
            raise RuntimeError("unlucky")
        return made

    return run


def _agent(step: GrownAgent) -> Agent:
    tools = [_tool(each) for each in step.tools]

    def answer(request: ModelRequest) -> Reply:
        work = next(each.text for each in request.messages if each.role == "user")
        results = [each.text for each in request.messages if each.role == "tool"]
        if results:
            return reply_with(answer_of(step.name, work, results))
        calls = (call_tool(each.name, {"body": marked(each.name, work)}) for each in step.tools)
        return call_tools(*calls)

    return Agent(f"agent {step.name}", prompt="", model=ScriptedModel(answer), tools=tools)


def _tool(of: GrownTool) -> Tool[..., str]:
    does = _does(of)
    does.__name__ = of.name
    match of.kind:
        case "gated":
            return tool(channel=desk)(does)
        case "gated asks":
            return tool(approval=Approval(of.name, channel=desk))(does)
        case "fills":
            return tool(channel=desk, fill=["word"])(does)
        case _:
            return tool(does)


def _does(of: GrownTool) -> Any:
    async def done(context: ToolContext, *parts: str) -> str:
        made = marked(of.name, *parts)
        _note(context.run_id, made)
        await asyncio.sleep(moment(made))
        return made

    async def plain(context: ToolContext, body: str) -> str:
        return await done(context, body)

    async def asks(context: ToolContext, body: str) -> str:
        question = Question(of.name, options=OPTIONS, channel=desk)
        return await done(context, body, await context.pause(question))

    async def fills(context: ToolContext, body: str, word: str) -> str:
        return await done(context, body, word)

    if of.kind == "fills":
        return fills
    return asks if of.kind in ("asks", "gated asks") else plain
