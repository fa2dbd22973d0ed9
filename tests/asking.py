"""Asks models for whole answers, or for answers that are heard while they come."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient
from pydantic import SecretStr

from app.domain.message import Message
from app.engine.models import ModelAnswer, ModelError, ModelRequest, ToolSpec, model_for
from tests.model_server import Answer, ModelServer, model_server

KEY = "sk-never-shown"
ASKED = Message(role="user", text="the order of the customer")
SEND = ToolSpec(
    name="send",
    description="Sends.",
    parameters={"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
)


def chat(server: ModelServer, **settings: Any) -> ChatOpenAI:
    """A writer's own chat model, with connections of its own for as long as the server runs."""
    settings = {"timeout": 5, "max_retries": 0, **settings}
    connections = DefaultAsyncHttpxClient()
    server.clients.push_async_callback(connections.aclose)
    return ChatOpenAI(
        model="gpt-test",
        base_url=server.base_url,
        api_key=SecretStr(KEY),
        http_async_client=connections,
        **settings,
    )


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (SEND,)) -> ModelRequest:
    return ModelRequest(agent="clerk", turn=0, messages=messages or (ASKED,), tools=tools)


class Heard:
    """What was heard of an answer, as a client puts it together."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.begun = 0
        self.something = asyncio.Event()

    def begins(self) -> None:
        self.begun += 1
        self.pieces = []

    def hears(self, text: str) -> None:
        self.pieces.append(text)
        if self.text:
            self.something.set()

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Asking:
    """Asks a model for whole answers, or for answers that are heard while they come."""

    def __init__(self, *, listens: bool) -> None:
        self.listens = listens

    async def ask(
        self, server: ModelServer, *messages: Message, retries: int = 0, **settings: Any
    ) -> ModelAnswer:
        model = model_for(chat(server, **settings), timeout=timedelta(seconds=5), retries=retries)
        heard = Heard() if self.listens else None
        answer = await model.ask(request(*messages), heard)
        if heard is not None:
            assert server.requests[-1].is_stream
            assert heard.text == answer.text
        return answer

    async def answer_to(self, answer: Answer, **settings: Any) -> ModelAnswer:
        async with model_server(answer) as server:
            return await self.ask(server, **settings)

    async def fault_of(self, *scripted: Answer, **settings: Any) -> ModelError:
        """What comes of these answers; the last one is given again and again."""
        rest = iter(scripted)
        async with model_server(script=lambda _: next(rest, scripted[-1])) as server:
            with pytest.raises(ModelError) as failed:
                await self.ask(server, **settings)
        return failed.value
