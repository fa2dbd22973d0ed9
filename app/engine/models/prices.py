"""What models cost: by a table of the operator's, unless the provider says so itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from app.authoring import ScriptedModel
from app.authoring.model import ChatModel
from app.domain.ledger import Price
from app.engine.models.exchange import Hearer, Model, ModelAnswer, ModelError, ModelRequest, Usage

REPORTED: Final = "reported"
"""In the place of a price: the provider says with each answer what it cost."""

Priced = Price | Literal["reported"]


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices by the name of a model: `provider:name` as workflows write it, or the name alone."""

    table: Mapping[str, Priced] = field(default_factory=dict[str, Priced])

    def of(self, model: str | ChatModel | ScriptedModel) -> Priced | None:
        """The price of a model, if it is known; a script costs what it says."""
        if isinstance(model, ScriptedModel):
            return REPORTED
        name = model if isinstance(model, str) else name_of(model)
        return self.table.get(name) or self.table.get(name.partition(":")[2])

    def applied_to(self, model: Model, named: str | ChatModel | ScriptedModel) -> Model:
        """The model, whose answers say what they cost as far as that is known."""
        price = self.of(named)
        if price is None or isinstance(named, ScriptedModel):
            return model
        return PricedModel(model=model, price=price)


NO_PRICES: Final = Prices()


def name_of(chat: ChatModel) -> str:
    """The name of a LangChain chat model, after that of its class."""
    name = getattr(chat, "model_name", None) or getattr(chat, "model", None)
    return f"{type(chat).__name__}:{name}" if isinstance(name, str) else type(chat).__name__


@dataclass(frozen=True, kw_only=True)
class PricedModel:
    """A model that says with every answer what it cost."""

    model: Model
    price: Priced

    async def ask(self, request: ModelRequest, hearer: Hearer | None = None) -> ModelAnswer:
        try:
            answer = await self.model.ask(request, hearer)
        except ModelError as error:
            if error.usage is not None:
                error.usage = self._with_cost(error.usage)
            raise
        if answer.usage.cost is None and self.price == REPORTED:
            fault = "did not say what it cost, and has no price"
            raise ModelError(answer.model, fault, usage=answer.usage)
        return replace(answer, usage=self._with_cost(answer.usage))

    async def aclose(self) -> None:
        await self.model.aclose()

    def _with_cost(self, usage: Usage) -> Usage:
        if usage.cost is not None or not isinstance(self.price, Price):
            return usage
        cost = self.price.of(
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
        )
        return replace(usage, cost=cost)
