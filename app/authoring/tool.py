"""Tools: typed functions that a model may call, and that may wait for somebody first."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import cached_property
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from pydantic import BaseModel, TypeAdapter

from app.authoring.asks import Approval, External, Fill
from app.authoring.channel import Channel
from app.authoring.context import ToolContext
from app.authoring.form import Form
from app.authoring.function import call, name_of
from app.authoring.guardrails import CallGuard, ResultGuard
from app.authoring.mistakes import as_list
from app.authoring.shape import dump, load, plain, schema_of
from app.authoring.signature import ToolSignature, read_signature
from app.domain.ask import Policy
from app.domain.json import Json
from app.domain.pause import PauseKind

P = ParamSpec("P")
R = TypeVar("R")
OnCrash = Literal["run_again", "ask"]


@dataclass(frozen=True, eq=False)
class Tool(Generic[P, R]):
    """A function as a model sees it: name, description, and the schema of its arguments.

    `P` are its parameters without the context, `R` is its result. Made by `tool`. What depends on
    the annotations is read when it is first needed and raises `UnreadableSignature` where they are
    wrong; a `Workflow` reports that when it is built.
    """

    fn: Callable[..., Awaitable[R] | R]
    _: KW_ONLY
    channel: Channel | None = None
    approval: Approval | None = None
    external: bool | External = False
    fill: Sequence[str] | Fill = ()
    timeout: timedelta | None = None
    retries: int = 0
    before_call: Sequence[CallGuard] = ()
    after_call: Sequence[ResultGuard] = ()
    on_crash: OnCrash = "run_again"

    @property
    def name(self) -> str:
        return name_of(self.fn)

    @cached_property
    def description(self) -> str:
        return inspect.getdoc(self.fn) or ""

    @cached_property
    def signature(self) -> ToolSignature:
        return read_signature(self.fn)

    @property
    def parameters(self) -> type[BaseModel]:
        """The model of the arguments: the function's own, or one made of its parameters."""
        return self.signature.parameters

    @property
    def takes_context(self) -> bool:
        return self.signature.takes_context

    @property
    def result(self) -> TypeAdapter[R]:
        return self.signature.result

    @cached_property
    def arguments(self) -> TypeAdapter[BaseModel]:
        return TypeAdapter(self.parameters)

    @cached_property
    def arguments_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments with which the tool is called."""
        return schema_of(self.arguments)

    @cached_property
    def form(self) -> Form | None:
        """What a person fills in, if anything; raises `UnreadableSignature`."""
        return Form(parameters=self.parameters, fill=self.filled_in) if self.filled_in else None

    @cached_property
    def offered_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments that a model gives: all but those that a person fills in."""
        return self.form.without(self.arguments_schema) if self.form else self.arguments_schema

    @cached_property
    def fill_schema(self) -> dict[str, Any]:
        """JSON Schema of what a person fills in."""
        return self.form.schema if self.form else {}

    @cached_property
    def result_schema(self) -> dict[str, Any]:
        """JSON Schema of the result, as somebody else reports it."""
        return schema_of(self.result)

    @cached_property
    def filled_in(self) -> tuple[str, ...]:
        """The parameters that a person fills in."""
        names = self.fill.names if isinstance(self.fill, Fill) else self.fill
        return tuple(str(each) for each in as_list(names) or ())

    # ── What it waits for ────────────────────────────────────────────────────────────────────────

    @cached_property
    def gate(self) -> Approval | None:
        """The approval that a call waits for before anything else happens to it, if any."""
        waits_otherwise = self.external or self.filled_in
        if self.approval is None and self.channel is not None and not waits_otherwise:
            return Approval()
        return self.approval

    def asked(self) -> list[PauseKind]:
        """The kinds of pause that a call may wait at before it is dispatched, in order."""
        kinds = [PauseKind.APPROVAL] if self.gate is not None else []
        if self.external:
            return [*kinds, PauseKind.EXTERNAL_RESULT]
        return [*kinds, PauseKind.INPUT] if self.filled_in else kinds

    def ask_of(self, kind: PauseKind) -> Approval | External | Fill | None:
        """What the writer has said about a pause of this kind, if anything."""
        match kind:
            case PauseKind.APPROVAL:
                return self.gate
            case PauseKind.EXTERNAL_RESULT:
                return self.external if isinstance(self.external, External) else None
            case PauseKind.INPUT:
                return self.fill if isinstance(self.fill, Fill) else None
            case _:
                return None

    def channel_for(self, kind: PauseKind) -> Channel:
        """Who is asked; a workflow that was built has somebody for every kind in `asked`."""
        ask = self.ask_of(kind)
        if ask is not None and ask.channel is not None:
            return ask.channel
        found = self.channel or (self.approval.channel if self.approval else None)
        if found is None:
            raise LookupError(f"the tool {self.name!r} names no channel")
        return found

    def policy_for(self, kind: PauseKind) -> Policy:
        """The terms of the ask, as data."""
        channel, ask = self.channel_for(kind), self.ask_of(kind)
        return Policy(channel=channel.name) if ask is None else ask.policy(channel)

    def asks_about(self, arguments: BaseModel) -> bool:
        """Whether a call with these arguments waits for approval. A `when=` that crashes asks."""
        if self.gate is None or self.gate.when is None:
            return self.gate is not None
        seen = arguments.model_copy(deep=True)  # a condition looks; what it changes is not called
        try:
            if self.signature.single is not None:
                return self.gate.when(seen) is not False
            offered = {name: getattr(seen, name) for name in self.offered_names}
            return self.gate.when(**offered) is not False
        except Exception:  # noqa: BLE001 - a condition that cannot be told must not open the gate
            return True

    @property
    def offered_names(self) -> list[str]:
        """The parameters that a model gives, apart from those that a person fills in."""
        return [name for name in self.signature.own.parameters if name not in self.filled_in]

    def channels(self) -> Iterator[Channel]:
        """The channels it names."""
        if isinstance(self.channel, Channel):
            yield self.channel
        for ask in self.asks():
            yield from ask.channels()

    def asks(self) -> Iterator[Approval | External | Fill]:
        """What the writer has said about whom it asks."""
        found: tuple[object, ...] = (self.approval, self.external, self.fill)
        yield from (each for each in found if isinstance(each, Approval | External | Fill))

    # ── What goes in and comes out ───────────────────────────────────────────────────────────────

    async def call(self, context: ToolContext, arguments: BaseModel) -> R:
        """Runs the function, a sync one in a thread, and gives its result, checked."""
        bound = self.signature.bound(arguments)
        first = (context,) if self.takes_context else ()
        return self.result.validate_python(await call(self.fn, *first, *bound.args, **bound.kwargs))

    def read_arguments(self, arguments: Json, *, closed: bool = False) -> BaseModel:
        """Arguments as a model or an approver gave them; raises pydantic's `ValidationError`.

        `closed` refuses members that the tool does not know, which are otherwise dropped.
        """
        return load(self.arguments, arguments, closed=closed)

    def read_offered(self, arguments: Json) -> BaseModel:
        """Arguments as a model gave them, with nothing in the place of those that a person fills in.

        Raises pydantic's `ValidationError`, also where the model gave one of those.
        """
        return self.form.read_offered(arguments) if self.form else self.read_arguments(arguments)

    def filled(self, arguments: Json, value: Json) -> Json:
        """All arguments, where a person gave `value`: an object with every field of `fill_schema`.

        Raises pydantic's `ValidationError`, whose places are in `value`.
        """
        if self.form is None:
            raise LookupError(f"nothing of the tool {self.name!r} is filled in")
        self.form.read(value)
        whole = {**cast("dict[str, Json]", arguments), **cast("dict[str, Json]", value)}
        self.read_arguments(whole)
        return whole

    def dump_arguments(self, arguments: BaseModel) -> Json:
        """Arguments as JSON that fits `arguments_schema`, with every default written out."""
        return dump(self.arguments, arguments)

    def read_result(self, value: Json) -> R:
        """A result that was stored or reported; raises pydantic's `ValidationError`."""
        return load(self.result, value)

    def dump_result(self, result: R) -> Json:
        """A result as JSON that `read_result` reads."""
        return dump(self.result, result)

    def proposed(self, *args: P.args, **kwargs: P.kwargs) -> Json:
        """The arguments of a typed call, as a model would write them: those that it is offered."""
        if self.filled_in:
            return self._proposed_in_part(args, kwargs)
        bound = self.signature.own.bind(*args, **kwargs).arguments
        if self.signature.single is not None:
            return plain(bound[self.signature.single])
        return plain(bound)

    def _proposed_in_part(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Json:
        """What is given; a person fills in the rest. Of a model's own fields, also by keywords."""
        own, single = self.signature.own, self.signature.single
        if single is not None and not args and single not in kwargs:
            return plain(kwargs)
        given = own.bind_partial(*args, **kwargs).arguments
        if single is not None:
            written: dict[str, Json] = plain(given[single])
            return {
                name: written[name] for name in self.offered_schema["properties"] if name in written
            }
        for name, parameter in own.parameters.items():
            if (
                name not in given
                and name not in self.filled_in
                and parameter.default is parameter.empty
            ):
                raise TypeError(f"missing a required argument: {name!r}")
        return plain(given)


class FillDecorator(Protocol):
    """What `tool` with `fill=` gives: a tool that is called without what a person fills in."""

    @overload
    def __call__(self, fn: Callable[..., Awaitable[R]], /) -> Tool[..., R]: ...
    @overload
    def __call__(self, fn: Callable[..., R], /) -> Tool[..., R]: ...


class ToolDecorator(Protocol):
    """What `tool` with options gives: it makes a tool of a function."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext, P], Awaitable[R]], /
    ) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], R], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(fn: Callable[Concatenate[ToolContext, P], Awaitable[R]], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[Concatenate[ToolContext, P], R], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[R]], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    channel: Channel | None = None,
    approval: Approval | None = None,
    external: bool | External = False,
    timeout: timedelta | None = None,
    retries: int = 0,
    before_call: Sequence[CallGuard] = (),
    after_call: Sequence[ResultGuard] = (),
    on_crash: OnCrash = "run_again",
) -> ToolDecorator: ...
@overload
def tool(
    *,
    fill: Sequence[str] | Fill,
    channel: Channel | None = None,
    approval: Approval | None = None,
    external: bool | External = False,
    timeout: timedelta | None = None,
    retries: int = 0,
    before_call: Sequence[CallGuard] = (),
    after_call: Sequence[ResultGuard] = (),
    on_crash: OnCrash = "run_again",
) -> FillDecorator: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    channel: Channel | None = None,
    approval: Approval | None = None,
    external: bool | External = False,
    fill: Sequence[str] | Fill = (),
    timeout: timedelta | None = None,
    retries: int = 0,
    before_call: Sequence[CallGuard] = (),
    after_call: Sequence[ResultGuard] = (),
    on_crash: OnCrash = "run_again",
) -> Any:
    """Makes a tool of a function, sync or async: `@tool` or `@tool(channel=…)`.

    The schema comes from its parameters (one pydantic model, or plain typed ones), the description
    from its docstring. A first parameter annotated with `ToolContext` is not one of them.

    Args:
        fn: The function, where `@tool` stands without options.
        channel: Who is asked. Without `external` and `fill`, every call waits for an approval.
        approval: The terms of that approval; with `external` or `fill`, of one before that.
        external: Somebody else does the call and reports its result; the function is never run.
            `External(…)` says under which terms.
        fill: Parameters that a person fills in; the model is not offered them. `Fill(…)` says under
            which terms.
        timeout: How long one attempt may take; a person's waiting time does not count.
        retries: How often a call that raised is tried again.
        before_call: Guardrails that look at every call before it is asked about.
        after_call: Guardrails that look at every result before the model reads it.
        on_crash: What becomes of a call of which a crash leaves unknown whether it happened.
    """

    def made(fn: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(
            fn,
            channel=channel,
            approval=approval,
            external=external,
            fill=fill,
            timeout=timeout,
            retries=retries,
            before_call=before_call,
            after_call=after_call,
            on_crash=on_crash,
        )

    return made if fn is None else made(fn)
