"""Gates: the asks of a step, which let it begin, choose its way, and look at what came of it."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel

from app.authoring.channel import Channel
from app.authoring.mistakes import wrong_choice, wrong_count
from app.authoring.shape import is_model, why_not_json
from app.authoring.terms import Terms, policy_of, wrong_message, wrong_terms
from app.domain.ask import OnExpire, Policy
from app.domain.pause import PauseKind


@dataclass(frozen=True)
class Gate(Terms):
    """What the asks of a step have in common. Without `channel`, the workflow's first is asked."""

    kind: ClassVar[PauseKind]
    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait", "approve")

    message: str
    _: KW_ONLY
    on_expire: OnExpire = "reject"

    def policy(self, channel: Channel | None = None) -> Policy:
        """The terms as data; `channel` is asked where the ask names none."""
        asked = self.channel or channel
        if asked is None:
            raise LookupError(f"{self.message!r} names no channel")
        return policy_of(self, asked, self.on_expire)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from wrong_message(self.message)
        yield from wrong_terms(self, self.on_expire, self.endings)


@dataclass(frozen=True)
class Confirm(Gate):
    """May this step begin?

    Rejected, the run is cancelled (the default), or fails; `"skip"` leaves the step out, and
    `"else"` has a `Condition` take `otherwise`.
    """

    kind: ClassVar[PauseKind] = PauseKind.CONFIRMATION

    _: KW_ONLY
    on_reject: Literal["cancel", "skip", "fail", "else"] = "cancel"
    on_expire: Literal["reject", "fail", "wait", "approve"] = "reject"

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from super().mistakes()
        yield from wrong_choice("on_reject", self.on_reject, ("cancel", "skip", "fail", "else"))


@dataclass(frozen=True)
class AskInput(Gate):
    """Values that a person fills in before a step begins: `context.input(Model)` in its function.

    An agent reads them as JSON below its work. Rejected, the run is cancelled (the default), or
    fails, or the step is left out.
    """

    kind: ClassVar[PauseKind] = PauseKind.INPUT
    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait")

    model: type[BaseModel]
    _: KW_ONLY
    on_reject: Literal["cancel", "skip", "fail"] = "cancel"
    on_expire: Literal["reject", "fail", "wait"] = "reject"

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from super().mistakes()
        yield from wrong_choice("on_reject", self.on_reject, ("cancel", "skip", "fail"))
        if not is_model(self.model):
            yield f"{self.model!r} is not a pydantic model, which says what is filled in"
            return
        why = why_not_json(self.model)
        if why:
            yield f"{self.model.__name__} cannot be read from JSON: {why}"


@dataclass(frozen=True)
class Choose(Gate):
    """Which of a router's choices shall it be? With `multiple`, several, in the order given.

    Rejected, the run is cancelled (the default), or fails, or the router is left out.
    """

    kind: ClassVar[PauseKind] = PauseKind.ROUTE
    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait")

    _: KW_ONLY
    multiple: bool = False
    on_reject: Literal["cancel", "skip", "fail"] = "cancel"
    on_expire: Literal["reject", "fail", "wait"] = "reject"

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from super().mistakes()
        yield from wrong_choice("on_reject", self.on_reject, ("cancel", "skip", "fail"))


@dataclass(frozen=True)
class Review(Gate):
    """Is this output good?

    Rejected, the step runs again with the feedback (the default), at most `max_retries` times, then
    the run is cancelled; or the output is dropped (`"skip"`), or the run is cancelled or fails.
    `when` gets the output: where it returns False nobody is asked; anything else, and an exception,
    asks.
    """

    kind: ClassVar[PauseKind] = PauseKind.REVIEW

    _: KW_ONLY
    on_reject: Literal["retry", "skip", "cancel", "fail"] = "retry"
    on_expire: Literal["reject", "fail", "wait", "approve"] = "reject"
    max_retries: int = 3
    when: Callable[[Any], bool] | None = None

    def asks_about(self, output: Any) -> bool:
        """Whether this output waits for a review."""
        if self.when is None:
            return True
        try:
            return self.when(output) is not False
        except Exception:  # noqa: BLE001 - a condition that cannot be told must not open the gate
            return True

    def mistakes(self, *, of_loop: bool = False) -> Iterator[str]:
        """What is wrong with it, taken by itself; a loop's may not drop an iteration."""
        yield from super().mistakes()
        rejections = ("retry", "cancel", "fail") if of_loop else ("retry", "skip", "cancel", "fail")
        yield from wrong_choice("on_reject", self.on_reject, rejections)
        yield from wrong_count("max_retries", self.max_retries, 1)
        if self.on_reject != "retry" and self.max_retries != Review.max_retries:
            yield f"max_retries= could never matter with on_reject={self.on_reject!r}"
        yield from _wrong_when(self.when)


@dataclass(frozen=True)
class AskError(Gate):
    """A step failed: shall it be tried again (at most `max_retries` times), left out, or fail?

    It may be left out where what comes next takes what it was given.
    """

    kind: ClassVar[PauseKind] = PauseKind.ERROR
    endings: ClassVar[tuple[str, ...]] = ("fail", "skip", "wait")

    _: KW_ONLY
    on_expire: Literal["fail", "skip", "wait"] = "fail"
    max_retries: int = 3

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from super().mistakes()
        yield from wrong_count("max_retries", self.max_retries, 1)


Before: TypeAlias = Confirm | AskInput
OnError: TypeAlias = Literal["fail", "skip"] | AskError


def _wrong_when(when: object) -> Iterator[str]:
    if when is None:
        return
    if not callable(when):
        yield "when= is not a function"
        return
    if inspect.iscoroutinefunction(when):
        yield "when= must not be async: it looks at the output alone"
    try:
        inspect.signature(when).bind(None)
    except (TypeError, ValueError):
        yield "when= must take one value, the output"
