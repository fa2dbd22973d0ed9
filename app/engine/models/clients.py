"""Makes the clients of providers' models: LangChain's chat models, set up for one event loop."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from langchain.chat_models import init_chat_model
from langchain.chat_models.base import _BUILTIN_PROVIDERS as PROVIDERS  # pyright: ignore[reportPrivateUsage]
from langchain_core.language_models import BaseChatModel

from app.authoring.model import ChatModel
from app.engine.models.openai_calls import keeping_calls
from app.errors import AuthoringError

_SPEC = re.compile(r"(?P<provider>[a-z][a-z0-9_-]*):(?P<name>\S+)")


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


def client_of(given: str | ChatModel, timeout: timedelta, retries: int) -> ChatModel:
    """The chat model that is asked. A writer's own one stays as it was, and keeps its settings."""
    match given:
        case str():
            return _set_up(keeping_calls(_named(given, timeout, retries)))
        case BaseChatModel():
            return _set_up(keeping_calls(given))
        case _:
            return given


def _named(spec: str, timeout: timedelta, retries: int) -> BaseChatModel:
    provider, _, name = spec.partition(":")
    make = cast("Callable[..., BaseChatModel]", init_chat_model)
    bare = make(name, model_provider=provider)
    seconds = timeout.total_seconds()
    repeats = 0 if never_repeats(bare) else retries
    options = {"timeout": seconds, "max_retries": repeats, "stream_chunk_timeout": seconds}
    taken: dict[str, Any] = {name: it for name, it in options.items() if _takes(bare, name)}
    return make(name, model_provider=provider, **taken, **_unshared(maker_of(bare)))


def _takes(chat: BaseChatModel, option: str) -> bool:
    """Whether it is a setting of this client. Some (Bedrock's) send on to the model what is none."""
    fields = type(chat).model_fields
    return any(option in (name, field.alias) for name, field in fields.items())


def _unshared(maker: str) -> dict[str, Any]:
    """What gives the next chat model of this maker connections of its own.

    `langchain_openai` and `langchain_anthropic` share HTTP clients between chat models, and with them the
    connections of event loops that are closed.
    """
    if maker == "langchain_openai":
        return {"http_async_client": importlib.import_module("openai").DefaultAsyncHttpxClient()}
    shared = sys.modules.get("langchain_anthropic._client_utils")
    if maker == "langchain_anthropic" and shared is not None:
        vars(shared)["_get_default_async_httpx_client"].cache_clear()
    return {}


def _set_up(chat: BaseChatModel) -> BaseChatModel:
    """Answers come in pieces only where somebody listens; streams tell their usage, also of other servers."""
    changes: dict[str, bool] = {}
    if getattr(chat, "streaming", False):
        changes["streaming"] = False
    if getattr(chat, "stream_usage", False) is None:
        changes["stream_usage"] = True
    return chat.model_copy(update=changes) if changes else chat


def never_repeats(chat: ChatModel) -> bool:
    """Whether a client of this kind that is made here asks once, and leaves it to us to ask again.

    Of the others it is not known what they take for no retries at all.
    """
    return maker_of(chat) in {"langchain_openai", "langchain_anthropic"}


def maker_of(chat: ChatModel) -> str:
    """The package that a chat model comes from."""
    return type(chat).__module__.partition(".")[0]


async def close(chat: ChatModel) -> None:
    """Closes the connections of a client that was made here, in its event loop."""
    for name in ("root_async_client", "_async_client"):  # of openai, of anthropic
        client = getattr(chat, name, None)
        if client is not None:
            await client.close()
