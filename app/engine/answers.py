"""What looks at an agent's answer before it leaves: its guardrails, then its judges."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.authoring import AgentStep, Retry
from app.authoring.shape import json_text, load
from app.authoring.text import text_of
from app.domain.json import Json
from app.engine import booking
from app.engine.calls import Turn
from app.engine.drive import Drive, LineFailed
from app.engine.guarding import checked_value, judged
from app.engine.judging import Judge, JudgingModel, verdict_of
from app.engine.models import ModelError
from app.engine.served import Seat
from app.errors import SignoffError


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The looks at an answer, in order: all guardrails are one, and every judge is one.

    Each is taken in a superstep of its own, so that none is repeated once it is over.
    """

    seat: Seat
    step: AgentStep
    judges: Sequence[Judge]

    def __len__(self) -> int:
        return self._guards + len(self.judges)

    @property
    def _guards(self) -> int:
        return 1 if self.seat.agent.before_answer else 0

    def asks_a_model(self, number: int) -> bool:
        """Whether the look of this number costs something."""
        return number >= self._guards and isinstance(self._judge(number), JudgingModel)

    async def look(
        self, number: int, said: Json, work: str, turn: Turn, drive: Drive
    ) -> Json | Retry:
        """The answer as it goes on, or why it is sent back; raises as guardrails and models do."""
        if number < self._guards:
            return await checked_value(self.seat.agent.before_answer, said, self.step.said)
        typed = load(self.step.said, said)
        match self._judge(number):
            case JudgingModel() as judge:
                retry = await self._asked(judge, number, work, text_of(typed), turn, drive)
            case judge:
                retry = await judged(judge, typed)
        return said if retry is None else retry

    def _judge(self, number: int) -> Judge:
        return self.judges[number - self._guards]

    async def _asked(
        self, judge: JudgingModel, number: int, work: str, answer: str, turn: Turn, drive: Drive
    ) -> Retry | None:
        agent, place = self.seat.agent.name, f"{turn.place}.judge{number}"
        try:
            said = await judge.ask(agent, turn.turn, work, answer)
        except SignoffError as error:
            if isinstance(error, ModelError) and error.usage is not None:
                booking.model_used(drive, place, agent, error.model, error.usage)
            raise LineFailed(error.code, error.message, step=turn.path) from error
        booking.model_used(drive, place, agent, said.model, said.usage)
        return verdict_of(said.text)


def spoken(said: Json) -> str:
    """An answer as the conversation keeps it."""
    return said if isinstance(said, str) else json_text(said).decode()
