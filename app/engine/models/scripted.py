"""Asks the models that are written out in workflows and tests."""

import re

from app import authoring
from app.authoring.model import ModelMessage, OfferedTool
from app.domain.json import InvalidJson
from app.domain.message import Message
from app.engine.models.exchange import (
    Hearer,
    ModelAnswer,
    ModelError,
    ModelRequest,
    Usage,
    check_answer,
)
from app.engine.models.messages import answered_call
from app.errors import SignoffError

NAME = "scripted"


class Script:
    """A scripted model. It took what its replies say, else nothing."""

    def __init__(self, model: authoring.ScriptedModel) -> None:
        self._model = model

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        reply = self._reply(request)
        if not reply.usage.cost.is_finite() or reply.usage.cost < 0:
            raise ModelError(NAME, f"says that it cost {reply.usage.cost} US dollars")
        answer = ModelAnswer(
            text=reply.text,
            calls=tuple(
                answered_call(call.provider_id, call.tool, call.arguments) for call in reply.calls
            ),
            usage=Usage(
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cost=reply.usage.cost,
            ),
            model=NAME,
        )
        try:
            check_answer(answer)
        except InvalidJson as error:
            raise ModelError.unstorable(NAME, error, answer.usage) from None
        if hearer is not None:
            _speak(answer.text, hearer)
        return answer

    async def aclose(self) -> None:
        """It has no connections."""

    def _reply(self, request: ModelRequest) -> authoring.Reply:
        try:
            reply = self._model.reply(_as_written(request))
        except SignoffError:  # it says itself what is wrong
            raise
        except Exception as error:
            raise ModelError(NAME, f"failed ({type(error).__name__})") from error
        if not isinstance(reply, authoring.Reply):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ModelError(NAME, f"answered with a {type(reply).__name__} instead of a Reply")
        return reply


def _speak(text: str, hearer: Hearer) -> None:
    """Says a text word by word."""
    hearer.begins()
    for word in _WORDS.findall(text):
        hearer.hears(word)


_WORDS = re.compile(r"\s*\S+|\s+")


def _as_written(request: ModelRequest) -> authoring.ModelRequest:
    return authoring.ModelRequest(
        agent=request.agent,
        turn=request.turn,
        messages=tuple(_message(each) for each in request.messages),
        tools=tuple(
            OfferedTool(
                name=each.name, description=each.description, arguments_schema=each.parameters
            )
            for each in request.tools
        ),
    )


def _message(message: Message) -> ModelMessage:
    calls = (
        authoring.ToolCall(tool=call["tool"], arguments=call["arguments"], provider_id=call["id"])
        for call in message.get("calls", [])
    )
    return ModelMessage(
        role=message["role"],
        text=message["text"],
        calls=tuple(calls),
        call_id=message.get("call_id"),
    )
