"""A model that is watched while it is asked."""

from app.engine.models.exchange import Hearer, Model, ModelAnswer, ModelError, ModelRequest
from app.watching.watch import model_call


class WatchedModel:
    """Asks another model. `name` is what its writer calls it, not what it says itself."""

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._name = name

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        """As `Model.ask`."""
        with model_call(request.agent, self._name) as call:
            try:
                answer = await self._model.ask(request, hearer)
            except ModelError as error:
                call.note(signoff__model__status=error.status)
                raise
            call.note(
                gen_ai__response__model=answer.model,
                gen_ai__usage__input_tokens=answer.usage.input_tokens,
                gen_ai__usage__output_tokens=answer.usage.output_tokens,
                signoff__turn=request.turn,
                signoff__finish=answer.finish,
            )
            return answer

    async def aclose(self) -> None:
        await self._model.aclose()
