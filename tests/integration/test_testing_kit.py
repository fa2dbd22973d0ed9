"""What a writer's test hears when something else happened than it claims."""

import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from decimal import Decimal

import pytest

from app.authoring import (
    Agent,
    Confirm,
    ModelRouter,
    Parallel,
    Question,
    Router,
    ScriptedModel,
    ScriptRanOut,
    Step,
    StepContext,
    ToolContext,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from app.testing import (
    ScriptNeverUsed,
    Signoff,
    assert_called,
    assert_failed,
    assert_finished,
    assert_paused,
)

clerks = InboxChannel("clerks")


@tool(channel=clerks)
async def refund(order: str, amount: Decimal) -> str:
    """Refunds an order."""
    return f"refunded {amount} for {order}"


@tool
async def find(order: str) -> str:
    """Finds an order."""
    return order


@tool
async def ask(context: ToolContext) -> str:
    """Asks which account, within an hour."""
    question = Question(
        "Which?", options=["main", "reserve"], channel=clerks, expires_after=timedelta(hours=1)
    )
    return await context.pause(question)


desk = Agent("desk", prompt="Help.", model="openai:none", tools=[refund, find, ask])
refunds = Workflow("refunds", version="1", input=str, steps=[desk], channels=[clerks])


@pytest.fixture
async def service(database_url: str) -> AsyncGenerator[Signoff]:
    """A service of a database of its own, which a test may leave as it likes."""
    service = Signoff(database_url)
    yield service
    await service.close()


async def test_a_claim_that_fails_tells_what_happened(service: Signoff) -> None:
    service.model(desk).answers(
        [
            call_tools(
                call_tool(find, order="A-1"), call_tool(refund, order="A-1", amount=Decimal(5))
            ),
            reply_with("done"),
        ]
    )
    run = await service.execute(refunds, "refund A-1")
    with pytest.raises(AssertionError) as failed:
        assert_finished(run, "done")
    assert str(failed.value) == (
        "The run has not completed. What happened:\n"
        "  refunds is paused (waiting for approval)\n"
        "  step refunds/desk: running\n"
        "  pause at refunds/desk: approval of refund, open: May desk call refund?\n"
        "  tools that ran: none"
    )
    run = await service.resume(run, approved=False, by="eve", feedback="no")
    with pytest.raises(AssertionError) as failed:
        assert_called(run, [find, refund])
    assert str(failed.value) == (
        "The tools that ran are ['find'], not ['find', 'refund']. What happened:\n"
        "  refunds is completed\n"
        "  output: 'done'\n"
        "  step refunds/desk: completed\n"
        "  pause at refunds/desk: approval of refund, decided by eve: "
        "{'approved': False, 'feedback': 'no'}\n"
        "  tools that ran: find"
    )


async def test_each_claim_fails_where_something_else_is_so(service: Signoff) -> None:
    service.model(desk).answers([call_tool(ask), reply_with("done")])
    paused = await service.execute(refunds, "ask")
    done = await service.resume(paused, value="main")
    for claim, says in (
        (lambda: assert_paused(paused, at="elsewhere"), "The run is not paused at 'elsewhere'"),
        (lambda: assert_paused(paused, at="desk", kind="approval"), "is one of kind interactive"),
        (lambda: assert_paused(done, at="desk"), "The run is not paused at 'desk'"),
        (lambda: assert_finished(done, "other"), "The output is 'done', not 'other'"),
        (lambda: assert_failed(done, "limit_exceeded"), "The run has not failed"),
        (lambda: assert_called(done, []), "The tools that ran are ['ask'], not []"),
    ):
        with pytest.raises(AssertionError, match=re.escape(says)):
            claim()


async def test_a_script_that_runs_out_names_its_agent(service: Signoff) -> None:
    service.model(desk).answers([call_tool(find, order="A-1")])
    with pytest.raises(ScriptRanOut, match=r"script of the agent 'desk' has 1 replies.*turn 2"):
        await service.execute(refunds, "find A-1")


async def test_a_script_that_is_never_used_names_its_agent(database_url: str) -> None:
    service = Signoff(database_url)
    service.model(desk).answers([reply_with("done")])
    with pytest.raises(ScriptNeverUsed, match="The script of the agent 'desk' was never used"):
        await service.close()


async def test_a_script_holds_from_the_next_decision_on(service: Signoff) -> None:
    service.model(desk).answers([call_tool(ask), reply_with("first")])
    run = await service.execute(refunds, "ask")
    service.model(desk).answers([reply_with("unused"), reply_with("second")])
    assert_finished(await service.resume(run, value="main"), "second")


async def test_the_script_of_a_router_picks_a_step(service: Signoff) -> None:
    async def left(context: StepContext, value: str) -> str:
        return "left"

    async def right(context: StepContext, value: str) -> str:
        return "right"

    router = ModelRouter(model=ScriptedModel([reply_with("left")]), prompt="Which way?")
    ways = Workflow(
        "ways",
        version="1",
        input=str,
        steps=[Router("way", choices=[Step("left", left), Step("right", right)], select=router)],
    )
    assert_finished(await service.execute(ways, "go"), "left")
    service.model(router).answers([reply_with("right")])
    assert_finished(await service.execute(ways, "go"), "right")


async def test_a_deadline_can_be_let_pass(service: Signoff) -> None:
    service.model(desk).answers(
        lambda request: reply_with(request.messages[-1].text) if request.turn else call_tool(ask)
    )
    run = await service.expire(await service.execute(refunds, "ask"))
    assert_finished(run, "Tool error: declined by system:deadline")


async def test_there_is_nothing_to_decide_on_a_run_that_has_ended(service: Signoff) -> None:
    async def stop(context: StepContext, value: str) -> str:
        raise ValueError("no")

    failing = Workflow("failing", version="1", input=str, steps=[Step("stop", stop)])
    run = await service.execute(failing, "go")
    assert_failed(run, "step_failed")
    with pytest.raises(AssertionError, match="There is nothing to decide"):
        await service.resume(run, approved=True)


async def test_of_several_open_pauses_a_test_says_which_it_means(service: Signoff) -> None:
    async def keep(context: StepContext, value: str) -> str:
        return value

    both = Parallel(
        "both",
        steps=[Step(name, keep, before=Confirm(f"Do {name}?")) for name in ("one", "two")],
    )
    steps = Workflow("steps", version="1", input=str, steps=[both], channels=[clerks])
    run = await service.execute(steps, "go")
    assert_paused(run, at="one")
    assert_paused(run, at="two")
    first, second = run.open_pauses
    run = await service.resume(run, pause=second, approved=True)
    assert_finished(
        await service.resume(run, pause=first, approved=True), {"one": "go", "two": "go"}
    )
