"""Somebody who talks slowly: a chat model whose answers come word by word, each when it is let."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from app.authoring import Agent, Workflow

FOLDER = "TALKERS_FOLDER"
"""The variable with the folder: a file of a word's name lets that word be said, and is gone when it is."""

WORDS = ("well, ", "hello,\u2028", "you!")


class SlowTalker(BaseChatModel):
    """Says the same to everybody."""

    @property
    def _llm_type(self) -> str:
        return "slow"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = [word async for word in _said()]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="".join(said)))])

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async for word in _said():
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


async def _said() -> AsyncIterator[str]:
    for word in WORDS:
        while not Path(os.environ[FOLDER], word).exists():  # noqa: ASYNC110 - another process lets it
            await asyncio.sleep(0.01)
        yield word
        Path(os.environ[FOLDER], word).unlink()


talker = Agent("talker", description="Greets", prompt="Greet.", model=SlowTalker())
talk = Workflow("talk", version="1", input=str, output=str, steps=[talker])
