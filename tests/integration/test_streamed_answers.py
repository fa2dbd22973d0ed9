"""Answers that come in pieces, from servers that keep to OpenAI's protocol and from servers that do not."""

import asyncio
import gc
import sys
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.engine.models import Finish, ModelAnswer, ModelError, Usage, model_for
from tests.anthropic_server import claude_says
from tests.asking import ASKED, KEY, Asking, Heard, chat, request
from tests.model_server import Answer, ModelServer, Request, breaks_off, events, fails, model_server
from tests.openai_server import call, calls, responds, says, streams

LISTENING = Asking(listens=True)
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def piece(index: int | None, arguments: Any = None, **head: Any) -> dict[str, Any]:
    """A delta with a piece of one call; `head` is its id and name, where the piece has them."""
    function = {"name": head["name"]} if "name" in head else {}
    function |= {} if arguments is None else {"arguments": arguments}
    sent = {"function": function, **({"id": head["id"]} if "id" in head else {})}
    return {"tool_calls": [sent if index is None else {"index": index, **sent}]}


TWO = [("send", {"to": "a"}), ("send", {"to": "b"})]
CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, Any]]]] = {
    "pieces of two calls mixed": (
        [
            piece(0, "", id="1", name="send"),
            piece(1, "", id="2", name="send"),
            piece(1, '{"to"'),
            piece(0, '{"to": "a"}'),
            piece(1, ': "b"}'),
        ],
        TWO,
    ),
    "one index for all": (
        [
            piece(0, '{"to": "a"}', id="1", name="send"),
            piece(0, '{"to": "b"}', id="2", name="send"),
        ],
        TWO,
    ),
    "one index and one id for all": (
        [
            piece(0, '{"to": "a"}', id="0", name="send"),
            piece(0, '{"to": "b"}', id="0", name="send"),
        ],
        TWO,
    ),
    "one index, no ids": (
        [piece(0, '{"to": "a"}', name="send"), piece(0, '{"to": "b"}', name="send")],
        TWO,
    ),
    "no index": (
        [piece(None, '{"to": "a"}', id="", name="send"), piece(None, '{"to": "b"}', name="send")],
        TWO,
    ),
    "no index, in pieces": (
        [
            piece(None, "", id="1", name="send"),
            piece(None, '{"to": '),
            piece(None, '"a"}'),
            piece(None, '{"to": "b"}', id="2", name="send"),
        ],
        TWO,
    ),
    "id and name with each piece": (
        [
            piece(0, '{"to": ', id="1", name="send"),
            piece(0, '"a"}', id="1", name="send"),
            piece(1, '{"to": "b"}', id="2", name="send"),
        ],
        TWO,
    ),
    "calls without arguments": (
        [piece(0, "", id="1", name="find"), piece(0, "", id="2", name="send")],
        [("find", {}), ("send", {})],
    ),
    "a call without a function": (
        [{"tool_calls": [{"index": 0, "id": "1"}]}, piece(1, "{}", id="2", name="send")],
        [("", {}), ("send", {})],
    ),
}


@pytest.mark.parametrize(("deltas", "proposed"), CALLS.values(), ids=CALLS.keys())
async def test_calls_come_together_however_they_are_cut(
    deltas: list[dict[str, Any]], proposed: list[tuple[str, Any]]
) -> None:
    answer = await LISTENING.answer_to(streams(*deltas, finish="tool_calls", usage=USAGE))
    assert [(each.tool, each.arguments) for each in answer.calls] == proposed
    assert [each.fault for each in answer.calls] == [None] * len(proposed)


async def test_usage_and_reasons_that_are_told_again_and_again_count_once() -> None:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test-2026"}
    ends = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}
    told = [{**head, "choices": [ends], "usage": {**USAGE, "completion_tokens": n}} for n in (1, 5)]
    answer = await LISTENING.answer_to(Answer(stream=lambda _: events(*told, "[DONE]")))
    assert answer.usage == Usage(input_tokens=10, output_tokens=5)
    assert (answer.model, answer.finish) == ("gpt-test-2026", Finish.COMPLETE)


async def test_a_text_is_heard_before_it_is_whole() -> None:
    async with model_server(replace(says("one two three"), drip=0.05)) as server:
        heard = Heard()
        asking = asyncio.create_task(ask(server, heard))
        async with asyncio.timeout(5):
            await heard.something.wait()
        assert not asking.done()
        assert heard.text == "one"
        assert (await asking).text == "one two three"


async def ask(
    server: ModelServer, heard: Heard, *, retries: int = 0, **settings: Any
) -> ModelAnswer:
    model = model_for(chat(server, **settings), timeout=timedelta(seconds=5), retries=retries)
    return await model.ask(request(), heard)


BROKEN: dict[str, tuple[Answer, str]] = {
    "the connection breaks": (breaks_off(says("half of the")), "its connection broke"),
    "the stream ends": (streams({"content": "half of"}, finish=None), "broke off in the middle"),
    "the server tells of an error": (
        Answer(
            stream=lambda _: events(
                {"id": "1", "choices": [{"index": 0, "delta": {"content": "half"}}]},
                {"error": {"message": f"what of {ASKED['text']}", "code": "server_error"}},
            )
        ),
        "told of an error in the middle of its answer (server_error)",
    ),
    "the server tells of an error at once": (
        Answer(stream=lambda _: events({"error": {"message": "no", "code": "overloaded"}})),
        "told of an error in the middle of its answer (overloaded)",
    ),
}


@pytest.mark.parametrize(("broken", "said"), BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_that_breaks_off_is_asked_for_again_and_heard_anew(
    broken: Answer, said: str
) -> None:
    async with model_server(broken, says("the whole answer")) as server:
        heard = Heard()
        answer = await ask(server, heard, retries=1)
        assert (answer.text, heard.text, heard.begun) == ("the whole answer", "the whole answer", 2)
    async with model_server(broken, broken, says("never")) as server:
        with pytest.raises(ModelError) as failed:
            await ask(server, Heard(), retries=1)
        assert len(server.requests) == 2
    assert said in failed.value.message
    assert ASKED["text"] not in failed.value.message


async def test_a_stream_that_stalls_is_given_up() -> None:
    error = await LISTENING.fault_of(replace(says("one two"), drip=1), timeout=0.1)
    assert "did not answer in time" in error.message


async def test_a_stream_that_never_ends_is_given_up() -> None:
    async with model_server(replace(says("one " * 5), drip=0.4)) as server:
        model = model_for(chat(server), timeout=timedelta(milliseconds=300), retries=0)
        with pytest.raises(ModelError, match=r"did not answer within 0\.3 s"):
            await model.ask(request(), Heard())


def refuses_to_stream(asked: Request) -> Answer:
    return fails(400, "unsupported_value") if asked.is_stream else says("as a whole")


def ignores_streaming(_: Request) -> Answer:
    return replace(says("as a whole"), stream=None)


@pytest.mark.parametrize("script", [refuses_to_stream, ignores_streaming])
async def test_a_server_that_cannot_stream_is_asked_for_whole_answers(script: Any) -> None:
    async with model_server(script=script) as server:
        model = model_for(chat(server), timeout=timedelta(seconds=5), retries=0)
        for _ in range(2):
            heard = Heard()
            assert (await model.ask(request(), heard)).text == "as a whole"
            assert heard.text == "as a whole"
        assert [each.is_stream for each in server.requests] == [True, False, False]


async def test_a_chat_model_that_must_not_stream_does_not() -> None:
    async with model_server(calls(call("send", '{"to": "a"}'), text="Well.")) as server:
        heard = Heard()
        answer = await ask(server, heard, disable_streaming=True)
        assert (heard.text, answer.calls[0].arguments) == ("Well.", {"to": "a"})
        assert not server.requests[0].is_stream


def message(**content: Any) -> dict[str, Any]:
    text: list[dict[str, Any]] = [{"annotations": [], **content}]
    return {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": text,
    }


@pytest.mark.parametrize("listens", [False, True])
async def test_responses_are_answers_too(listens: bool) -> None:
    asking = Asking(listens=listens)
    told = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    details = {"input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0}}
    used = {**told, **details, "output_tokens_details": {"reasoning_tokens": 0}}
    said = responds(message(type="output_text", text="Hello there."), usage=used)
    answer = await asking.answer_to(said, use_responses_api=True)
    assert (answer.text, answer.finish) == ("Hello there.", Finish.COMPLETE)
    assert answer.usage == Usage(input_tokens=9, output_tokens=4, cached_input_tokens=8)
    refused = responds(message(type="refusal", refusal="I will not."))
    answer = await asking.answer_to(refused, use_responses_api=True)
    assert (answer.text, answer.finish) == ("I will not.", Finish.REFUSED)
    cut = responds(
        message(type="output_text", text="Hello"),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    assert "was cut off" in (await asking.fault_of(cut, use_responses_api=True)).message


@contextmanager
def server_of_another_loop(answer: Answer) -> Generator[ModelServer]:
    """A server in a thread, for tests with event loops of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = model_server(script=lambda _: answer)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(5)
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_model_may_be_asked_in_several_event_loops(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = says("hello") if provider == "openai" else claude_says("hello")
    with server_of_another_loop(answer) as server, unclosed_connections():
        base = server.base_url if provider == "openai" else server.url
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", base)
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)
        ask_in_turn(f"{provider}:m", f"{provider}:m")


def ask_in_turn(*names: str) -> None:
    """Asks models again and again, each time in a loop of its own, that is left without a farewell."""
    models = [model_for(name, timeout=timedelta(seconds=5), retries=0) for name in names]
    for model in models * 2:
        for _ in range(2):
            assert asyncio.run(model.ask(request())).text == "hello"


@contextmanager
def unclosed_connections() -> Generator[None]:
    """Lets clients leave connections behind in loops that are closed under them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        # Where `langchain_anthropic` keeps the last of them.
        shared = sys.modules.get("langchain_anthropic._client_utils")
        if shared is not None:
            vars(shared)["_get_default_async_httpx_client"].cache_clear()
        gc.collect()
