"""Takes sensitive values out of outputs, where a model or a function has put them into a text of its own."""

from collections.abc import Iterable, Mapping
from typing import cast

from app.domain.json import Json
from app.domain.masking import mask, scrub
from app.domain.message import Message
from app.engine.served import Schema, ServedTool

SHORTEST = 3
"""Characters. Shorter ones are left: they stand in any text, and striking them out would tell more."""


def shown(output: Json, schema: Schema, secrets: Iterable[str]) -> Json:
    """An output as everybody may read it: masked by its type, and without `secrets` in its texts."""
    masked = mask(output, schema)
    telling = frozenset(secret for secret in secrets if len(secret) >= SHORTEST)
    return _scrubbed(masked, telling) if telling else masked


def _scrubbed(value: Json, secrets: frozenset[str]) -> Json:
    match value:
        case str():
            return scrub(value, secrets)
        case list():
            return [_scrubbed(each, secrets) for each in cast("list[Json]", value)]
        case dict():
            members = cast("dict[str, Json]", value)
            return {key: _scrubbed(each, secrets) for key, each in members.items()}
        case _:
            return value


def secrets_said(messages: Iterable[Message], tools: Mapping[str, ServedTool]) -> list[str]:
    """The sensitive values that a model has written into its calls."""
    found: set[str] = set()
    for message in messages:
        for call in message.get("calls", ()):
            tool = tools.get(call["tool"])
            if tool is not None and tool.sensitive_paths:
                found |= tool.secrets(call["arguments"])
    return sorted(found)
