"""Asks: a writer's declarations that something waits for a person."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import cached_property
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from pydantic import AfterValidator, Field, TypeAdapter

from app.authoring.channel import Channel
from app.authoring.mistakes import as_list, repeated, wrong_choice, wrong_count, wrong_duration
from app.authoring.shape import adapter_of, load, schema_of, why_not_json
from app.domain.ask import OnExpire, Policy
from app.domain.json import Json
from app.errors import AuthoringError

T = TypeVar("T")
ApprovalExpires = Literal["reject", "fail", "wait", "approve"]
QuestionExpires = Literal["reject", "fail", "wait"]


class Declined(Exception):
    """A question was not answered. Uncaught, the model reads `Tool error: declined by …`."""

    def __init__(self, by: str, feedback: str | None = None) -> None:
        super().__init__(f"declined by {by}" + (f": {feedback}" if feedback else ""))
        self.by = by
        self.feedback = feedback


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What every ask may say: whom to ask, until when, and who has to agree.

    `expires_after` counts from the opening of the pause; `remind_before` and `escalate_before`
    count back from its expiry. `approvers` are names of principals, `group:…` or `channel:…`; none
    means anybody.
    """

    channel: Channel | None = None
    expires_after: timedelta | None = None
    remind_before: timedelta | None = None
    escalate_to: Channel | None = None
    escalate_before: timedelta | None = None
    approvers: Sequence[str] = ()
    quorum: int = 1
    allow_requester: bool = False

    def channels(self) -> Iterator[Channel]:
        """The channels that are named."""
        named: tuple[object, ...] = (self.channel, self.escalate_to)
        yield from (each for each in named if isinstance(each, Channel))


class TermOptions(TypedDict, total=False):
    """`Terms` as keyword arguments."""

    channel: Channel | None
    expires_after: timedelta | None
    remind_before: timedelta | None
    escalate_to: Channel | None
    escalate_before: timedelta | None
    approvers: Sequence[str]
    quorum: int
    allow_requester: bool


@dataclass(frozen=True)
class Approval(Terms):
    """May this call be run? Rejected, the model reads the rejection.

    `when` gets the tool's arguments as the tool does, without the context. Where it returns False
    nobody is asked; anything else it returns, and an exception, asks.
    """

    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait", "approve")

    message: str | None = None
    _: KW_ONLY
    when: Callable[..., bool] | None = None
    on_expire: ApprovalExpires = "reject"

    def policy(self, channel: Channel) -> Policy:
        """The terms as data; `channel` is asked where the ask names none."""
        return policy_of(self, channel, self.on_expire)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from _mistakes_of_terms(self, self.on_expire, self.endings)
        if self.message is not None:
            yield from _mistakes_of_message(self.message)
        if self.when is not None and not callable(self.when):
            yield "when= is not a function"
        elif inspect.iscoroutinefunction(self.when):
            yield "when= must not be async: it looks at the arguments alone"


class Question(Generic[T]):
    """Something a tool wants to know: `await context.pause(Question("Which account?"))`.

    With `options` the answer is one of them, or with `multiple=True` a list of them; with `answer=`
    it is a value of that type; with neither it is any JSON.
    """

    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait")

    @overload
    def __init__(
        self: "Question[list[str]]",
        message: str,
        *,
        options: Sequence[str],
        multiple: Literal[True],
        on_expire: QuestionExpires = "reject",
        **terms: Unpack[TermOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Question[str]",
        message: str,
        *,
        options: Sequence[str],
        multiple: Literal[False] = False,
        on_expire: QuestionExpires = "reject",
        **terms: Unpack[TermOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        message: str,
        *,
        answer: type[T],
        on_expire: QuestionExpires = "reject",
        **terms: Unpack[TermOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Question[Any]",
        message: str,
        *,
        answer: object = None,
        on_expire: QuestionExpires = "reject",
        **terms: Unpack[TermOptions],
    ) -> None: ...
    def __init__(
        self,
        message: str,
        *,
        options: Sequence[str] | None = None,
        multiple: bool = False,
        answer: object = None,
        on_expire: QuestionExpires = "reject",
        **terms: Unpack[TermOptions],
    ) -> None:
        self.message = message
        self.options = None if options is None else tuple(options)
        self.multiple = multiple
        self.on_expire: QuestionExpires = on_expire
        self.terms = Terms(**terms)
        self._answer = answer

    @property
    def channel(self) -> Channel | None:
        return self.terms.channel

    def policy(self, channel: Channel) -> Policy:
        """The terms as data; `channel` is asked where the question names none."""
        return policy_of(self.terms, channel, self.on_expire)

    @cached_property
    def answer(self) -> TypeAdapter[T]:
        """What is accepted as an answer."""
        return cast("TypeAdapter[T]", adapter_of(self._answer_type()))

    @cached_property
    def response_schema(self) -> dict[str, Any]:
        """JSON Schema of the answer."""
        return schema_of(self.answer)

    def read(self, value: Json) -> T:
        """The answer, typed; raises pydantic's `ValidationError` where it is not accepted.

        Strict, so that a number is not taken from a text or from a yes.
        """
        return load(self.answer, value, strict=True)

    def check(self) -> None:
        """Raises `AuthoringError` with everything that is wrong with the question."""
        wrong = list(self._mistakes())
        if wrong:
            raise AuthoringError(
                f"The question {self.message!r} cannot be asked: {'; '.join(wrong)}."
            )

    def _mistakes(self) -> Iterator[str]:
        yield from _mistakes_of_message(self.message)
        yield from _mistakes_of_terms(self.terms, self.on_expire, self.endings)
        if self.options is None and self.multiple:
            yield "multiple= needs options="
        if self.options is not None and self._answer is not None:
            yield "options= and answer= exclude each other"
        if self.options is not None:
            yield from _mistakes_of_options(self.options)
            return
        why = why_not_json(self._answer_type())
        if why:
            yield f"answer= cannot be read from JSON: {why}"

    def _answer_type(self) -> Any:
        if self.options is None:
            return Any if self._answer is None else self._answer
        choice = Literal[self.options]
        if not self.multiple:
            return choice
        several = Field(min_length=1, json_schema_extra={"uniqueItems": True})
        return Annotated[list[choice], several, AfterValidator(_each_once)]


def _each_once(chosen: list[str]) -> list[str]:
    if len(set(chosen)) < len(chosen):
        raise ValueError("each option may be chosen once")
    return chosen


def policy_of(terms: Terms, channel: Channel, on_expire: OnExpire = "reject") -> Policy:
    """Terms as plain data; `channel` is asked where they name none."""
    return Policy(
        channel=(terms.channel or channel).name,
        expires_after=terms.expires_after,
        on_expire=on_expire,
        remind_before=terms.remind_before,
        escalate_to=terms.escalate_to.name if terms.escalate_to else None,
        escalate_before=terms.escalate_before or _quarter(terms),
        approvers=tuple(terms.approvers),
        quorum=terms.quorum,
        allow_requester=terms.allow_requester,
    )


def _quarter(terms: Terms) -> timedelta | None:
    return terms.expires_after / 4 if terms.expires_after and terms.escalate_to else None


def _mistakes_of_message(message: object) -> Iterator[str]:
    if not isinstance(message, str) or not message.strip():
        yield "the message is empty"


def _mistakes_of_options(options: tuple[object, ...]) -> Iterator[str]:
    if not options:
        yield "options= is empty"
    if not all(isinstance(option, str) and option for option in options):
        yield "options= must be texts that are not empty"
    for option in repeated(options):
        yield f"the option {option!r} stands there twice"


def _mistakes_of_terms(terms: Terms, on_expire: str, endings: tuple[str, ...]) -> Iterator[str]:
    yield from wrong_channel("channel", terms.channel)
    yield from wrong_channel("escalate_to", terms.escalate_to)
    yield from _mistakes_of_deadline(terms)
    yield from wrong_choice("on_expire", on_expire, endings)
    if on_expire != "reject" and terms.expires_after is None:
        yield f"on_expire={on_expire!r} could never happen without expires_after="
    yield from _mistakes_of_approvers(terms)


def wrong_channel(name: str, channel: object) -> Iterator[str]:
    """What is wrong with a channel that may be left out."""
    if channel is not None and not isinstance(channel, Channel):
        yield f"{name}= is not a channel: {channel!r}"


def _mistakes_of_deadline(terms: Terms) -> Iterator[str]:
    yield from wrong_duration("expires_after", terms.expires_after)
    yield from _mistakes_of_notice("remind_before", terms.remind_before, terms.expires_after)
    yield from _mistakes_of_notice("escalate_before", terms.escalate_before, terms.expires_after)
    if terms.escalate_to is not None and terms.expires_after is None:
        yield "escalate_to= could never happen without expires_after="
    if terms.escalate_to is None and terms.escalate_before is not None:
        yield "escalate_before= needs escalate_to="


def _mistakes_of_notice(name: str, before: object, expires_after: object) -> Iterator[str]:
    yield from wrong_duration(name, before)
    if before is None:
        return
    if expires_after is None:
        yield f"{name}= could never happen without expires_after="
    match before, expires_after:
        case timedelta() as lead, timedelta() as whole if lead >= whole:
            yield f"{name}= is not shorter than expires_after="
        case _:
            pass


def _mistakes_of_approvers(terms: Terms) -> Iterator[str]:
    approvers = as_list(terms.approvers)
    if approvers is None:
        yield "approvers= must be a list of names"
        return
    for name in approvers:
        if not isinstance(name, str) or not name.strip() or name in {"group:", "channel:"}:
            yield f"{name!r} is not an approver: it is a name, 'group:…' or 'channel:…'"
    for name in repeated(approvers):
        yield f"the approver {name!r} stands there twice"
    yield from wrong_count("quorum", terms.quorum, 1)
    people = {str(name) for name in approvers}
    if people and not _can_agree(people, terms.quorum):
        yield f"quorum={terms.quorum} is larger than the {len(people)} named approvers"


def _can_agree(approvers: set[str], quorum: object) -> bool:
    if any(name.startswith("group:") for name in approvers):
        return True
    return not isinstance(quorum, int) or quorum <= len(approvers)
