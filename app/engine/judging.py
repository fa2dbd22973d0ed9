"""The judges of an agent's answers: functions, and models that are asked."""

from dataclasses import dataclass

from app.authoring import ModelJudge, Retry
from app.authoring.guardrails import JudgeFunction
from app.domain.message import Message
from app.engine.models import Model, ModelAnswer, ModelRequest

ACCEPTED = "ACCEPT"
"""The word by which a model lets an answer pass; anything else it says is what has to be better."""


@dataclass(frozen=True, kw_only=True)
class JudgingModel:
    """A judge that is a model, with the model."""

    judge: ModelJudge
    model: Model

    async def ask(self, agent: str, turn: int, work: str, answer: str) -> ModelAnswer:
        """What the model says about an answer to some work; raises as models do."""
        prompt = (
            f"{self.judge.prompt}\n\nYou are shown some work and an answer to it. If the answer is good "
            f"enough, say {ACCEPTED} and nothing else. If not, say what has to be better."
        )
        shown = f"The work:\n{work}\n\nThe answer:\n{answer}"
        messages = [Message(role="system", text=prompt), Message(role="user", text=shown)]
        return await self.model.ask(ModelRequest(agent=agent, turn=turn, messages=messages))


Judge = JudgeFunction | JudgingModel


def verdict_of(text: str) -> Retry | None:
    """What a model's words mean."""
    said = text.strip()
    if said.strip("\"'`*. ").upper() == ACCEPTED:
        return None
    return Retry(said or "It is not good enough.")
