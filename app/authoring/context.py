"""What a tool and a step can ask of the run they are part of."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol, TypeVar, cast, overload

from pydantic import BaseModel, TypeAdapter

from app.authoring.asks import Question
from app.authoring.function import UnreadableSignature, call, hints_of
from app.authoring.shape import adapter_of, dump, load
from app.domain.ids import CallId, RunId, ThreadId
from app.domain.json import InvalidJson, Json, check_json
from app.errors import AuthoringError

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class ToolHost(Protocol):
    """What runs a tool, as its context sees it."""

    async def pause(self, question: Question[Any]) -> Json:
        """The answer, as JSON that the question accepts; raises `Declined`.

        Where there is none yet, the tool's task ends here, and the tool runs again once there is.
        """
        ...

    async def step(self, name: str, work: Callable[[], Awaitable[Json]]) -> Json:
        """What `work` gave when it first ended, in this run of the tool or in an earlier one."""
        ...

    def report_cost(self, usd: Decimal) -> None:
        """Notes what the call cost."""
        ...


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """A tool's view of the call it serves. `call_id` is the same whenever the call runs again."""

    call_id: CallId
    run_id: RunId
    thread_id: ThreadId
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    host: ToolHost = field(repr=False)

    async def pause(self, question: Question[T]) -> T:
        """Asks somebody and gives the answer; raises `Declined`, or `AuthoringError`.

        The tool is run again from its top with the answers so far, so what has an effect belongs
        after the questions or into a `step`.
        """
        question.check()
        return question.read(await self.host.pause(question))

    @overload
    async def step(self, name: str, fn: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[[], T]) -> T: ...
    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Runs `fn` once for this call and gives its result, also when the tool is run again.

        The result is stored as JSON: of the type that `fn` declares to return, else plain JSON. A
        name stands for one step of the call.
        """
        result = _declared_result(fn)

        async def work() -> Json:
            value = await call(fn)
            return dump(result, value) if result else _plain(name, value)

        stored = await self.host.step(name, work)
        return load(result, stored) if result else stored

    def report_cost(self, usd: Decimal | float) -> None:
        """Adds to what the call cost, in US dollars; raises `ValueError` below 0 or beyond all."""
        cost = Decimal(str(usd))
        if not cost.is_finite() or cost < 0:
            raise ValueError(f"a cost must be a finite number from 0, not {usd}")
        self.host.report_cost(cost)


def _declared_result(fn: Callable[[], Any]) -> TypeAdapter[Any] | None:
    try:
        declared = hints_of(fn).get("return", Any)
    except UnreadableSignature:
        return None
    return None if declared is Any else adapter_of(declared)


def _plain(name: str, value: object) -> Json:
    """`value`, if it would come back from JSON as it is."""
    try:
        check_json(value)
    except InvalidJson as error:
        raise TypeError(
            f"the step {name!r} gave {type(value).__name__}, which JSON does not bring back; "
            "declare what its function returns"
        ) from error
    return value


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """A step function's view of its run.

    `outputs` are those of the steps before it, by name; `inputs` what people filled in for it.
    After a rejected review, `feedback` is what was said (None where nothing was) and
    `previous_output` what was rejected; in a loop, the same of the iteration before.
    """

    run_id: RunId
    thread_id: ThreadId
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: Sequence[BaseModel] = ()
    feedback: str | None = None
    previous_output: Any = None

    def input(self, model: type[M]) -> M:
        """What was filled in for `AskInput(…, model)` before this step.

        Raises `AuthoringError` where the step has no such ask.
        """
        for each in self.inputs:
            if type(each) is model:
                return cast("M", each)
        raise AuthoringError(
            f"The step reads {model.__name__}, and there is no AskInput(…, {model.__name__}) "
            "before it."
        )
