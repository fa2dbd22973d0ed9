"""What an agent may do in one visit."""

from app.authoring import Limits, ModelRequest, Reply, ScriptedModel, call_tool, call_tools, tool
from app.domain.ledger import LedgerKind
from tests.engine_runs import EngineRun, approvers, run, workflow


def calling(times: int, at_once: int = 1, name: str = "look") -> ScriptedModel:
    """Calls its tool in that many turns, then answers."""

    def answer(request: ModelRequest) -> Reply:
        if request.turn < times:
            return call_tools(*[call_tool(name, {}) for _ in range(at_once)])
        return Reply(text=f"after {request.turn} turns")

    return ScriptedModel(answer)


looked: list[int] = []


@tool
async def look() -> str:
    looked.append(1)
    return "seen"


@tool(channel=approvers)
async def gated() -> str:
    return "done"


def model_calls(run: EngineRun) -> int:
    return sum(entry.kind is LedgerKind.MODEL for entry in run.ledger)


async def test_the_thirteenth_model_call_is_not_made() -> None:
    failed = await run(workflow(look, model=calling(12)))
    assert failed.error.code == "limit_exceeded"
    assert failed.error.details == {"key": "agents.assistant.limits.model_calls"}
    assert failed.error.step == "work/assistant"
    assert model_calls(failed) == 12


async def test_exactly_at_the_limits_passes() -> None:
    ended = await run(workflow(look, model=calling(11)))
    assert ended.output == "after 11 turns"
    limits = Limits(model_calls=2, tool_calls=4)
    ended = await run(workflow(look, model=calling(1, at_once=4), limits=limits))
    assert ended.output == "after 1 turns"


async def test_one_tool_call_too_many_and_none_of_its_turn_runs_or_is_asked() -> None:
    looked.clear()
    limits = Limits(tool_calls=4)
    failed = await run(workflow(look, gated, model=calling(2, at_once=3), limits=limits))
    assert failed.error.code == "limit_exceeded"
    assert failed.error.details == {"key": "agents.assistant.limits.tool_calls"}
    assert len(looked) == 3
    asked = await run(workflow(gated, model=calling(1, 5, "gated"), limits=limits))
    assert asked.error.code == "limit_exceeded"
    assert asked.asks == []


async def test_the_default_is_twenty_tool_calls() -> None:
    assert (await run(workflow(look, model=calling(1, at_once=20)))).output == "after 1 turns"
    failed = await run(workflow(look, model=calling(1, at_once=21)))
    assert failed.error.details == {"key": "agents.assistant.limits.tool_calls"}


async def test_rejected_and_unknown_calls_count() -> None:
    limits = Limits(tool_calls=1)
    paused = await run(workflow(gated, model=calling(2, name="gated"), limits=limits))
    await paused.reject()
    assert paused.error.code == "limit_exceeded"
    failed = await run(workflow(look, model=calling(2, name="unknown"), limits=limits))
    assert failed.error.code == "limit_exceeded"


async def test_a_pause_does_not_reset_the_count() -> None:
    limits = Limits(model_calls=2)
    paused = await run(workflow(gated, model=calling(2, name="gated"), limits=limits))
    await paused.restarted().approve()
    await paused.restarted().approve()
    assert paused.error.details == {"key": "agents.assistant.limits.model_calls"}
    assert model_calls(paused) == 2
