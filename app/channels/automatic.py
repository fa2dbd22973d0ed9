"""Channels that decide at once, so that nothing pauses."""

from app.authoring import AskRequest, Channel
from app.domain.decision import Decision, Decline, Verdict
from app.domain.pause import PauseKind

_ASKS_YES_OR_NO = {PauseKind.APPROVAL, PauseKind.CONFIRMATION, PauseKind.REVIEW}


class AutoApproveChannel(Channel):
    """Says yes to whatever can be answered by yes. What asks for a value waits in the inbox."""

    def decide(self, request: AskRequest) -> Decision | None:
        return Verdict(approved=True) if request.kind in _ASKS_YES_OR_NO else None


class AutoRejectChannel(Channel):
    """Says no: it rejects what can be approved, and declines to give a value."""

    def decide(self, request: AskRequest) -> Decision | None:
        match request.kind:
            case PauseKind.ERROR | PauseKind.UNKNOWN_OUTCOME:
                return None  # what to do about a fault is not a question of yes or no
            case kind if kind in _ASKS_YES_OR_NO:
                return Verdict(approved=False)
            case _:
                return Decline()
