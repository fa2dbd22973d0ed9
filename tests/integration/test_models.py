"""Models of providers, asked through a real HTTP server that speaks OpenAI's protocol."""

import asyncio
import re
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI

from app.authoring import ModelRequest as Told
from app.authoring import (
    Reply,
    ScriptedModel,
    ScriptRanOut,
    ToolCall,
    call_tool,
    call_tools,
    reply_with,
)
from app.authoring import Usage as Said
from app.domain.message import Message, ProposedCall
from app.engine.models import (
    Finish,
    ModelAnswer,
    ModelError,
    Usage,
    model_for,
)
from app.engine.models.messages import UNREADABLE
from app.errors import AuthoringError
from tests.asking import ASKED, KEY, SEND, Asking, chat, request
from tests.model_server import (
    Answer,
    answers,
    breaks_off,
    drops,
    fails,
    hangs,
    model_server,
)
from tests.openai_server import call, calls, responds, says

BODIES: list[Any] = [
    b"<html>",
    b"",
    b"[1]",
    {},
    {"choices": None},
    {"choices": []},
    {"choices": [{}]},
    {"choices": [{"message": None}]},
    {"choices": [{"message": {"role": "assistant", "tool_calls": "x"}}]},
    {"choices": [{"message": {"role": "assistant", "tool_calls": [{"function": "x"}]}}]},
    {"error": {"message": "overloaded"}},
]


@pytest.fixture(params=[False, True], ids=["whole", "heard"])
def asking(request: pytest.FixtureRequest) -> Asking:
    return Asking(listens=request.param)


@pytest.mark.parametrize(
    ("said", "cost"),
    [(0.0125, Decimal("0.0125")), (0, Decimal(0)), (-1, None), ("free", None), (True, None)],
)
async def test_what_a_provider_says_that_an_answer_cost_is_believed(
    asking: Asking, said: object, cost: Decimal | None
) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": said}
    assert (await asking.answer_to(says("Hello.", usage=used))).usage.cost == cost


async def test_a_text_comes_back_with_what_it_took(asking: Asking) -> None:
    used = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    answer = await asking.answer_to(says("Hello.", usage=used))
    assert answer.text == "Hello."
    assert answer.calls == ()
    assert answer.usage == Usage(input_tokens=100, output_tokens=7, cached_input_tokens=64)
    assert answer.model == "gpt-test-2026"
    assert answer.finish is Finish.COMPLETE
    assert answer.raw is None


async def test_an_answer_without_usage_took_nothing_that_is_known(asking: Asking) -> None:
    assert (await asking.answer_to(says("Hello.", usage=None))).usage == Usage()


async def test_the_conversation_and_the_tools_reach_the_provider(asking: Asking) -> None:
    proposal = ProposedCall(id="w1", tool="send", arguments={"to": "ä"})
    conversation = (
        Message(role="system", text="Be brief."),
        ASKED,
        Message(role="assistant", text="", calls=[proposal]),
        Message(role="tool", text="sent", call_id="w1"),
    )
    async with model_server(says("done")) as server:
        await asking.ask(server, *conversation)
        sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert [each["role"] for each in sent.messages] == ["system", "user", "assistant", "tool"]
    assert sent.messages[2]["tool_calls"] == [
        {"type": "function", "id": "w1", "function": {"name": "send", "arguments": '{"to": "ä"}'}}
    ]
    assert sent.messages[3] == {"role": "tool", "content": "sent", "tool_call_id": "w1"}
    assert [each["function"] for each in sent.body["tools"]] == [
        {"name": "send", "description": "Sends.", "parameters": SEND.parameters}
    ]


async def test_without_tools_none_are_sent() -> None:
    async with model_server(says("done")) as server:
        model = model_for(chat(server), timeout=timedelta(seconds=5), retries=0)
        await model.ask(request(tools=()))
        assert "tools" not in server.requests[0].body


async def test_parallel_calls_keep_their_order_and_their_ids(asking: Asking) -> None:
    answer = await asking.answer_to(
        calls(call("send", '{"to": "a"}', id="x"), call("find", '{"n": 1}', id="y"), text="Both.")
    )
    assert [(each.provider_id, each.tool, each.arguments) for each in answer.calls] == [
        ("x", "send", {"to": "a"}),
        ("y", "find", {"n": 1}),
    ]
    assert answer.text == "Both."


async def test_a_repeated_id_merges_no_calls(asking: Asking) -> None:
    answer = await asking.answer_to(
        calls(call("send", '{"to": "a"}', id="0"), call("send", '{"to": "b"}', id="0"))
    )
    assert [(each.provider_id, each.arguments) for each in answer.calls] == [
        ("0", {"to": "a"}),
        ("0", {"to": "b"}),
    ]


async def test_a_missing_or_empty_id_is_none(asking: Asking) -> None:
    answer = await asking.answer_to(calls(call("send", id=None), call("send", id="")))
    assert [each.provider_id for each in answer.calls] == [None, None]


@pytest.mark.parametrize("nothing", ["", None, "{}"])
async def test_no_arguments_are_an_empty_object(asking: Asking, nothing: str | None) -> None:
    answer = await asking.answer_to(calls(call("send", nothing)))
    assert (answer.calls[0].arguments, answer.calls[0].fault) == ({}, None)


async def test_arguments_may_come_as_an_object_instead_of_its_text(asking: Asking) -> None:
    answer = await asking.answer_to(calls(call("send", {"to": "a"})))
    assert answer.calls[0].arguments == {"to": "a"}


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ('{"to": ', "not valid JSON"),
        ("send it", "not valid JSON"),
        ("[" * 10_000, "not valid JSON"),
        ('["a"]', "not a JSON object"),
        ('"{}"', "not a JSON object"),
        ("null", "not a JSON object"),
    ],
)
async def test_invalid_arguments_are_kept_as_they_were_written(
    asking: Asking, written: str, fault: str
) -> None:
    answer = await asking.answer_to(calls(call("send", written)))
    assert answer.calls[0].arguments == written
    assert fault in (answer.calls[0].fault or "")


async def test_invalid_calls_stand_where_the_provider_put_them(asking: Asking) -> None:
    answer = await asking.answer_to(
        calls(
            call("first", "{", id="1"),
            call("second", "{}", id="2"),
            call("third", "[1]", id="3"),
            call("fourth", "{}", id="4"),
        )
    )
    assert [each.tool for each in answer.calls] == ["first", "second", "third", "fourth"]
    assert [each.fault is None for each in answer.calls] == [False, True, False, True]


async def test_a_call_without_a_function_is_a_call_of_no_tool(asking: Asking) -> None:
    answer = await asking.answer_to(calls({"id": "1", "type": "function"}, call("send", id="2")))
    assert [each.tool for each in answer.calls] == ["", "send"]


async def test_invalid_arguments_go_back_in_a_form_that_every_server_reads(asking: Asking) -> None:
    proposals = [
        ProposedCall(id="w1", tool="send", arguments="{oops"),
        ProposedCall(id="w2", tool="send", arguments={"to": "a"}),
    ]
    conversation = (
        ASKED,
        Message(role="assistant", text="", calls=proposals),
        Message(role="tool", text="Tool error: not valid JSON", call_id="w1"),
        Message(role="tool", text="sent", call_id="w2"),
    )
    async with model_server(says("done")) as server:
        await asking.ask(server, *conversation)
        sent = server.requests[0].messages[1]["tool_calls"]
    assert [each["id"] for each in sent] == ["w1", "w2"]
    assert sent[0]["function"]["arguments"] == f'{{"{UNREADABLE}": "{{oops"}}'


async def test_a_refusal_is_told_in_the_words_it_was_made_in(asking: Asking) -> None:
    answer = await asking.answer_to(says(None, refusal="I cannot help with that."))
    assert (answer.text, answer.finish) == ("I cannot help with that.", Finish.REFUSED)


@pytest.mark.parametrize("said", ["", "The beginning of"])
async def test_what_a_filter_has_stopped_is_no_answer(asking: Asking, said: str) -> None:
    error = await asking.fault_of(says(said, finish="content_filter"))
    assert "was stopped by its provider" in error.message
    assert error.usage == Usage(input_tokens=10, output_tokens=5)


async def test_a_refusal_without_a_word_is_no_answer(asking: Asking) -> None:
    error = await asking.fault_of(says(None, refusal=" "))
    assert "refused to answer" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        says("The beginning of", finish="length"),
        calls(call("find", ""), call("send", ""), finish="length"),
        calls(call("find", "{}"), call("send", "{}"), finish="length"),
    ],
    ids=["text", "calls", "calls that look whole"],
)
async def test_what_was_cut_off_is_no_answer(asking: Asking, answer: Answer) -> None:
    error = await asking.fault_of(answer)
    assert "was cut off at its output limit, after 5 tokens. Raise the model's max_tok" in str(
        error
    )
    assert error.usage == Usage(input_tokens=10, output_tokens=5)  # it was paid for all the same


@pytest.mark.parametrize(
    "answer",
    [
        says("a\0b"),
        says("\ud800"),
        says(None, refusal="\0"),
        says("fine", model="\0"),
        calls(call("send", '{"to": "\\u0000"}')),
        calls(call("send", '{"to": "\\ud800"}')),
        calls(call("send", '{"\\u0000": 1}')),
        calls(call("send", '{"n": 1e400}')),
        calls(call("send", '{"n": Infinity}')),
        calls(call("send", '{"n": 9223372036854775808}')),
        calls(call("send", '{"n": ' + "[" * 100 + "]" * 100 + "}")),
        calls(call("send", "{\0")),
        calls(call("se\0nd")),
        calls(call("send", id="\0")),
    ],
    ids=lambda answer: "",
)
async def test_what_cannot_be_stored_is_a_model_error(asking: Asking, answer: Answer) -> None:
    error = await asking.fault_of(answer)
    assert "answered with what cannot be stored" in error.message
    assert error.usage == Usage(input_tokens=10, output_tokens=5)  # it was paid for all the same


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "did not take the request (status 400, some_error)"),
        (401, "refused the credentials (status 401, some_error)"),
        (404, "is not known to the provider (status 404, some_error)"),
        (429, "is over its rate limit or quota (status 429, some_error)"),
        (500, "answered with an error (status 500, some_error)"),
        (503, "answered with an error (status 503, some_error)"),
    ],
)
async def test_an_error_of_the_provider_is_told_without_its_words(
    asking: Asking, status: int, said: str
) -> None:
    error = await asking.fault_of(fails(status, message=f"bad key {KEY}; you said {ASKED['text']}"))
    assert error.message.startswith(f"The model ChatOpenAI:gpt-test {said}. ")
    assert ASKED["text"] not in error.message
    assert KEY not in error.message
    assert (error.code, error.status) == ("model_error", status)
    assert error.__suppress_context__


async def test_a_code_that_is_no_bare_word_is_left_out(asking: Asking) -> None:
    error = await asking.fault_of(fails(400, code=f"You wrote {ASKED['text']}"))
    assert "(status 400)." in error.message


async def test_a_conversation_that_does_not_fit_says_so(asking: Asking) -> None:
    error = await asking.fault_of(fails(400, message="prompt is too long"))
    assert "more than fits its context" in error.message


@pytest.mark.parametrize("failing", [fails(429, retry_after="0.01"), fails(500), drops()])
async def test_the_client_tries_again(asking: Asking, failing: Answer) -> None:
    async with model_server(failing, says("at last")) as server:
        assert (await asking.ask(server, max_retries=1)).text == "at last"
        assert len(server.requests) == 2


async def test_retries_end(asking: Asking) -> None:
    async with model_server() as server:
        with pytest.raises(ModelError):
            await asking.ask(server, max_retries=1)
        assert len(server.requests) == 2


async def test_a_client_error_is_not_tried_again(asking: Asking) -> None:
    async with model_server(fails(401), says("never")) as server:
        with pytest.raises(ModelError):
            await asking.ask(server, max_retries=3)
        assert len(server.requests) == 1


async def test_a_provider_that_hangs_is_given_up(asking: Asking) -> None:
    error = await asking.fault_of(hangs(), timeout=0.05)
    assert "did not answer in time" in error.message


async def test_a_client_without_a_timeout_is_given_up_too() -> None:
    async with model_server(hangs()) as server:
        model = model_for(chat(server, timeout=None), timeout=timedelta(milliseconds=50), retries=0)
        with pytest.raises(ModelError, match=r"did not answer within 0\.05 s"):
            await model.ask(request())


@pytest.mark.parametrize("scripted", [drops(), breaks_off(says("half of"))])
async def test_a_broken_connection_is_a_model_error(asking: Asking, scripted: Answer) -> None:
    assert "connection" in (await asking.fault_of(scripted)).message


async def test_a_provider_that_is_not_there_is_a_model_error(asking: Asking) -> None:
    async with model_server() as server:
        pass
    with pytest.raises(ModelError, match="could not be reached"):
        await asking.ask(server)


@pytest.mark.parametrize("body", BODIES)
async def test_an_answer_outside_the_protocol_is_a_model_error(asking: Asking, body: Any) -> None:
    assert "cannot be read" in (await asking.fault_of(answers(body))).message


async def test_a_question_can_be_cancelled(asking: Asking) -> None:
    async with model_server(hangs()) as server:
        question = asyncio.create_task(asking.ask(server))
        await server.asked.wait()
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        async with asyncio.timeout(5):
            await server.left.wait()


async def test_one_client_and_its_connection_serve_every_question() -> None:
    async with model_server(says("one"), says("two"), says("three")) as server:
        model = model_for(chat(server), timeout=timedelta(seconds=5), retries=0)
        said = [(await model.ask(request())).text for _ in range(3)]
        assert said == ["one", "two", "three"]
        assert server.connections == 1


async def test_a_streaming_chat_model_is_asked_for_whole_answers() -> None:
    async with model_server(calls(call("a", id="0"), call("b", id="0"))) as server:
        answer = await Asking(listens=False).ask(server, streaming=True)
        assert not server.requests[0].body.get("stream")
    assert [each.tool for each in answer.calls] == ["a", "b"]


async def test_a_writers_chat_model_is_left_as_it_was() -> None:
    async with model_server(calls(call("send", id="1"))) as server:
        given = chat(server)
        await model_for(given, timeout=timedelta(seconds=5), retries=0).ask(request())
        assert type(given) is ChatOpenAI


async def test_a_model_is_named_by_provider_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with model_server(fails(500, retry_after="0.01"), *[says("hello")] * 4) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        model = model_for("openai:gpt-named", timeout=timedelta(seconds=5), retries=1)
        async with aclosing(model):
            answered = await asyncio.gather(*(model.ask(request()) for _ in range(4)))
        assert [answer.text for answer in answered] == ["hello"] * 4
        assert len(server.requests) == 5
        for sent in server.requests:
            assert sent.body["model"] == "gpt-named"
            assert sent.headers["authorization"] == f"Bearer {KEY}"
            assert sent.headers["x-stainless-read-timeout"] == "5.0"


async def test_a_missing_key_is_told_at_the_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = model_for("openai:gpt-named", timeout=timedelta(seconds=5), retries=0)
    with pytest.raises(ModelError, match="cannot be set up"):
        await model.ask(request())


@pytest.mark.parametrize(
    ("spec", "mistake"),
    [
        ("gpt-5", 'not of the form "provider:name"'),
        ("openai:", 'not of the form "provider:name"'),
        (":gpt", 'not of the form "provider:name"'),
        ("opnai:gpt-5", "unknown provider"),
        ("cohere:command", "pip install langchain-cohere"),
    ],
)
def test_a_malformed_model_is_found_before_anything_runs(spec: str, mistake: str) -> None:
    with pytest.raises(AuthoringError, match=mistake):
        model_for(spec, timeout=timedelta(seconds=5), retries=0)


async def test_responses_keep_the_order_of_calls_and_get_their_reasoning_back(
    asking: Asking,
) -> None:
    reasoning: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "abc",
    }
    first = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "1",
        "name": "a",
        "arguments": "{oops",
    }
    second = {"type": "function_call", "id": "fc_2", "call_id": "2", "name": "b", "arguments": "{}"}
    scripted = responds(reasoning, first, second)
    async with model_server(scripted, scripted) as server:
        answer = await asking.ask(server, use_responses_api=True)
        assert [each.tool for each in answer.calls] == ["a", "b"]
        calls = [
            ProposedCall(id=f"w{at}", tool=each.tool, arguments=each.arguments)
            for at, each in enumerate(answer.calls)
        ]
        said = Message(role="assistant", text=answer.text, calls=calls, raw=answer.raw)
        await asking.ask(server, ASKED, said, use_responses_api=True)
        sent = server.requests[1].body["input"]
    assert sent[1] == reasoning
    assert [each["call_id"] for each in sent[2:]] == ["w0", "w1"]


class Thinking(BaseChatModel):
    """A chat model of some other provider, that wants its reasoning back."""

    heard: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "thinking"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.heard.append(messages)
        answer = AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I shall send it."},
                {"type": "tool_use", "id": "toolu_1", "name": "send", "input": {"to": "a"}},
            ],
            additional_kwargs={"signatures": {"toolu_1": "sig"}, "socket": object()},
            tool_calls=[{"name": "send", "args": {"to": "a"}, "id": "toolu_1"}],
            response_metadata={"model": "thinker-1", "stop_reason": "tool_use"},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


def spoken(answer: ModelAnswer, text: str) -> Message:
    proposal = ProposedCall(id="w1", tool="send", arguments=answer.calls[0].arguments)
    return Message(role="assistant", text=text, calls=[proposal], raw=answer.raw)


async def test_reasoning_goes_back_to_its_provider_under_the_ids_in_use() -> None:
    thinking = Thinking(heard=[])
    model = model_for(thinking, timeout=timedelta(seconds=5), retries=0)
    answer = await model.ask(request())
    assert (answer.text, answer.model) == ("I shall send it.", "thinker-1")
    await model.ask(request(ASKED, spoken(answer, answer.text)))
    heard = thinking.heard[1][1]
    assert isinstance(heard, AIMessage)
    assert heard.content == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I shall send it."},
    ]
    assert heard.additional_kwargs == {"signatures": {"w1": "sig"}}
    assert [each["id"] for each in heard.tool_calls] == ["w1"]


async def test_reasoning_does_not_go_to_another_provider(asking: Asking) -> None:
    answer = await model_for(Thinking(heard=[]), timeout=timedelta(seconds=5), retries=0).ask(
        request()
    )
    async with model_server(says("done")) as server:
        await asking.ask(server, ASKED, spoken(answer, answer.text))
        assert server.requests[0].messages[1]["content"] == "I shall send it."


async def test_reasoning_is_dropped_with_the_text_it_led_to() -> None:
    thinking = Thinking(heard=[])
    model = model_for(thinking, timeout=timedelta(seconds=5), retries=0)
    answer = await model.ask(request())
    await model.ask(request(ASKED, spoken(answer, "Something else.")))
    assert thinking.heard[1][1].content == "Something else."


def script(model: ScriptedModel) -> Any:
    return model_for(model, timeout=timedelta(seconds=5), retries=0)


async def test_a_script_reads_the_conversation_and_the_tools() -> None:
    heard: list[Told] = []

    def answer(told: Told) -> Reply:
        heard.append(told)
        return reply_with("done")

    proposal = ProposedCall(id="w1", tool="send", arguments={"to": "a"})
    conversation = (
        ASKED,
        Message(role="assistant", text="", calls=[proposal]),
        Message(role="tool", text="sent", call_id="w1"),
    )
    assert (await script(ScriptedModel(answer)).ask(request(*conversation))).text == "done"
    assert [each.role for each in heard[0].messages] == ["user", "assistant", "tool"]
    assert heard[0].messages[1].calls[0].arguments == {"to": "a"}
    assert heard[0].messages[2].call_id == "w1"
    assert (heard[0].agent, heard[0].turn, heard[0].tools[0].name) == ("clerk", 0, "send")


async def test_a_script_takes_nothing_unless_it_says_so() -> None:
    silent = await script(ScriptedModel([reply_with("hello")])).ask(request())
    assert silent.usage == Usage(cost=Decimal(0))
    said = Said(input_tokens=3, output_tokens=2, cost=Decimal("0.01"))
    spoken = await script(ScriptedModel([reply_with("hello", usage=said)])).ask(request())
    assert spoken.usage == Usage(input_tokens=3, output_tokens=2, cost=Decimal("0.01"))


async def test_a_script_plays_a_providers_ids_and_its_invalid_arguments() -> None:
    reply = call_tools(
        call_tool("send", {"to": "a"}, provider_id="0"),
        call_tool("send", "{oops", provider_id="0"),
        call_tool("send"),
    )
    answer = await script(ScriptedModel([reply])).ask(request())
    assert [each.provider_id for each in answer.calls] == ["0", "0", None]
    assert [each.arguments for each in answer.calls] == [{"to": "a"}, "{oops", {}]
    assert [each.fault is None for each in answer.calls] == [True, False, True]


async def test_a_script_that_ran_out_says_so() -> None:
    with pytest.raises(ScriptRanOut):
        await script(ScriptedModel([reply_with("one")])).ask(replace(request(), turn=1))


def fail(_: Told) -> Reply:
    raise KeyError("private")


def babble(_: Told) -> str:
    return "text"


SCRIPTS: list[tuple[Any, str]] = [
    (fail, "The model scripted failed (KeyError)."),
    (babble, "The model scripted answered with a str instead of a Reply."),
    ([reply_with("\0")], "cannot be stored"),
    ([Reply(calls=(ToolCall(tool="send", arguments={"n": 2**63}),))], "cannot be stored"),
]


@pytest.mark.parametrize(("scripted", "said"), SCRIPTS)
async def test_a_script_that_fails_is_a_model_error(scripted: Any, said: str) -> None:
    with pytest.raises(ModelError, match=re.escape(said)):
        await script(ScriptedModel(scripted)).ask(request())
