"""What runs may cost: prices, the ledger, and budgets that are spent."""

import asyncio
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import (
    Agent,
    AuthoringError,
    Limits,
    Loop,
    ModelJudge,
    ModelRequest,
    ModelRouter,
    Parallel,
    Question,
    Reply,
    Router,
    ScriptedModel,
    Step,
    StepContext,
    ToolContext,
    Usage,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.domain.decision import Value
from app.domain.ledger import LedgerKind, Price
from app.engine.models import REPORTED, Prices
from app.engine.program import Program
from tests.engine_runs import EngineRun, approvers, run, script, workflow

STOPPED = "stopped: run budget exhausted"
DIME = Usage(cost=Decimal("0.10"))
BUDGET = Limits(run_cost=Decimal("0.20"))


def costing(*replies: Reply) -> ScriptedModel:
    """A model of which every answer costs a dime."""
    return script(*(Reply(text=each.text, calls=each.calls, usage=DIME) for each in replies))


@tool
async def look() -> str:
    return "seen"


@tool(channel=approvers)
async def pay() -> str:
    return "paid"


async def shout(context: StepContext, text: str) -> str:
    return text.upper()


def budgeted(*steps: Any, **options: Any) -> Workflow:
    return Workflow(
        "work",
        version="1",
        input=str,
        steps=steps,
        channels=[approvers],
        limits=BUDGET,
        **options,
    )


def spender(*replies: Reply, name: str = "assistant", **options: Any) -> Agent:
    tools = options.pop("tools", [look, pay])
    return Agent(name, prompt="Help.", model=costing(*replies), tools=tools, **options)


LOOKING = [call_tool(look), call_tool(look), call_tool(look)]


async def test_a_spent_budget_ends_the_loop_without_a_model_call() -> None:
    ended = await run(budgeted(spender(*LOOKING), history=1))
    assert ended.output == STOPPED
    assert ended.ended.stop_reason == STOPPED
    assert sum(entry.kind is LedgerKind.MODEL for entry in ended.ledger) == 2
    assert [each["role"] for each in ended.said()][-3:] == ["assistant", "tool", "assistant"]


async def test_what_is_left_of_a_budget_may_be_spent() -> None:
    ended = await run(budgeted(spender(call_tool(look), reply_with("done"))))
    assert ended.output == "done"
    assert ended.ended.stop_reason is None


@pytest.mark.parametrize(
    "following",
    [
        Step("shout", shout),
        spender(reply_with("more"), name="other"),
        Parallel("both", steps=[Step("one", shout), Step("two", shout)]),
        Loop("again", steps=[Step("shout", shout)], max_iterations=2),
        Step("inner", Workflow("inner", version="1", input=str, steps=[Step("shout", shout)])),
        Step("forgiving", shout, on_error="skip"),
    ],
    ids=lambda each: each.name,
)
async def test_the_next_step_of_any_kind_fails_the_run(following: Any) -> None:
    failed = await run(budgeted(spender(*LOOKING), following))
    assert failed.error.code == "limit_exceeded"
    assert failed.error.details == {"key": "limits.run_cost"}
    assert failed.error.step == f"work/{following.name}"
    assert sum(entry.kind is LedgerKind.MODEL for entry in failed.ledger) == 2


async def test_a_spent_budget_withdraws_no_approved_call_and_outlives_a_pause() -> None:
    paused = await run(budgeted(spender(call_tool(look), call_tool(pay), reply_with("more"))))
    await paused.restarted().approve()
    assert paused.output == STOPPED
    tools = [entry.name for entry in paused.ledger if entry.kind is LedgerKind.TOOL]
    assert tools == ["look", "pay"]


async def test_guardrails_and_judges_do_not_see_the_words_of_a_budget_that_is_spent() -> None:
    heard: list[str] = []

    def listen(answer: str) -> None:
        heard.append(answer)

    ended = await run(budgeted(spender(*LOOKING, before_answer=[listen], judges=[listen])))
    assert ended.output == STOPPED
    assert heard == []


async def test_a_judge_that_is_a_model_is_not_asked_from_a_spent_budget() -> None:
    critic = ModelJudge("critic", model=costing(reply_with("ACCEPT")), prompt="Good?")
    ended = await run(
        budgeted(spender(call_tool(look), reply_with("done"), judges=[critic]), history=1)
    )
    assert ended.output == STOPPED
    assert ended.said()[-1]["text"] == STOPPED


async def test_a_typed_answer_cannot_say_that_the_budget_is_spent() -> None:
    class Answer(BaseModel):
        text: str

    failed = await run(budgeted(spender(*LOOKING, output=Answer)))
    assert failed.error.details == {"key": "limits.run_cost"}


async def test_what_a_tool_reports_is_spent_too() -> None:
    @tool
    async def expensive(context: ToolContext) -> str:
        context.report_cost(0.15)
        return "done"

    ended = await run(
        budgeted(spender(call_tool(expensive), reply_with("more"), tools=[expensive]))
    )
    assert ended.output == STOPPED


async def test_a_model_that_chooses_the_way_is_not_asked_from_a_spent_budget() -> None:
    asked: list[int] = []

    def choose(request: ModelRequest) -> Reply:
        asked.append(request.turn)
        return reply_with("nowhere", usage=DIME)

    router = Router(
        "way",
        choices=[Step("left", shout)],
        select=ModelRouter(model=ScriptedModel(choose), prompt="Which?"),
    )
    failed = await run(budgeted(router))
    assert failed.error.details == {"key": "limits.run_cost"}
    assert asked == [0, 1]


async def test_a_branch_that_stopped_says_so_for_the_run() -> None:
    ended = await run(budgeted(Parallel("both", steps=[spender(*LOOKING), Step("shout", shout)])))
    assert ended.output == {"assistant": STOPPED, "shout": "WORK"}
    assert ended.ended.stop_reason == STOPPED


# ── The ledger ───────────────────────────────────────────────────────────────────────────────────


def costs(engine: EngineRun) -> dict[str, Decimal]:
    """What tools reported, by the end of the place, each once as in the table."""
    found = {e.place: e.cost for e in engine.ledger if e.kind is LedgerKind.REPORT}
    return {place.rpartition("/cost")[2]: cost for place, cost in found.items()}


async def test_a_cost_counts_once_although_its_tool_runs_again_after_a_question() -> None:
    @tool
    async def search(context: ToolContext) -> str:
        context.report_cost(0.01)

        async def paid() -> str:
            context.report_cost(0.02)
            return "found"

        found = await context.step("paid", paid)
        context.report_cost(0.03)
        which = await context.pause(Question("Which?", answer=str, channel=approvers))
        context.report_cost(0.04)
        return f"{found} {which}"

    agent = spender(call_tool(search), reply_with("done"), tools=[search])
    paused = await run(budgeted(agent))
    while_paused = {"0/#0": Decimal("0.01"), "0/paid#0": Decimal("0.02"), "0/#1": Decimal("0.03")}
    assert costs(paused) == while_paused
    await paused.restarted().decide(Value(value="this"))
    assert costs(paused) == {**while_paused, "0/#2": Decimal("0.04")}
    assert paused.spent.cost == Decimal("0.20")  # of which a dime is the model's first answer
    assert paused.output == STOPPED


async def test_every_attempt_of_a_call_costs_what_it_reports() -> None:
    tried: list[int] = []

    @tool(retries=1)
    async def flaky(context: ToolContext) -> str:
        context.report_cost(0.01)
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError("again")
        return "done"

    ended = await run(workflow(flaky, model=script(call_tool(flaky))))
    assert sorted(costs(ended)) == ["0/#0", "1/#0"]


async def test_a_failed_call_has_cost_what_it_reported() -> None:
    @tool(timeout=timedelta(milliseconds=50))
    async def slow(context: ToolContext) -> str:
        context.report_cost(0.01)
        await asyncio.sleep(10)
        return "late"

    ended = await run(workflow(slow, model=script(call_tool(slow))))
    assert "timed out" in str(ended.output)
    assert ended.spent.cost == Decimal("0.01")


async def test_a_script_that_costs_what_nothing_can_fails_the_run() -> None:
    for cost in ("-1", "NaN", "Infinity"):
        model = script(reply_with("done", usage=Usage(cost=Decimal(cost))))
        failed = await run(workflow(model=model))
        assert failed.error.code == "model_error"


# ── Prices ───────────────────────────────────────────────────────────────────────────────────────


def priced(*agents: Agent) -> Workflow:
    return Workflow("work", version="1", input=str, steps=agents, limits=BUDGET)


def asking(model: Any, **options: Any) -> Agent:
    return Agent("assistant", prompt="Help.", model=model, **options)


def test_a_model_without_a_price_under_a_budget_is_an_authoring_error() -> None:
    judge = ModelJudge("critic", model="openai:b", prompt="Good?")
    with pytest.raises(AuthoringError) as told:
        Program(priced(asking("openai:a", judges=[judge])))
    assert told.value.message == (
        "The workflow 'work' limits what a run may cost, and no price is known of openai:a of the "
        "agent 'assistant', openai:b of the judge 'critic' of 'assistant': name it in SIGNOFF_PRICES."
    )
    Program(priced(asking(script(reply_with("a")))))


def test_a_price_is_found_by_the_whole_name_or_by_the_models_own() -> None:
    price = Price(input=Decimal(1), output=Decimal(2))
    for name in ("openai:a", "a"):
        Program(priced(asking("openai:a")), prices=Prices(table={name: price}))
    Program(priced(asking("openai:a")), prices=Prices(table={"openai:a": REPORTED}))
    with pytest.raises(AuthoringError):
        Program(priced(asking("openai:a")), prices=Prices(table={"openai:b": price}))


def test_cached_tokens_have_a_price_of_their_own() -> None:
    price = Price(input=Decimal(2), output=Decimal(8), cached_input=Decimal("0.5"))
    cost = price.of(input_tokens=1_000_000, cached_input_tokens=400_000, output_tokens=100_000)
    assert cost == Decimal("1.2") + Decimal("0.2") + Decimal("0.8")
    plain = Price(input=Decimal(2), output=Decimal(8))
    assert plain.of(input_tokens=10, cached_input_tokens=4, output_tokens=0) == Decimal("0.00002")


# ── Time, and visits ─────────────────────────────────────────────────────────────────────────────


async def test_an_agent_may_work_only_so_long_and_people_take_their_time() -> None:
    @tool
    async def slow() -> str:
        await asyncio.sleep(0.2)
        return "done"

    limits = Limits(time=timedelta(milliseconds=350))
    calls = [call_tools(call_tool(slow)) for _ in range(4)]
    failed = await run(workflow(slow, model=script(*calls), limits=limits))
    assert failed.error.code == "limit_exceeded"
    assert failed.error.details == {"key": "agents.assistant.limits.time"}
    paused = await run(workflow(pay, model=script(call_tool(pay)), limits=limits))
    await asyncio.sleep(0.4)
    await paused.restarted().approve()
    assert paused.output == "paid"


async def test_a_model_is_not_waited_for_longer_than_its_agent_may_work() -> None:
    def dawdling(request: ModelRequest) -> Reply:
        time.sleep(0.05)
        return call_tool(look)

    limits = Limits(time=timedelta(milliseconds=120), model_calls=50, tool_calls=50)
    failed = await run(workflow(look, model=ScriptedModel(dawdling), limits=limits))
    assert failed.error.details == {"key": "agents.assistant.limits.time"}


async def test_a_second_visit_starts_at_zero() -> None:
    limits = Limits(model_calls=2, tool_calls=1)
    agent = Agent(
        "assistant",
        prompt="Help.",
        model=script(call_tool(look), reply_with("round")),
        tools=[look],
        limits=limits,
    )
    looped = Workflow(
        "work", version="1", input=str, steps=[Loop("twice", steps=[agent], max_iterations=3)]
    )
    assert (await run(looped)).output == "round"
