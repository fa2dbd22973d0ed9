"""A conversation as plain JSON, as it is kept in checkpoints and history and sent to a model."""

from typing import Literal, NotRequired, TypedDict

from app.domain.json import Json

Role = Literal["system", "user", "assistant", "tool"]


class ProposedCall(TypedDict):
    """A call as the model proposed it. `arguments` is a string where the model wrote invalid JSON."""

    id: str
    tool: str
    arguments: Json


class Message(TypedDict):
    """One message. `calls` only on an assistant's, `call_id` (the wire id it answers) only on a tool's."""

    role: Role
    text: str
    calls: NotRequired[list[ProposedCall]]
    call_id: NotRequired[str]
    raw: NotRequired[Json]
    """What the provider wants back in later turns, as it came."""
