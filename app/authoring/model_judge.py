"""A model that judges the answers of an agent."""

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import TypeAlias

from app.authoring.guardrails import JudgeFunction
from app.authoring.model import ChatModel, ScriptedModel


@dataclass(frozen=True, eq=False)
class ModelJudge:
    """Has a model say whether an answer is good enough for the work, and what is to be better.

    `prompt` says what makes an answer good. `timeout` and `retries` are those of one model call.
    """

    name: str
    _: KW_ONLY
    model: str | ScriptedModel | ChatModel
    prompt: str
    timeout: timedelta = timedelta(minutes=2)
    retries: int = 2


Judge: TypeAlias = JudgeFunction | ModelJudge
