"""A model that picks the next step."""

from dataclasses import dataclass
from datetime import timedelta

from app.authoring.model import ChatModel, ScriptedModel


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRouter:
    """Has a model pick one of a router's choices by name and description.

    With `after_decision`, the name of a choice, that one is taken without asking the model where an
    approval was decided since it was last asked. `timeout` and `retries` are those of one model
    call.
    """

    model: str | ScriptedModel | ChatModel
    prompt: str
    after_decision: str | None = None
    timeout: timedelta = timedelta(minutes=2)
    retries: int = 2
