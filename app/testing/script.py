"""A script in the place of an agent's model, for one test."""

from collections.abc import Callable, Sequence

from app.authoring import (
    Agent,
    ModelJudge,
    ModelRequest,
    ModelRouter,
    Reply,
    ScriptedModel,
    ScriptRanOut,
)


class ScriptNeverUsed(AssertionError):
    """A test gave an agent a script, and its model was never asked."""


class Script(ScriptedModel):
    """A scripted model that knows whether it was asked, and whether it had an answer."""

    def __init__(
        self, speaker: str, script: Callable[[ModelRequest], Reply] | Sequence[Reply]
    ) -> None:
        super().__init__(script)
        self.speaker = speaker
        self.was_asked = False
        self.ran_out: ScriptRanOut | None = None

    def reply(self, request: ModelRequest) -> Reply:
        """The answer; raises `ScriptRanOut`, or whatever the function raises."""
        self.was_asked = True
        try:
            return super().reply(request)
        except ScriptRanOut as error:
            self.ran_out = error
            raise


def speaker_of(model_of: Agent | ModelRouter | ModelJudge) -> str:
    """What a report calls whoever has the model."""
    if isinstance(model_of, Agent):
        return f"the agent {model_of.name!r}"
    if isinstance(model_of, ModelJudge):
        return f"the judge {model_of.name!r}"
    return f"the router that is told {model_of.prompt!r}"
