"""What runs, and what the model reads of it: results, errors, in call order, one for each call."""

import asyncio
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, field_validator

from app.authoring import (
    ModelRequest,
    Question,
    Reply,
    ScriptedModel,
    ToolContext,
    Usage,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.domain.decision import Value
from app.domain.ledger import LedgerKind
from tests.engine_runs import EngineRun, approvers, run, script, workflow


async def result_of(*tools: Any, call: Reply) -> str:
    ended = await run(workflow(*tools, model=script(call)))
    assert isinstance(ended.output, str)
    return ended.output


async def test_a_text_is_read_as_it_is_and_anything_else_as_json() -> None:
    class Found(BaseModel):
        name: str
        price: Decimal

    @tool
    async def text() -> str:
        return 'say "hi"'

    @tool
    async def found() -> Found:
        return Found(name="Zürich", price=Decimal("1.50"))

    @tool
    def nothing() -> None:
        """Runs in a thread."""

    calls = call_tools(call_tool(text), call_tool(found), call_tool(nothing))
    read = await result_of(text, found, nothing, call=calls)
    assert read == 'say "hi"\n{"name":"Zürich","price":"1.50"}\nnull'


class Odd(Exception):
    def __str__(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("error", "read"),
    [
        (ValueError("no such order"), "Tool error: no such order"),
        (KeyError("order"), "Tool error: KeyError: 'order'"),
        (Odd(), "Tool error: Odd"),
        (TimeoutError(), "Tool error: TimeoutError"),
        (ValueError("a\0b\ud800c"), "Tool error: a?b?c"),
        (ValueError("x" * 10_000), "Tool error: " + "x" * 4_000),
    ],
)
async def test_an_exception_reaches_the_model_as_a_tool_error(error: Exception, read: str) -> None:
    @tool
    async def broken() -> str:
        raise error

    assert await result_of(broken, call=call_tool(broken)) == read


async def test_after_an_error_the_loop_goes_on() -> None:
    attempts: list[int] = []

    @tool
    async def shaky() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("busy")
        return "fine"

    ended = await run(workflow(shaky, model=script(call_tool(shaky), call_tool(shaky))))
    assert ended.output == "Tool error: busy\nfine"


async def test_an_unknown_tool_and_invalid_arguments_are_errors_before_anybody_is_asked() -> None:
    @tool(channel=approvers)
    async def pay(amount: int, to: str) -> str:
        raise AssertionError

    calls = call_tools(
        call_tool("steal"),
        call_tool("pay", {"amount": "much"}),
        call_tool("pay", "{not json"),
        call_tool("pay", {"amount": 1, "to": "bob", "why": "x"}),
    )
    read = (await result_of(pay, call=calls)).splitlines()
    assert read[0] == "Tool error: there is no tool named 'steal'"
    assert read[1].startswith("Tool error: invalid arguments: /amount: ")
    assert "/to: Field required" in read[1]
    assert "much" not in read[1]
    assert read[2].startswith("Tool error: invalid arguments: ")
    assert read[3] == "Tool error: invalid arguments: /why: Extra inputs are not permitted"


async def test_a_validator_that_crashes_is_an_invalid_argument() -> None:
    class Order(BaseModel):
        number: str

        @field_validator("number")
        @classmethod
        def known(cls, number: str) -> str:
            raise LookupError(number)

    @tool(channel=approvers)
    async def find(order: Order) -> str:
        raise AssertionError

    read = await result_of(find, call=call_tool("find", {"number": "A-1"}))
    assert read == "Tool error: invalid arguments: A-1"


async def test_a_result_of_the_wrong_type_is_a_tool_error() -> None:
    @tool
    async def count() -> int:
        return "many"  # pyright: ignore[reportReturnType]

    read = await result_of(count, call=call_tool(count))
    assert read.startswith("Tool error: /: Input should be a valid integer")


@pytest.mark.parametrize("result", ["a\0b", "a\ud800b", float("inf"), 10**30, {"x": float("nan")}])
async def test_a_result_that_cannot_be_stored_is_a_tool_error(result: Any) -> None:
    @tool
    async def odd() -> Any:
        return result

    read = await result_of(odd, call=call_tool(odd))
    assert read.startswith("Tool error: ")
    assert "\0" not in read


async def test_a_call_that_takes_too_long_is_a_tool_error() -> None:
    @tool(timeout=timedelta(seconds=0.01))
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    read = await result_of(slow, call=call_tool(slow))
    assert read == "Tool error: timed out after 0:00:00.010000"


async def test_a_call_that_raised_is_tried_again_as_often_as_allowed() -> None:
    attempts: list[str] = []

    @tool(retries=2)
    async def shaky(context: ToolContext) -> str:
        attempts.append(context.call_id)
        if len(attempts) < 3:
            raise ConnectionError("busy")
        return "fine"

    assert await result_of(shaky, call=call_tool(shaky)) == "fine"
    assert len(attempts) == 3
    assert len(set(attempts)) == 1

    @tool(retries=1)
    async def broken() -> str:
        raise ConnectionError("down")

    assert await result_of(broken, call=call_tool(broken)) == "Tool error: down"


async def test_the_calls_of_a_turn_run_side_by_side_and_answer_in_call_order() -> None:
    second_ran = asyncio.Event()

    @tool
    async def first() -> str:
        await second_ran.wait()
        return "one"

    @tool
    async def second() -> str:
        second_ran.set()
        return "two"

    calls = call_tools(call_tool(first), call_tool(second))
    assert await result_of(first, second, call=calls) == "one\ntwo"


async def test_a_sync_tool_holds_nobody_up() -> None:
    released = asyncio.Event()

    @tool
    def blocking() -> str:
        while not released.is_set():
            time.sleep(0.001)
        return "released"

    @tool
    async def release() -> str:
        released.set()
        return "now"

    calls = call_tools(call_tool(blocking), call_tool(release))
    assert await result_of(blocking, release, call=calls) == "released\nnow"


async def test_cancelling_a_run_is_no_tool_error() -> None:
    began = asyncio.Event()

    @tool
    async def endless() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    stopped = EngineRun(workflow(endless, model=script(call_tool(endless))))
    going = asyncio.create_task(stopped.go())
    await began.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert stopped.journal.in_flight == 0


async def test_a_persons_time_counts_against_no_timeout() -> None:
    @tool(channel=approvers, timeout=timedelta(seconds=0.2))
    async def ask(context: ToolContext) -> str:
        return await context.pause(Question("Well?", answer=str))

    paused = await run(workflow(ask, model=script(call_tool(ask))))
    await asyncio.sleep(0.25)
    await paused.approve()
    await asyncio.sleep(0.25)
    await paused.decide(Value(value="yes"))
    assert paused.output == "yes"


async def test_every_model_call_and_every_tool_call_stands_in_the_ledger_once() -> None:
    @tool(channel=approvers)
    async def pay(context: ToolContext, amount: int) -> str:
        context.report_cost(0.25)
        return f"paid {amount}"

    spent = Usage(input_tokens=10, output_tokens=2, cost=Decimal("0.01"))
    replies = call_tools(call_tool(pay, amount=1), call_tool(pay, amount=2), call_tool("unknown"))
    model = script(Reply(calls=replies.calls, usage=spent), reply_with("done", usage=spent))
    paused = await run(workflow(pay, model=model))
    assert [entry.input_tokens for entry in paused.ledger if entry.kind is LedgerKind.MODEL] == [10]
    await paused.restarted().approve()
    await paused.restarted().reject()
    models = [entry for entry in paused.ledger if entry.kind is LedgerKind.MODEL]
    tools = [entry for entry in paused.ledger if entry.kind is LedgerKind.TOOL]
    assert sum(entry.cost for entry in models) == Decimal("0.02")
    assert [entry.place for entry in tools] == [
        "work/assistant#0.2",
        "work/assistant#0.1",
        "work/assistant#0.0",
    ]
    (reported,) = [entry for entry in paused.ledger if entry.kind is LedgerKind.REPORT]
    assert (reported.name, reported.cost) == ("pay", Decimal("0.25"))
    assert len(paused.ledger) == 6


async def test_a_cost_that_is_negative_or_not_finite_is_a_tool_error() -> None:
    costs = {"less": -1.0, "odd": float("nan"), "endless": float("inf")}

    @tool
    async def pay(context: ToolContext, which: str) -> str:
        context.report_cost(costs[which])
        return "paid"

    calls = call_tools(*[call_tool(pay, which=which) for which in costs])
    read = (await result_of(pay, call=calls)).splitlines()
    assert all(line.startswith("Tool error: a cost must be") for line in read)


async def test_a_model_that_fails_fails_the_run() -> None:
    def broken(request: ModelRequest) -> Reply:
        raise RuntimeError("secret prompt")

    failed = await run(workflow(model=ScriptedModel(broken)))
    assert failed.error.code == "model_error"
    assert failed.error.step == "work/assistant"
    assert "secret" not in failed.error.message


async def test_a_model_whose_answer_cannot_be_stored_fails_the_run() -> None:
    failed = await run(workflow(model=script(reply_with("a\0b"))))
    assert failed.error.code == "model_error"


async def test_a_graph_that_a_tool_runs_is_no_part_of_the_run() -> None:
    async def answer(state: dict[str, Any]) -> dict[str, Any]:
        return {"said": "of its own"}

    inner: Any = StateGraph(cast("Any", dict))
    inner.add_node("answer", answer)
    inner.add_edge(START, "answer")
    graph = inner.compile()

    @tool
    async def think() -> str:
        return (await graph.ainvoke({}))["said"]

    @tool(channel=approvers)
    async def act() -> str:
        return "acted"

    paused = await run(
        workflow(think, act, model=script(call_tools(call_tool(think)), call_tool(act)))
    )
    await paused.restarted().approve()
    assert paused.output == "of its own\nacted"
    (thread,) = paused.saver.storage.values()
    assert list(thread) == [""], "the run has no checkpoints but its own"
