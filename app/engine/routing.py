"""A model that picks the next step by its name and description."""

from app.authoring.model_router import ModelRouter
from app.authoring.shape import load
from app.authoring.step import RouterNode
from app.authoring.text import text_of
from app.domain.event import Event, EventType
from app.domain.json import Json
from app.domain.message import Message
from app.engine.booking import model_used
from app.engine.drive import Drive, LineFailed, model_failed, step_outside
from app.engine.models import Model, ModelAnswer, ModelError, ModelRequest
from app.engine.served import StepPlace
from app.engine.state import LineState
from app.errors import SignoffError

ANSWERED_AFTER_DECISION = "the agent answered after the approval decision"
"""The stop reason of a run whose way was not asked of a model, since an approval had just been decided."""

MOST_ASKED = 3
"""How often a model is asked before an answer that names no choice fails the step."""


class ModelChoice:
    """Asks a model which of a router's choices it shall be."""

    def __init__(self, router: ModelRouter, model: Model) -> None:
        self._router = router
        self._model = model

    async def choose(
        self, node: RouterNode, place: StepPlace, state: LineState, drive: Drive
    ) -> tuple[str, dict[str, Json]]:
        """The name of a choice, and what the line remembers of it."""
        if self._router.after_decision is not None and state.get("decided"):
            return self._router.after_decision, {
                "decided": False,
                "stop_reason": ANSWERED_AFTER_DECISION,
            }
        messages = self._question(node, state)
        for turn in range(MOST_ASKED):
            answer = await self._ask(node, place, turn, messages, drive)
            name = answer.text.strip().strip("\"'`.")
            if any(each.name == name for each in node.choices):
                return name, {"decided": False, "stop_reason": None}
            messages = [
                *messages,
                Message(role="assistant", text=answer.text),
                Message(
                    role="user", text="That is none of the names. Answer with one of them only."
                ),
            ]
        raise LineFailed(
            "model_error",
            f"The model of the router {node.name!r} named no choice.",
            step=place.path,
        )

    def _question(self, node: RouterNode, state: LineState) -> list[Message]:
        choices = "\n".join(
            f"- {each.name}: {each.description}" if each.description else f"- {each.name}"
            for each in node.choices
        )
        system = f"{self._router.prompt}\n\nAnswer with the name of one of these, and nothing else:\n{choices}"
        work = text_of(load(node.input, state.get("value")))
        return [Message(role="system", text=system), Message(role="user", text=work)]

    async def _ask(
        self, node: RouterNode, place: StepPlace, turn: int, messages: list[Message], drive: Drive
    ) -> ModelAnswer:
        drive.check_budget(place.path)
        await drive.journal.barrier()
        step_outside()
        within = f"{place.path}#route.{turn}"
        request = ModelRequest(agent=node.name, turn=turn, messages=messages, tools=[])
        try:
            answer = await self._model.ask(request)
        except ModelError as error:
            if error.usage is not None:
                model_used(drive, within, node.name, error.model, error.usage)
            raise model_failed(error, place.path) from error
        except SignoffError as error:
            raise LineFailed(error.code, error.message, step=place.path) from error
        model_used(drive, within, node.name, answer.model, answer.usage)
        data: dict[str, Json] = {"path": place.path, "agent": node.name, "turn": turn, "calls": 0}
        drive.journal.note(Event(type=EventType.MODEL_ANSWERED, data=data))
        return answer
