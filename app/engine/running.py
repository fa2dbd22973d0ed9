"""Runs one call of a tool: its result, its error, or the question it came upon."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from app.authoring import Declined, Question, ToolContext
from app.domain.json import Json
from app.domain.masking import secrets_in
from app.domain.pause import Answer
from app.engine.asking import question_of
from app.engine.calls import result_text
from app.engine.drive import Drive, LineFailed
from app.engine.faults import reason_of, tool_error
from app.engine.served import Seat, ServedTool
from app.engine.state import CallOutcome, OpenCall, OpenQuestion
from app.errors import AuthoringError
from app.watching.watch import tool_call

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
"""Seconds before a call that raised is tried again: doubled each time, up to the longest."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What became of a call."""

    outcome: CallOutcome
    failed: bool = False


class _Stopped(BaseException):
    """Ends a tool's task at a question. No `Exception`, so that a tool's own handlers let it through."""


async def began(call: OpenCall, drive: Drive) -> bool:
    """Stores that this attempt begins; False where it was begun before, and nobody knows how it ended."""
    name = f"{BEGUN}{call['attempt']}"
    if (call["id"], name) in drive.step_results:
        return False
    await drive.start.save_step_result(call["id"], name, True)
    return True


BEGUN = "begun#"
"""With the attempt's number, the name under which its beginning is stored beside the results of steps."""


async def run_call(seat: Seat, call: OpenCall, drive: Drive, costs: dict[str, Decimal]) -> Ran:
    """Runs the call, again if it raised and may be retried. What it reports goes into `costs`, by place.

    Raises `LineFailed` where the workflow is written wrongly, and what storing a step's result raised.
    """
    with tool_call(call["tool"], call["id"]) as watched:
        ran = await _run(seat, call, drive, costs)
        if ran.failed:
            watched.outcome = "failed"
        elif "question" in ran.outcome:
            watched.outcome = "asked"
        return ran


async def _run(seat: Seat, call: OpenCall, drive: Drive, costs: dict[str, Decimal]) -> Ran:
    tool = seat.tool(call["tool"])
    for attempt in range(tool.tool.retries + 1):
        host = _Host(seat, tool, call, drive, costs, attempt)
        if attempt:
            await asyncio.sleep(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT))
        try:
            text = await _result(tool, call, host)
        except BaseException as error:  # noqa: BLE001 - sorted out below, what is not a tool's goes on
            host.check(error)
            if host.question is None and attempt < tool.tool.retries and _may_retry(error):
                continue
            text, failed = (
                tool_error(reason_of(error, tool.secrets(call["arguments"]) | host.heard)),
                True,
            )
        else:
            host.check(None)
            failed = False
        if host.question is not None:
            return Ran(outcome={"question": host.question})
        return Ran(outcome={"result": text}, failed=failed)
    raise AssertionError("a call is run at least once")


async def _result(tool: ServedTool, call: OpenCall, host: "_Host") -> str:
    arguments = tool.tool.read_arguments(call["arguments"])
    context = ToolContext(
        call_id=call["id"],
        run_id=host.drive.start.run.run_id,
        thread_id=host.drive.start.run.thread_id,
        metadata=host.drive.start.metadata,
        host=host,
    )
    limit = asyncio.timeout(tool.tool.timeout.total_seconds() if tool.tool.timeout else None)
    try:
        async with limit:
            result = await tool.tool.call(context, arguments)
            return result_text(tool, result, host.heard)
    except TimeoutError:
        if limit.expired():
            raise _TookTooLong(f"timed out after {tool.tool.timeout}") from None
        raise


class _TookTooLong(Exception):
    """The call was stopped at its time limit."""


def _may_retry(error: BaseException) -> bool:
    return not isinstance(error, Declined)


_step: ContextVar[str] = ContextVar("step", default="")
"""The step of a tool in which something happens; none outside of steps."""


class _Host:
    """What a call's context speaks to: answers so far, steps so far, and the first open question."""

    def __init__(
        self,
        seat: Seat,
        tool: ServedTool,
        call: OpenCall,
        drive: Drive,
        costs: dict[str, Decimal],
        attempt: int,
    ) -> None:
        self.drive = drive
        self.question: OpenQuestion | None = None
        self.heard: frozenset[str] = frozenset()
        """Sensitive values of what the tool was answered, which nobody else knows."""
        self._costs = costs
        self._attempt = attempt
        self._reports: Counter[str] = Counter()
        self._seat = seat
        self._tool = tool
        self._call = call
        self._asked = 0
        self._failure: Exception | None = None
        self._steps: dict[str, asyncio.Lock] = {}

    async def pause(self, question: Question[Any]) -> Json:
        number, answered = self._asked, self._call["questions"]
        self._asked += 1
        if number < len(answered):
            answer = Answer.from_json(cast("dict[str, Json]", answered[number].get("answer")))
            if answer.approved:
                self.heard |= secrets_in(answer.value, question.response_schema)
                return answer.value
            raise Declined(answer.by, answer.feedback)
        if self.question is None:
            self.question = question_of(question, self._seat, self._tool)
        raise _Stopped

    async def step(self, name: str, work: Callable[[], Awaitable[Json]]) -> Json:
        key = (self._call["id"], name)
        async with self._steps.setdefault(name, asyncio.Lock()):
            if key not in self.drive.step_results:
                _step.set(name)
                try:
                    result = await work()
                finally:
                    _step.set("")
                await self._save(name, result)
                self.drive.step_results[key] = result
            return self.drive.step_results[key]

    async def _save(self, name: str, result: Json) -> None:
        try:
            await self.drive.start.save_step_result(self._call["id"], name, result)
        except Exception as error:
            self._failure = error
            raise

    def report_cost(self, usd: Decimal) -> None:
        """By a place that is the same when the tool runs again: a step that is over does not report again."""
        within = f"{self._call['place']}/cost{self._attempt}/{_step.get()}"
        self._costs[f"{within}#{self._reports[within]}"] = usd
        self._reports[within] += 1

    def check(self, error: BaseException | None) -> None:
        """Lets through what is not the tool's own: cancellation, a lost store, a writer's mistake."""
        if self._failure is not None:
            raise self._failure
        match error:
            case AuthoringError():
                raise LineFailed(error.code, error.message, step=self._seat.place.path) from error
            case None | Exception() | _Stopped():
                return
            case asyncio.CancelledError():
                raise error
            case _ if (
                self.question is not None
            ):  # a group that a tool's own tasks made of the question
                return
            case _:
                raise error
