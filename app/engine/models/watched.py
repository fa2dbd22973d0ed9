"""A model that is watched while it is asked."""

from app.engine.models.exchange import Hearer, Model, ModelAnswer, ModelRequest
from app.watching.watch import model_call


class WatchedModel:
    """Asks another model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        """As `Model.ask`."""
        with model_call(request.agent) as call:
            answer = await self._model.ask(request, hearer)
            usage = answer.usage
            call.span.model_answered(
                model=answer.model,
                finish=answer.finish,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached=usage.cached_input_tokens,
            )
            return answer

    async def aclose(self) -> None:
        await self._model.aclose()
