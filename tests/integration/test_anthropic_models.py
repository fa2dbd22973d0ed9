"""Models of Anthropic, asked through a real HTTP server that speaks its Messages protocol."""

from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from pydantic import SecretStr

from app.domain.message import Message, ProposedCall
from app.engine.models import Finish, ModelAnswer, ModelError, ProviderModel, Usage, model_for
from app.engine.models.clients import close
from tests.anthropic_server import begins, claude_fails, claude_says, claude_streams, use
from tests.asking import ASKED, KEY, SEND, Heard, request
from tests.model_server import Answer, ModelServer, breaks_off, drops, hangs, model_server


class Claude:
    """Asks Anthropic's model for whole answers, or for answers that are heard while they come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, listens: bool) -> None:
        self._monkeypatch = monkeypatch
        self.listens = listens
        self.heard = Heard()

    async def ask(
        self, server: ModelServer, *messages: Message, retries: int = 0, timeout: float = 5
    ) -> ModelAnswer:
        self._monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        self._monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        seconds = timedelta(seconds=timeout)
        model = ProviderModel("anthropic:claude-test", timeout=seconds, retries=retries)
        async with aclosing(model):
            answer = await model.ask(request(*messages), self.heard if self.listens else None)
        assert server.requests[-1].is_stream == self.listens
        assert self.heard.text == (answer.text if self.listens else "")
        return answer

    async def answer_to(self, *answers: Answer, **options: Any) -> ModelAnswer:
        async with model_server(*answers) as server:
            return await self.ask(server, **options)

    async def fault_of(self, answer: Answer, **options: Any) -> ModelError:
        async with model_server(script=lambda _: answer) as server:
            with pytest.raises(ModelError) as failed:
                await self.ask(server, **options)
        return failed.value


@pytest.fixture(params=[False, True], ids=["whole", "heard"])
def claude(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Claude:
    return Claude(monkeypatch, listens=request.param)


async def test_a_text_comes_back_with_what_it_took(claude: Claude) -> None:
    used = {"cache_read_input_tokens": 64, "cache_creation_input_tokens": 6}
    answer = await claude.answer_to(claude_says("Hello there.", usage=used))
    assert (answer.text, answer.model) == ("Hello there.", "claude-test-2026")
    assert answer.finish is Finish.COMPLETE
    # Anthropic counts cached tokens beside the others; here they are a part of them.
    assert answer.usage == Usage(input_tokens=80, output_tokens=5, cached_input_tokens=64)


async def test_the_conversation_and_the_tools_reach_the_provider(claude: Claude) -> None:
    proposal = ProposedCall(id="w1", tool="send", arguments={"to": "ä"})
    conversation = (
        Message(role="system", text="Be brief."),
        ASKED,
        Message(role="assistant", text="", calls=[proposal]),
        Message(role="tool", text="Tool error: nobody there", call_id="w1"),
    )
    async with model_server(claude_says("done")) as server:
        await claude.ask(server, *conversation)
        sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert KEY in str(sent.headers)
    assert sent.body["system"] == "Be brief."
    assert [each["role"] for each in sent.messages] == ["user", "assistant", "user"]
    (called,) = sent.messages[1]["content"]
    assert (called["id"], called["name"], called["input"]) == ("w1", "send", {"to": "ä"})
    (result,) = sent.messages[2]["content"]
    assert (result["tool_use_id"], result["content"]) == ("w1", "Tool error: nobody there")
    (tool,) = sent.body["tools"]
    assert (tool["name"], tool["input_schema"]) == ("send", SEND.parameters)


async def test_parallel_calls_keep_their_order_their_ids_and_the_words_before_them(
    claude: Claude,
) -> None:
    answer = await claude.answer_to(
        claude_says("Both.", use("send", {"to": "a"}, id="x"), use("find", {"n": 1}, id="y"))
    )
    assert answer.text == "Both."
    assert [(each.provider_id, each.tool, each.arguments) for each in answer.calls] == [
        ("x", "send", {"to": "a"}),
        ("y", "find", {"n": 1}),
    ]


async def test_ids_that_are_repeated_or_empty_merge_no_calls(claude: Claude) -> None:
    uses = [use("send", {"to": "a"}, id="0"), use("send", {"to": "b"}, id="0"), use("send", id="")]
    answer = await claude.answer_to(claude_says(None, *uses))
    assert [(each.provider_id, each.arguments) for each in answer.calls] == [
        ("0", {"to": "a"}),
        ("0", {"to": "b"}),
        (None, {}),
    ]


@pytest.mark.parametrize("written", ['{"to": ', "send it", '["a"]'])
async def test_arguments_that_are_no_object_are_kept_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    listening = Claude(monkeypatch, listens=True)
    uses = [use("send", written, id="1"), use("send", {"to": "a"}, id="2")]
    answer = await listening.answer_to(claude_says(None, *uses))
    assert [each.arguments for each in answer.calls] == [written, {"to": "a"}]
    assert [each.fault is None for each in answer.calls] == [False, True]


async def test_thoughts_are_not_heard_and_go_back_with_their_signature(claude: Claude) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    first = claude_says("I send it.", use("send", {"to": "a"}), before=[thought])
    async with model_server(first, claude_says("done")) as server:
        answer = await claude.ask(server)
        assert answer.text == "I send it."
        call = ProposedCall(id="w1", tool="send", arguments={"to": "a"})
        said = Message(role="assistant", text=answer.text, calls=[call], raw=answer.raw)
        claude.heard = Heard()
        result = Message(role="tool", text="sent", call_id="w1")
        await claude.ask(server, ASKED, said, result)
        sent = server.requests[1].messages[1]["content"]
    assert [each["type"] for each in sent] == ["thinking", "text", "tool_use"]
    assert {key: sent[0][key] for key in thought} == thought
    assert sent[2]["id"] == "w1"


async def test_an_answer_that_was_cut_off_is_none(claude: Claude) -> None:
    error = await claude.fault_of(claude_says("The beginning", use("send"), stop="max_tokens"))
    assert "was cut off at its output limit, after 5 tokens" in error.message
    assert error.usage == Usage(input_tokens=10, output_tokens=5)


async def test_an_answer_that_was_stopped_for_what_it_says_is_none(claude: Claude) -> None:
    error = await claude.fault_of(claude_says("The begin", stop="refusal"))
    assert "was stopped by its provider" in error.message


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (claude_fails(401, "authentication_error"), "refused the credentials (status 401"),
        (claude_fails(404, "not_found_error"), "is not known to the provider (status 404"),
        (claude_fails(429, "rate_limit_error"), "over its rate limit or quota (status 429"),
        (claude_fails(500), "answered with an error (status 500"),
        (claude_fails(529, "overloaded_error"), "is overloaded (status 529, overloaded_error)"),
        (drops(), "could not be reached, or its connection broke"),
    ],
)
async def test_a_failure_is_told_with_what_to_do(
    claude: Claude, failing: Answer, said: str
) -> None:
    error = await claude.fault_of(failing)
    assert said in error.message
    assert error.message.startswith("The model anthropic:claude-test ")
    assert error.message.count(". ") >= 1


@pytest.mark.parametrize(
    "failing",
    [claude_fails(429, retry_after="0.01"), claude_fails(529), claude_fails(500), drops()],
)
async def test_what_may_pass_is_tried_again_as_often_as_the_agent_says(
    claude: Claude, failing: Answer
) -> None:
    async with model_server(failing, claude_says("at last")) as server:
        assert (await claude.ask(server, retries=1)).text == "at last"
    async with model_server(failing, failing, claude_says("never")) as server:
        with pytest.raises(ModelError):
            await claude.ask(server, retries=1)
        assert len(server.requests) == 2


async def test_a_provider_that_hangs_is_given_up(claude: Claude) -> None:
    assert "did not answer" in (await claude.fault_of(hangs(), timeout=0.2)).message


@pytest.mark.parametrize(
    "broken",
    [
        breaks_off(claude_says("half of the")),
        claude_streams(begins()),
        claude_streams({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
        claude_streams(
            begins(), {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}
        ),
    ],
    ids=["connection", "end", "error at once", "error later"],
)
async def test_a_stream_that_breaks_off_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, broken: Answer
) -> None:
    listening = Claude(monkeypatch, listens=True)
    answer = await listening.answer_to(broken, claude_says("the whole answer"), retries=1)
    assert (answer.text, listening.heard.begun) == ("the whole answer", 2)
    assert (await listening.fault_of(broken)).code == "model_error"


async def test_a_writers_own_chat_model_keeps_its_settings(claude: Claude) -> None:
    async with model_server(claude_fails(500), claude_fails(500), claude_says("hello")) as server:
        settings: dict[str, Any] = {"model_name": "c", "timeout": 5, "stop": None}
        chat = ChatAnthropic(base_url=server.url, api_key=SecretStr(KEY), max_retries=2, **settings)
        server.clients.push_async_callback(close, chat)
        model = model_for(chat, timeout=timedelta(seconds=5), retries=0)
        heard = claude.heard if claude.listens else None
        assert (await model.ask(request(), heard)).text == "hello"
        assert len(server.requests) == 3
