"""Asks: a writer's declarations that something waits for a person."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from pydantic import AfterValidator, Field, TypeAdapter

from app.authoring.channel import Channel
from app.authoring.mistakes import as_list, repeated
from app.authoring.shape import adapter_of, load, schema_of, why_not_json
from app.authoring.terms import TermOptions, Terms, policy_of, wrong_message, wrong_terms
from app.domain.ask import Policy
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
        yield from wrong_terms(self, self.on_expire, self.endings)
        if self.message is not None:
            yield from wrong_message(self.message)
        if self.when is not None and not callable(self.when):
            yield "when= is not a function"
        elif inspect.iscoroutinefunction(self.when):
            yield "when= must not be async: it looks at the arguments alone"


@dataclass(frozen=True)
class External(Terms):
    """Somebody else does this call and reports its result: `@tool(external=External(…))`.

    Declined, the model reads so. `external=True` is one without terms.
    """

    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait")

    message: str | None = None
    _: KW_ONLY
    on_expire: QuestionExpires = "reject"

    def policy(self, channel: Channel) -> Policy:
        """The terms as data; `channel` is asked where the ask names none."""
        return policy_of(self, channel, self.on_expire)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from wrong_terms(self, self.on_expire, self.endings)
        if self.message is not None:
            yield from wrong_message(self.message)


@dataclass(frozen=True)
class Fill(Terms):
    """Parameters of a call that a person fills in: `@tool(fill=Fill("Where to?", ["iban"], …))`.

    The model is not offered them. Declined, it reads so. `fill=["iban"]` is one without terms.
    """

    endings: ClassVar[tuple[str, ...]] = ("reject", "fail", "wait")

    message: str | None
    names: Sequence[str]
    _: KW_ONLY
    on_expire: QuestionExpires = "reject"

    def policy(self, channel: Channel) -> Policy:
        """The terms as data; `channel` is asked where the ask names none."""
        return policy_of(self, channel, self.on_expire)

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        yield from wrong_terms(self, self.on_expire, self.endings)
        if self.message is not None:
            yield from wrong_message(self.message)
        if not as_list(self.names):
            yield "it names no parameter"


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
        yield from wrong_message(self.message)
        yield from wrong_terms(self.terms, self.on_expire, self.endings)
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


def _mistakes_of_options(options: tuple[object, ...]) -> Iterator[str]:
    if not options:
        yield "options= is empty"
    if not all(isinstance(option, str) and option for option in options):
        yield "options= must be texts that are not empty"
    for option in repeated(options):
        yield f"the option {option!r} stands there twice"
