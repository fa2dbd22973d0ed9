"""Gates: the asks of a step, which let it begin, choose its way, and look at what came of it."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel

from app.authoring.channel import Channel
from app.authoring.terms import Terms, policy_of
from app.domain.ask import OnExpire, Policy
from app.domain.pause import PauseKind

ConfirmRejected: TypeAlias = Literal["cancel", "skip", "fail", "else"]
InputRejected: TypeAlias = Literal["cancel", "skip", "fail"]
ReviewRejected: TypeAlias = Literal["retry", "skip", "cancel", "fail"]

ConfirmExpires: TypeAlias = Literal["reject", "fail", "wait", "approve"]
InputExpires: TypeAlias = Literal["reject", "fail", "wait"]
ReviewExpires: TypeAlias = Literal["reject", "fail", "wait", "approve"]
ErrorExpires: TypeAlias = Literal["fail", "skip", "wait"]


@dataclass(frozen=True, kw_only=True)
class Gate(Terms):
    """What the asks of a step have in common. Without `channel`, the workflow's first is asked."""

    kind: ClassVar[PauseKind]

    def policy(self, channel: Channel) -> Policy:
        """The terms as data; `channel` is asked where the ask names none."""
        return policy_of(self, channel, self.ending)

    @property
    def ending(self) -> OnExpire:
        """What its deadline means."""
        raise NotImplementedError


@dataclass(frozen=True)
class Confirm(Gate):
    """May this step begin?

    Rejected, the run is cancelled (the default), or fails; `"skip"` leaves the step out, and
    `"else"` has a `Condition` take `otherwise`.
    """

    kind: ClassVar[PauseKind] = PauseKind.CONFIRMATION

    message: str
    _: KW_ONLY
    on_reject: ConfirmRejected = "cancel"
    on_expire: ConfirmExpires = "reject"

    @property
    def ending(self) -> OnExpire:
        return self.on_expire


@dataclass(frozen=True)
class AskInput(Gate):
    """Values that a person fills in before a step begins: `context.input(Model)` in its function.

    An agent reads them as JSON below its work. Rejected, the run is cancelled (the default), or
    fails, or the step is left out.
    """

    kind: ClassVar[PauseKind] = PauseKind.INPUT

    message: str
    model: type[BaseModel]
    _: KW_ONLY
    on_reject: InputRejected = "cancel"
    on_expire: InputExpires = "reject"

    @property
    def ending(self) -> OnExpire:
        return self.on_expire


@dataclass(frozen=True)
class Choose(Gate):
    """Which of a router's choices shall it be? With `multiple`, several, in the order given."""

    kind: ClassVar[PauseKind] = PauseKind.ROUTE

    message: str
    _: KW_ONLY
    multiple: bool = False
    on_reject: InputRejected = "cancel"
    on_expire: InputExpires = "reject"

    @property
    def ending(self) -> OnExpire:
        return self.on_expire


@dataclass(frozen=True)
class Review(Gate):
    """Is this output good?

    Rejected, the step runs again with the feedback (the default), at most `max_retries` times, then
    the run is cancelled; or the output is dropped (`"skip"`), or the run is cancelled or fails.
    `when` gets the output: where it returns False nobody is asked; anything else, and an exception,
    asks.
    """

    kind: ClassVar[PauseKind] = PauseKind.REVIEW

    message: str
    _: KW_ONLY
    on_reject: ReviewRejected = "retry"
    on_expire: ReviewExpires = "reject"
    max_retries: int = 3
    when: Callable[[Any], bool] | None = None

    @property
    def ending(self) -> OnExpire:
        return self.on_expire

    def asks_about(self, output: Any) -> bool:
        """Whether this output waits for a review."""
        if self.when is None:
            return True
        try:
            return self.when(output) is not False
        except Exception:  # noqa: BLE001 - a condition that cannot be told must not open the gate
            return True


@dataclass(frozen=True)
class AskError(Gate):
    """A step failed: shall it be tried again (at most `max_retries` times), left out, or fail?"""

    kind: ClassVar[PauseKind] = PauseKind.ERROR

    message: str
    _: KW_ONLY
    on_expire: ErrorExpires = "fail"
    max_retries: int = 3

    @property
    def ending(self) -> OnExpire:
        return self.on_expire


Before: TypeAlias = Confirm | AskInput
OnError: TypeAlias = Literal["fail", "skip"] | AskError
