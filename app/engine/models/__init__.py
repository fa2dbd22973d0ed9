"""Models: the engine asks all of them, a provider's or a script, through one function."""

from app.engine.models.choice import model_for
from app.engine.models.exchange import (
    AnsweredCall,
    Finish,
    Hearer,
    Model,
    ModelAnswer,
    ModelError,
    ModelRequest,
    ToolSpec,
    Usage,
)
from app.engine.models.prices import NO_PRICES, REPORTED, Prices
from app.engine.models.providers import ProviderModel

__all__ = [
    "NO_PRICES",
    "REPORTED",
    "Prices",
    "ProviderModel",
    "model_for",
    "AnsweredCall",
    "Finish",
    "Hearer",
    "Model",
    "ModelAnswer",
    "ModelError",
    "ModelRequest",
    "ToolSpec",
    "Usage",
]
