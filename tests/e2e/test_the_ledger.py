"""A long run with pauses, kills and a budget that is spent: what its ledger says is what it took."""

import asyncio
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.model_server import Answer, Request, model_server
from tests.openai_server import call, calls
from tests.service import Api, Processes, Served, approval, processes
from tests.workflows.spending import REPORTED, SERVED, VARIABLE

Json = dict[str, Any]

PRICES = {"openai:gpt-test": {"input": "1000", "output": "2000"}}
EACH = Decimal("0.02")
"""What an answer costs: 10 tokens in, 5 out."""
MODEL_CALLS = 30
KILLED_AT = (3, 10, 17, 25)
"""How many questions the model has had when the service is killed; a moment later each time."""


def turn_of(request: Request) -> int:
    return sum(each["role"] == "assistant" for each in request.messages)


def answer(request: Request) -> Answer:
    """Searches, and every fifth time signs, which has to be approved."""
    turn = turn_of(request)
    name = "sign" if turn % 5 == 4 else "search"
    proposed = call(name, json.dumps({"number": turn}), id=f"call_{turn}")
    return calls(proposed, wait=0.02)


@pytest.mark.timeout(300)  # each service imports the provider's package anew
async def test_the_ledger_is_what_the_model_counted_less_what_was_in_flight_at_a_kill(
    tmp_path: Path, database_url: str
) -> None:
    notes = tmp_path / "notes"
    async with model_server(script=answer) as server:
        environment = {
            VARIABLE: str(notes),
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": server.base_url,
            "SIGNOFF_PRICES": json.dumps(PRICES),
            "SIGNOFF_LEASE_SECONDS": "1",
        }
        with processes(
            tmp_path, workflows=SERVED, database_url=database_url, environment=environment
        ) as begun:
            run = await _driven(begun, server.requests)
        counted = Counter(turn_of(each) for each in server.requests)
    assert (run["status"], run["stop_reason"]) == ("completed", "stopped: run budget exhausted")
    assert sorted(counted) == list(range(MODEL_CALLS))
    ledger = await _ledger(database_url)
    models = [row for row in ledger if row["kind"] == "model"]
    reports = [row for row in ledger if row["kind"] == "report"]
    in_flight = sum(counted.values()) - len(counted)
    assert len(models) == sum(counted.values()) - in_flight == MODEL_CALLS
    assert sum(row["cost"] for row in models) == MODEL_CALLS * EACH
    assert len(reports) == MODEL_CALLS * 4 // 5
    assert sum(row["cost"] for row in reports) == len(reports) * REPORTED
    assert run["usage"] == {
        "model_calls": MODEL_CALLS,
        "tool_calls": MODEL_CALLS,
        "input_tokens": 10 * MODEL_CALLS,
        "output_tokens": 5 * MODEL_CALLS,
        "cost": str(sum(row["cost"] for row in ledger)),
    }
    done = Counter(notes.read_text().split("\n")[:-1])
    repeated = sum(times - 1 for times in done.values())
    assert in_flight + repeated <= len(KILLED_AT), "no more is repeated than was in flight"
    assert len(done) == 3 * MODEL_CALLS, "looked at, run, and seen"
    assert [each["status"] for each in run["pauses"]] == ["decided"] * (MODEL_CALLS // 5)


async def _driven(begun: Processes, requests: list[Request]) -> Json:
    """The run at its end, over a service that is killed again and again."""
    served = await begun.serve()
    async with served.api() as api:
        run = await api.accepted("spending", "buy")
    for number, asked in enumerate(KILLED_AT):
        await _decided_until(served, run, lambda asked=asked: len(requests) >= asked)
        await asyncio.sleep(0.01 * number)
        served.kill()
        served = await begun.serve()
    return await _decided_until(served, run, lambda: False)


async def _decided_until(served: Served, run: Json, is_time: Any) -> Json:
    """Approves what is asked until it is time, or the run has ended."""
    async with served.api() as api, asyncio.timeout(60):
        while not is_time():
            run = await api.run(run)
            if run["finished_at"] is not None:
                break
            await _approved(api, run)
            await asyncio.sleep(0.05)
    return run


async def _approved(api: Api, run: Json) -> None:
    if run["pause"] is not None:
        await api.decide(run["pause"], approval(), prefer="respond-async")


async def _ledger(database_url: str) -> list[Any]:
    database = await asyncpg.connect(database_url)
    try:
        return await database.fetch("select kind, cost from ledger")
    finally:
        await database.close()
