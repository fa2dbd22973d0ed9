"""What the engine and a model say to each other, and how it is said that a model failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from app.domain.json import InvalidJson, Json, check_json
from app.domain.message import Message
from app.errors import SignoffError


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One turn's question. The call ids in `messages` are unique, whatever the provider called them."""

    agent: str
    turn: int
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, kw_only=True)
class AnsweredCall:
    """A call as the model proposed it.

    `provider_id` is what the provider named it: absent with some, the same for several calls with others.
    `arguments` is an object or, where the model wrote anything else, its text; `fault` then says what
    is wrong with it.
    """

    provider_id: str | None
    tool: str
    arguments: Json
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What an answer took. Cached tokens are part of the input tokens; `cost` is None where unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cost: Decimal | None = None


class Finish(StrEnum):
    """Why the model stopped writing."""

    COMPLETE = "complete"
    CUT_OFF = "cut_off"  # at its output limit: text or last call may be half of what was meant
    REFUSED = "refused"  # by the model, in the words of the text
    FILTERED = "filtered"  # stopped by the provider, for what it says


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """One turn's answer. `raw` belongs into the assistant's `Message`: the provider wants it back."""

    text: str
    calls: tuple[AnsweredCall, ...] = ()
    usage: Usage = Usage()
    model: str
    finish: Finish = Finish.COMPLETE
    raw: Json = None


def check_answer(answer: ModelAnswer) -> None:
    """Raises `InvalidJson` where a part of the answer cannot be stored."""
    calls = [[call.provider_id, call.tool, call.fault] for call in answer.calls]
    check_json({"text": answer.text, "calls": calls, "model": answer.model})
    for call in answer.calls:
        check_json(call.arguments)
    check_json(answer.raw)


class Hearer(Protocol):
    """Hears the text of an answer while it is written. Must be quick, and must not raise."""

    def begins(self) -> None:
        """The answer begins; what was heard of an attempt before this one does not count."""
        ...

    def hears(self, text: str) -> None:
        """The next piece of it."""
        ...


class Model(Protocol):
    """Whatever answers an agent: a provider's model, or a script."""

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        """Returns the answer, or raises `ModelError`. May be cancelled at any time.

        A hearer has heard the whole text, if any, before the answer is returned.
        """
        ...

    async def aclose(self) -> None:
        """Closes what connections it has in this event loop."""
        ...


class ModelError(SignoffError):
    """A model gave no usable answer, its client's retries included.

    The message is for an operator: which model, and what happened. It never quotes the provider, whose
    own words may repeat the prompt or a part of the key. `advice` says what to do. `usage` is what the answer
    took if there was one.
    """

    code = "model_error"

    def __init__(
        self,
        model: str,
        fault: str,
        *,
        advice: str = "",
        status: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        message = " ".join([f"The model {model} {fault}.", advice]).rstrip()
        super().__init__(message, model=model, status=status)
        self.model = model
        self.status = status
        self.usage = usage

    @property
    def details(self) -> Json:
        """What a program may want to know of it."""
        return {"model": self.model, "status": self.status}

    @classmethod
    def unstorable(cls, model: str, error: InvalidJson, usage: Usage) -> "ModelError":
        """An answer with a value in it that `check_answer` refused."""
        where = error.fields[0]
        fault = f"answered with what cannot be stored: {where.message} at {where.pointer or '/'}"
        return cls(model, fault, usage=usage)
