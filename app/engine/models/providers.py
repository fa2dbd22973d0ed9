"""Asks the models of providers, through LangChain's chat models."""

import asyncio
import importlib.util
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

from langchain.chat_models import init_chat_model
from langchain.chat_models.base import _BUILTIN_PROVIDERS as PROVIDERS  # pyright: ignore[reportPrivateUsage]
from langchain_core.exceptions import ContextOverflowError, ModelConnectionError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from app.authoring.model import ChatModel
from app.domain.json import InvalidJson
from app.engine.models import messages
from app.engine.models.exchange import (
    Hearer,
    ModelAnswer,
    ModelError,
    ModelRequest,
    ToolSpec,
    check_answer,
)
from app.engine.models.openai_calls import keeping_calls
from app.errors import AuthoringError

LONGEST_WAIT = timedelta(seconds=60)
"""Between two attempts. Clients obey no longer `Retry-After` (openai and anthropic: 60 s)."""

_SPEC = re.compile(r"(?P<provider>[a-z][a-z0-9_-]*):(?P<name>\S+)")
_BY_STATUS = {
    401: "refused the credentials",
    403: "refused the credentials",
    404: "is not known to the provider",
    408: "did not answer in time",
    413: "was sent more than it takes",
    429: "is over its rate limit or quota",
    529: "is overloaded",
}


class ProviderModel:
    """A provider's model. Its client is made at the first question and kept."""

    def __init__(self, chat: str | ChatModel, *, timeout: timedelta, retries: int) -> None:
        self._given = chat
        self._timeout = timeout
        self._retries = retries
        self._label = chat if isinstance(chat, str) else label_of(chat)
        self._client: ChatModel | None = None
        self._making = threading.Lock()

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        answer = await self._ask(request)
        if hearer is not None:
            hearer.begins()
            hearer.hears(answer.text)
        return answer

    async def _ask(self, request: ModelRequest) -> ModelAnswer:
        chat = self._client or await asyncio.to_thread(self._made)
        with self._telling():
            said = messages.to_langchain(request.messages, _maker(chat))
            tools = [_openai_tool(spec) for spec in request.tools]
            asked = chat.bind_tools(tools) if tools else chat
            async with asyncio.timeout(self._patience):
                answer = await asked.ainvoke(said)
            return self._read(answer, _maker(chat))

    def _made(self) -> ChatModel:
        """The client. In a thread: the import of a provider's package takes seconds."""
        with self._making:
            if self._client is None:
                try:
                    self._client = _chat_model(self._given, self._timeout, self._retries)
                except Exception as error:  # noqa: BLE001 - provider packages raise what they like
                    fault = f"cannot be set up ({type(error).__name__}): its key may be missing"
                    raise ModelError(self._label, fault) from None
            return self._client

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Turns whatever goes wrong into a `ModelError`, without the provider's own words."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - provider packages raise what they like
            raise self._failed(error) from None

    def _read(self, answer: AIMessage, maker: str) -> ModelAnswer:
        read = _answer(answer, maker=maker, label=self._label)
        try:
            check_answer(read)
        except InvalidJson as error:
            raise ModelError.unstorable(self._label, error, read.usage) from None
        return read

    @property
    def _patience(self) -> float:
        """Seconds for all attempts: some clients have no timeout, others only one from byte to byte."""
        waits = self._retries * LONGEST_WAIT
        return ((self._retries + 1) * self._timeout + waits).total_seconds()

    def _failed(self, error: Exception) -> ModelError:
        status = _status(error)
        match error:
            case ContextOverflowError():
                fault = "was sent more than fits its context"
            case TimeoutError():
                fault = f"did not answer within {self._patience:g} s"
            case ModelTimeoutError():
                fault = "did not answer in time"
            case ModelConnectionError() | ConnectionError():
                fault = "could not be reached, or its connection broke"
            case _ if status is not None:
                said = _BY_STATUS.get(status, "answered with an error")
                fault = f"{said} (status {status}{_reason(error)})"
            case _ if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
                fault = f"sent an answer that cannot be read ({type(error).__name__})"
            case _:
                fault = f"failed ({type(error).__name__})"
        return ModelError(self._label, fault, status=status)


def checked(spec: str) -> str:
    """The spec as it is, or an `AuthoringError` that says what is wrong with it. Imports nothing."""
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise AuthoringError(f'The model {spec!r} is not of the form "provider:name".')
    provider = found["provider"].replace("-", "_")
    if provider not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise AuthoringError(f"The model {spec!r} names an unknown provider. Known are: {known}.")
    package = PROVIDERS[provider][0].partition(".")[0]
    if importlib.util.find_spec(package) is None:
        install = package.replace("_", "-")
        raise AuthoringError(f"The model {spec!r} needs a package: pip install {install}")
    return spec


def _chat_model(given: str | ChatModel, timeout: timedelta, retries: int) -> ChatModel:
    match given:
        case str():
            return keeping_calls(_named(given, timeout, retries))
        case BaseChatModel():
            return _not_streaming(keeping_calls(given))
        case _:
            return given


def _named(spec: str, timeout: timedelta, retries: int) -> BaseChatModel:
    provider, _, name = spec.partition(":")
    make = cast("Callable[..., BaseChatModel]", init_chat_model)
    bare = make(name, model_provider=provider)
    options = {"timeout": timeout.total_seconds(), "max_retries": retries}
    taken = {option: value for option, value in options.items() if _takes(bare, option)}
    return make(name, model_provider=provider, **taken)


def _takes(chat: BaseChatModel, option: str) -> bool:
    """Whether it is a setting of this client. Some (Bedrock's) send on to the model what is none."""
    fields = type(chat).model_fields
    return any(option in (name, field.alias) for name, field in fields.items())


def _not_streaming(chat: BaseChatModel) -> BaseChatModel:
    """Streamed answers are put together by LangChain, which merges calls whose index repeats."""
    if not getattr(chat, "streaming", False):
        return chat
    return chat.model_copy(update={"streaming": False, "disable_streaming": True})


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


def _maker(chat: ChatModel) -> str:
    return type(chat).__module__.partition(".")[0]


def label_of(chat: ChatModel) -> str:
    name = getattr(chat, "model_name", None) or getattr(chat, "model", None)
    return f"{type(chat).__name__}:{name}" if isinstance(name, str) else type(chat).__name__


def _status(error: Exception) -> int | None:
    holders = (error, getattr(error, "response", None))
    found = [getattr(holder, "status_code", None) for holder in holders]
    return next((status for status in found if isinstance(status, int) and status >= 400), None)


def _reason(error: Exception) -> str:
    """The provider's code for it, like `insufficient_quota`: a bare word, never a sentence."""
    code = getattr(error, "code", None)
    return f", {code}" if isinstance(code, str) and re.fullmatch(r"[a-z0-9_.-]{1,64}", code) else ""
