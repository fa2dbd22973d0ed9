"""Chooses what answers an agent, by what its writer named as its model."""

from datetime import timedelta

from app.authoring import ScriptedModel
from app.authoring.model import ChatModel
from app.engine.models.clients import checked
from app.engine.models.exchange import Model
from app.engine.models.providers import ProviderModel
from app.engine.models.scripted import Script
from app.engine.models.watched import WatchedModel


def model_for(model: str | ChatModel | ScriptedModel, *, timeout: timedelta, retries: int) -> Model:
    """The model to ask; to be kept, because its client and connections are.

    Args:
        model: `"provider:name"`, a LangChain chat model (which keeps its own settings), or a script.
        timeout: of one attempt.
        retries: how often a client that can try again does so.

    Raises:
        AuthoringError: a malformed name, an unknown provider, or one whose package is missing. A missing
            key is told at the first question, as a `ModelError`.
    """
    match model:
        case str():
            made = ProviderModel(checked(model), timeout=timeout, retries=retries)
            return WatchedModel(made)
        case ScriptedModel():
            return WatchedModel(Script(model))
        case ChatModel():
            made = ProviderModel(model, timeout=timeout, retries=retries)
            return WatchedModel(made)
