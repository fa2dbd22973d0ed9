"""Asks the models of providers, through LangChain's chat models."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage

from app.authoring.model import ChatModel
from app.domain.json import InvalidJson
from app.engine.models import messages
from app.engine.models.clients import client_of, close, maker_of, never_repeats
from app.engine.models.exchange import (
    Finish,
    Hearer,
    ModelAnswer,
    ModelError,
    ModelRequest,
    ToolSpec,
    check_answer,
)
from app.engine.models.failures import (
    CHECK_KEY,
    Impatient,
    status_of,
    told_as_model_errors,
)
from app.engine.models.prices import name_of
from app.engine.models.repeating import LONGEST_WAIT, is_broken, may_pass, pause_before
from app.engine.models.streamed import DoesNotStream, put_together

_CANNOT_STREAM = frozenset({400, 405, 422, 501})


class ProviderModel:
    """A provider's model. Its client is made at the first question and kept, one for each event loop."""

    def __init__(self, chat: str | ChatModel, *, timeout: timedelta, retries: int) -> None:
        self._given = chat
        self._timeout = timeout
        self._retries = retries
        self._label = chat if isinstance(chat, str) else name_of(chat)
        self._clients: dict[asyncio.AbstractEventLoop, ChatModel] = {}
        self._making = threading.Lock()
        self._streams = True

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        loop = asyncio.get_running_loop()
        chat = self._clients.get(loop) or await asyncio.to_thread(self._made, loop)
        with told_as_model_errors(self._label, self._patience):
            said = messages.to_langchain(request.messages, maker_of(chat))
            tools = [_openai_tool(spec) for spec in request.tools]
            asked = chat.bind_tools(tools) if tools else chat
            limit = asyncio.timeout(self._patience)
            try:
                async with limit:
                    answer = await self._asked(chat, asked, said, hearer)
            except TimeoutError:
                if limit.expired():
                    raise Impatient from None
                raise
            return self._read(answer, maker_of(chat))

    async def aclose(self) -> None:
        """Closes its connections in this event loop; a writer's own client is left to the writer."""
        chat = self._clients.pop(asyncio.get_running_loop(), None)
        if chat is not None and isinstance(self._given, str):
            await close(chat)

    def _made(self, loop: asyncio.AbstractEventLoop) -> ChatModel:
        """The client. In a thread: the import of a provider's package takes seconds."""
        with self._making:
            if loop not in self._clients:
                try:
                    made = client_of(self._given, self._timeout, self._retries)
                except Exception as error:  # noqa: BLE001 - provider packages raise what they like
                    fault = f"cannot be set up ({type(error).__name__})"
                    raise ModelError(self._label, fault, advice=CHECK_KEY) from None
                others = {
                    each: chat for each, chat in self._clients.items() if not each.is_closed()
                }
                self._clients = {**others, loop: made}
            return self._clients[loop]

    @property
    def _patience(self) -> float:
        """Seconds for all attempts: some clients have no timeout, others only one from byte to byte."""
        return (self._retries + 1) * self._timeout.total_seconds() + self._retries * LONGEST_WAIT

    async def _asked(
        self, chat: ChatModel, asked: Any, said: list[BaseMessage], hearer: Hearer | None
    ) -> AIMessage:
        """The answer, if need be after some attempts that failed."""
        for attempt in range(1, self._retries + 2):
            try:
                return await self._attempt(chat, asked, said, hearer)
            except Exception as error:
                if attempt > self._retries or not self._may_repeat(chat, error):
                    raise
                await asyncio.sleep(pause_before(attempt, error))
        raise AssertionError("a model is asked at least once")

    def _may_repeat(self, chat: ChatModel, error: Exception) -> bool:
        """Whether to ask again. Where the client does so by itself, only for what it does not see to."""
        repeats = isinstance(self._given, str) and never_repeats(chat)
        return is_broken(error) or (repeats and may_pass(error))

    async def _attempt(
        self, chat: ChatModel, asked: Any, said: list[BaseMessage], hearer: Hearer | None
    ) -> AIMessage:
        if hearer is None:
            return await asked.ainvoke(said)
        hearer.begins()
        if self._streams:
            try:
                return await put_together(asked.astream(said), hearer, maker=maker_of(chat))
            except Exception as error:
                if not _cannot_stream(error):
                    raise
        answer: AIMessage = await asked.ainvoke(said)
        self._streams = False  # not before it is known that nothing else was wrong
        hearer.hears(messages.text_of(answer))
        return answer

    def _read(self, answer: AIMessage, maker: str) -> ModelAnswer:
        read = _answer(answer, maker=maker, label=self._label)
        try:
            check_answer(read)
        except InvalidJson as error:
            raise ModelError.unstorable(self._label, error, read.usage) from None
        why = _why_unusable(read)
        if why is not None:
            fault, advice = why
            raise ModelError(self._label, fault, advice=advice, usage=read.usage)
        return read


def _cannot_stream(error: Exception) -> bool:
    """Whether the endpoint may answer as a whole what it does not answer in pieces."""
    if isinstance(error, ContextOverflowError):
        return False
    return isinstance(error, DoesNotStream) or status_of(error) in _CANNOT_STREAM


def _why_unusable(answer: ModelAnswer) -> tuple[str, str] | None:
    """What is wrong with an answer that is not what the model meant to say, and what to do."""
    match answer.finish:
        case Finish.CUT_OFF:
            return (
                f"was cut off at its output limit, after {answer.usage.output_tokens} tokens",
                "Raise the model's max_tokens, or have it write less.",
            )
        case Finish.FILTERED:
            return "was stopped by its provider for what it says", _REPHRASE
        case Finish.REFUSED if not answer.text.strip():
            return "refused to answer", _REPHRASE
        case Finish.REFUSED | Finish.COMPLETE:
            return None


_REPHRASE = "Look at what it was asked, or take another model."


def _answer(answer: AIMessage, *, maker: str, label: str) -> ModelAnswer:
    calls = messages.calls_of(answer)
    said = answer.response_metadata
    return ModelAnswer(
        text=messages.text_of(answer),
        calls=calls,
        usage=messages.usage_of(answer),
        model=str(said.get("model_name") or said.get("model") or label),
        finish=messages.finish_of(answer),
        raw=messages.raw_of(answer, maker, calls),
    )


def _openai_tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
