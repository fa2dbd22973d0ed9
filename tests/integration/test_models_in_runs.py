"""Runs whose agents ask a provider's model, over a real HTTP server that speaks its protocol."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from app.authoring import Agent, Workflow, tool
from app.channels import InboxChannel
from tests.asking import KEY
from tests.engine_runs import EngineRun, run
from tests.model_server import ModelServer, fails, model_server
from tests.openai_server import call, calls, says

inbox = InboxChannel("inbox")
USED = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
CACHED = {**USED, "prompt_tokens_details": {"cached_tokens": 64}}


@tool(channel=inbox)
def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


class Office:
    """A workflow with one agent, whose model is the server's."""

    def __init__(self, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        self.server = server

    async def run(self, **options: Any) -> EngineRun:
        options = {"timeout": timedelta(seconds=5), "retries": 0, **options}
        clerk = Agent(
            "clerk",
            prompt="Work.",
            model="openai:gpt-test",
            tools=[send],
            **options,
        )
        office = Workflow("office", version="1.0.0", input=str, steps=[clerk], channels=[inbox])
        return await run(office)


async def test_ids_repeated_over_turns_are_asked_run_and_answered_each_on_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same = [call("send", '{"to": "a"}', id="0"), call("send", '{"to": "b"}', id="0")]
    answers = [calls(*same), calls(call("send", '{"to": "c"}', id="0")), says("done")]
    async with model_server(*answers) as server:
        going = await Office(server, monkeypatch).run()
        for to in ("a", "b", "c"):
            assert going.shown_call["arguments"] == {"to": to}
            await going.approve()
        assert going.output == "done"
        await going.program.aclose()
        sent = server.requests[-1].messages
    asked = [each["id"] for message in sent for each in message.get("tool_calls", [])]
    told = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert asked == told
    assert len(set(asked)) == 3


async def test_the_ledger_has_what_each_answer_took_also_one_that_was_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [
        calls(call("send", "{oops"), usage=CACHED),
        says("Half", finish="length", usage=USED),
    ]
    async with model_server(*answers) as server:
        done = await Office(server, monkeypatch).run()
        await done.program.aclose()
    assert done.error.code == "model_error"
    assert "was cut off at its output limit, after 7 tokens" in done.error.message
    models = [each for each in done.ledger if each.kind == "model"]
    assert [(each.input_tokens, each.cached_input_tokens) for each in models] == [
        (100, 64),
        (100, 0),
    ]


async def test_a_model_that_stays_away_fails_the_run_after_the_agents_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing = fails(429, "insufficient_quota", message="you said work", retry_after="0.01")
    async with model_server(script=lambda _: failing) as server:
        done = await Office(server, monkeypatch).run(retries=2)
        await done.program.aclose()
        assert len(server.requests) == 3
    assert done.error.code == "model_error"
    assert done.error.details == {"model": "openai:gpt-test", "status": 429}
    assert "rate limit or quota (status 429, insufficient_quota). Try again" in done.error.message
    assert "work" not in done.error.message


class Letter(BaseModel):
    text: str
    words: int


async def test_a_refusal_in_words_is_an_answer_and_never_a_structured_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with model_server(script=lambda _: says(None, refusal="I will not.")) as server:
        office = Office(server, monkeypatch)
        in_words = await office.run()
        assert in_words.output == "I will not."
        structured = await office.run(output=Letter)
        await in_words.program.aclose()
        await structured.program.aclose()
        assert len(server.requests) == 2
    assert "refused to answer" in structured.error.message
