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

__all__ = [
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
