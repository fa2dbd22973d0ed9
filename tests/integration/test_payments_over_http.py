"""The example that moves money, driven to every end over HTTP."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from app.authoring import (
    Limits,
    ModelRequest,
    Reply,
    ScriptedModel,
    Usage,
    Workflow,
    call_tool,
    reply_with,
)
from examples import payments as example
from examples.payments import Refund, cashier, finance, operators, payments, refund
from tests.service import Api, approval, rejection, until
from tests.serving import service

Json = dict[str, Any]
COMPLAINT = {"text": "It broke."}
STOPPED = "stopped: run budget exhausted"


@asynccontextmanager
async def counter(database_url: str, workflow: Workflow = payments) -> AsyncGenerator[Api]:
    """Whoever may complain, and whoever decides."""
    async with service(database_url, [workflow]) as served:
        yield Api(served.client)


def with_model(script: Callable[[ModelRequest], Reply]) -> Workflow:
    """The example, whose model says something else."""
    return Workflow(
        "payments",
        version="1.0.0",
        input=example.Complaint,
        steps=[replace(cashier, model=ScriptedModel(script))],
        channels=[finance, operators],
        limits=Limits(run_cost=Decimal("0.50")),
    )


def asking_for(call: Reply) -> Workflow:
    """The example, whose model asks for one call and then repeats what came of it."""

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        return reply_with(last.text) if last.role == "tool" else call

    return with_model(answer)


def refunding(amount: str) -> Workflow:
    return asking_for(call_tool(refund, Refund(order="A-1", amount=Decimal(amount))))


def value(given: object, by: str = "otto") -> Json:
    return {"value": given, "by": by}


async def agreed(api: Api, run: Json) -> Json:
    """The run after two of the finance people have approved its refund."""
    run = await api.decided(run["pause"], approval(by="fay"))
    assert run["status"] == "paused"
    return await api.decided(run["pause"], approval(by="finn"))


# ── As it stands ─────────────────────────────────────────────────────────────────────────────────


async def test_a_refund_is_voted_on_an_account_filled_in_and_a_question_answered(
    database_url: str,
) -> None:
    async with counter(database_url) as api:
        run = await api.started("payments", COMPLAINT)
        first = run["pause"]
        assert (first["kind"], first["channel"], first["call"]["tool"]) == (
            "approval",
            "finance",
            "refund",
        )
        assert first["position"] == {"index": 0, "of": 2}
        assert first["policy"]["approvers"] == ["group:finance"]
        assert first["policy"]["quorum"] == 2
        run = await api.decided(first, approval(by="fay"))
        assert run["pause"]["id"] == first["id"]
        assert [each["by"] for each in run["pause"]["votes"]] == ["fay"]
        run = await api.decided(first, approval(by="finn"))
        assert (run["pause"]["kind"], run["pause"]["channel"]) == ("input", "operators")
        assert run["pause"]["call"]["arguments"] == {"customer": "C-1"}
        run = await api.decided(run["pause"], value({"iban": "DE89370400440532013000"}))
        assert run["pause"]["kind"] == "interactive"
        assert run["pause"]["options"] == ["main", "reserve"]
        run = await api.decided(run["pause"], value("reserve"))
        assert run["status"] == "completed"
        assert run["output"] == (
            '{"order":"A-1","total":"120.00"}; refunded 120.00 from reserve; C-1 is paid out to DE89'
        )
        assert run["usage"]["model_calls"] == 2
        assert run["usage"]["tool_calls"] == 3
        assert [each["kind"] for each in run["pauses"]] == ["approval", "input", "interactive"]


async def test_one_rejection_ends_the_vote_and_the_rest_of_the_turn_goes_on(
    database_url: str,
) -> None:
    async with counter(database_url) as api:
        run = await api.started("payments", COMPLAINT)
        run = await api.decided(run["pause"], approval(by="fay"))
        run = await api.decided(run["pause"], rejection(by="finn", feedback="too much"))
        run = await api.decided(run["pause"], value({"iban": "DE89"}))
        assert run["status"] == "completed"
        assert "Tool error: the call was rejected by finn: too much" in run["output"]
        assert run["output"].endswith("C-1 is paid out to DE89")


async def test_nobody_has_to_fill_in_or_to_answer(database_url: str) -> None:
    async with counter(database_url) as api:
        run = await agreed(api, await api.started("payments", COMPLAINT))
        run = await api.decided(run["pause"], rejection(by="otto", feedback="unknown"))
        run = await api.decided(run["pause"], rejection(by="otto"))
        assert run["status"] == "completed"
        assert run["output"].split("; ")[1:] == [
            "Tool error: declined by otto",
            "Tool error: declined by otto: unknown",
        ]


async def test_an_answer_that_is_no_option_leaves_the_question_open(database_url: str) -> None:
    async with counter(database_url) as api:
        run = await agreed(api, await api.started("payments", COMPLAINT))
        wrong = await api.decide(run["pause"], value({"iban": 7}))
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (
            422,
            "/decision/value/iban",
        )
        run = await api.decided(run["pause"], value({"iban": "DE89"}))
        wrong = await api.decide(run["pause"], value("petty cash"))
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_decision")
        assert (await api.decided(run["pause"], value("main")))["status"] == "completed"


async def test_the_description_says_what_it_may_cost_and_what_is_checked(database_url: str) -> None:
    async with counter(database_url) as api:
        described = await api.get("/workflows/payments")
        assert described["limits"] == {"run_cost": {"limit": "0.50", "default": False}}
        (agent,) = described["agents"]
        assert agent["guardrails"]["before_tool_call"] == ["no_round_sums"]
        assert agent["limits"]["model_calls"] == {"limit": 8, "default": False}


# ── With other things for its model to say ───────────────────────────────────────────────────────


async def test_a_small_refund_asks_nobody_but_which_account(database_url: str) -> None:
    async with counter(database_url, refunding("20.00")) as api:
        run = await api.started("payments", COMPLAINT)
        assert run["pause"]["kind"] == "interactive"
        run = await api.decided(run["pause"], value("main"))
        assert run["output"] == "refunded 20.00 from main"


async def test_a_round_sum_is_blocked_and_put_before_nobody(database_url: str) -> None:
    async with counter(database_url, refunding("3000.00")) as api:
        run = await api.started("payments", COMPLAINT)
        assert run["status"] == "completed"
        assert run["output"] == "Tool error: blocked by no_round_sums: suspiciously round"
        assert run["pauses"] == []
        assert run["usage"]["tool_calls"] == 1


async def test_an_override_is_checked_by_the_guardrail_before_it_counts(database_url: str) -> None:
    gated = replace(example.refund, approval=None)
    agent = replace(cashier, tools=[gated])

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role == "tool":
            return reply_with(last.text)
        return call_tool(gated, Refund(order="A-1", amount=Decimal(120)))

    workflow = Workflow(
        "payments",
        version="1.0.0",
        input=example.Complaint,
        steps=[replace(agent, model=ScriptedModel(answer))],
        channels=[finance, operators],
    )
    async with counter(database_url, workflow) as api:
        run = await api.started("payments", COMPLAINT)
        edited = {"order": "A-1", "amount": "2000"}
        refused = await api.decide(run["pause"], approval(override_arguments=edited))
        assert refused.status_code == 422
        assert refused.json()["code"] == "guardrail_blocked"
        assert refused.json()["errors"] == [
            {
                "pointer": "/decision/override_arguments",
                "message": "blocked by no_round_sums: suspiciously round",
            }
        ]
        now = await api.get(f"/pauses/{run['pause']['id']}")
        assert now["status"] == "open"
        edited = {"order": "A-1", "amount": "90"}
        run = await api.decided(run["pause"], approval(override_arguments=edited))
        run = await api.decided(run["pause"], value("main"))
        assert run["output"].startswith("refunded 90 from main\n\n[alice changed the arguments of")


async def test_a_call_that_somebody_else_makes_is_reported(database_url: str) -> None:
    phoning = asking_for(call_tool(example.call_customer, customer="C-1", reason="late"))
    async with counter(database_url, phoning) as api:
        run = await api.started("payments", COMPLAINT)
        assert run["pause"]["kind"] == "external_result"
        reported = await api.decided(run["pause"], value(""))
        assert (reported["status"], reported["output"]) == ("completed", "")
        run = await api.started("payments", COMPLAINT)
        run = await api.decided(run["pause"], rejection(by="otto", feedback="no answer"))
        assert run["output"] == "Tool error: declined by otto: no answer"


async def test_a_spent_budget_ends_the_loop_and_withdraws_no_approved_call(
    database_url: str,
) -> None:
    def wasteful(request: ModelRequest) -> Reply:
        call = call_tool(refund, Refund(order="A-1", amount=Decimal(120)))
        return Reply(calls=call.calls, usage=Usage(input_tokens=10, cost=Decimal("0.30")))

    async with counter(database_url, with_model(wasteful)) as api:
        run = await api.started("payments", COMPLAINT)
        assert run["usage"]["cost"] == "0.30"
        run = await api.decided((await agreed(api, run))["pause"], value("main"))
        assert run["usage"]["cost"] == "0.60"
        run = await api.decided((await agreed(api, run))["pause"], value("main"))
        assert run["status"] == "completed"
        assert (run["output"], run["stop_reason"]) == (STOPPED, STOPPED)
        assert run["usage"]["model_calls"] == 2
        assert run["usage"]["tool_calls"] == 2
        spent = {each["path"]: Decimal(each["cost"]) for each in run["steps"]}
        assert {path: cost for path, cost in spent.items() if cost} == {
            "payments/cashier": Decimal("0.60")
        }


# ── Time ─────────────────────────────────────────────────────────────────────────────────────────


def soon(pause: Json, **after: float) -> str:
    """A moment so much after a pause was opened, which was just now."""
    return (datetime.fromisoformat(pause["opened_at"]) + timedelta(**after)).isoformat()


async def test_three_quarters_into_its_time_a_vote_is_put_before_the_operators_too(
    database_url: str,
) -> None:
    async with counter(database_url) as api:
        pause = (await api.started("payments", COMPLAINT))["pause"]
        moved = await api.ask(
            "POST", f"/pauses/{pause['id']}/extend", {"expires_at": soon(pause, hours=6, seconds=2)}
        )
        assert moved.status_code == 200, moved.text

        async def is_escalated() -> bool:
            return (await api.get(f"/pauses/{pause['id']}"))["escalated_to"] == "operators"

        await until(is_escalated)
        listed = await api.get("/pauses", channel="operators", status="open")
        assert [each["id"] for each in listed["items"]] == [pause["id"]]


async def test_a_refund_that_nobody_decides_is_rejected(database_url: str) -> None:
    async with counter(database_url) as api:
        run = await api.started("payments", COMPLAINT)
        pause = run["pause"]
        await api.ask(
            "POST", f"/pauses/{pause['id']}/extend", {"expires_at": soon(pause, seconds=2)}
        )

        async def next_question() -> Json | None:
            now = await api.run(run)
            return now if now["pause"] and now["pause"]["id"] != pause["id"] else None

        run = await until(next_question)
        assert run["pauses"][0]["status"] == "expired"
        assert run["pauses"][0]["decision"]["by"] == "system:deadline"
        run = await api.decided(run["pause"], value({"iban": "DE89"}))
        assert "Tool error: the call was rejected by system:deadline" in run["output"]
