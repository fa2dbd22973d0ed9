"""Guardrails: a writer's functions that look at calls, results and answers, and stop or change them.

They may be sync, then they run in a thread, or async. What they return is `None` where nothing is
wrong. One that raises fails the run: a check that cannot be made lets nothing through.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.authoring.function import name_of
from app.authoring.mistakes import as_list
from app.authoring.tool_call import ToolCall


@dataclass(frozen=True)
class Block:
    """This goes no further. Of a call, the model reads the reason; of anything else, the run fails."""

    reason: str


@dataclass(frozen=True)
class Replace:
    """This goes on with something else in its place: arguments, a result's text, an answer."""

    value: Any


@dataclass(frozen=True)
class Retry:
    """The answer is not good enough yet: the agent reads the feedback and answers again."""

    feedback: str


@dataclass(frozen=True, kw_only=True)
class CallDecision:
    """How an approval of a call was decided; `via` is the door, as `api` or `deadline`.

    `changed` says that the arguments are not those that the model proposed.
    """

    approved: bool
    by: str
    via: str
    feedback: str | None = None
    changed: bool = False


CallGuard: TypeAlias = Callable[
    [ToolCall], Block | Replace | Awaitable[Block | Replace | None] | None
]
"""Before a call is asked about and run. `Replace` has all arguments."""

DecisionGuard: TypeAlias = Callable[
    [ToolCall, CallDecision], Block | Awaitable[Block | None] | None
]
"""After an approval was decided, before the call is run."""

ResultGuard: TypeAlias = Callable[[ToolCall, str], Replace | Awaitable[Replace | None] | None]
"""After a call, before the model reads its result. `Replace` has another text."""

AnswerGuard: TypeAlias = Callable[[Any], Block | Replace | Awaitable[Block | Replace | None] | None]
"""Before an answer leaves its agent: a text, or of `output=` where that is given."""

ValueGuard: TypeAlias = Callable[[Any], Block | Replace | Awaitable[Block | Replace | None] | None]
"""Before a workflow reads its input, or gives its output."""

JudgeFunction: TypeAlias = Callable[[Any], Retry | Awaitable[Retry | None] | None]
"""Whether an answer is good enough."""


@dataclass(frozen=True, kw_only=True)
class Guards:
    """What looks at a workflow's input before anything runs, and at its output before anybody has it.

    They get values of the declared types, in this order. Blocked, the run fails.
    """

    input: Sequence[ValueGuard] = ()
    output: Sequence[ValueGuard] = ()

    def mistakes(self) -> Iterator[str]:
        """What is wrong with them."""
        yield from wrong_guardrails("guards: input", self.input, "the input")
        yield from wrong_guardrails("guards: output", self.output, "the output")


NO_GUARDS = Guards()


def wrong_guardrails(name: str, listed: object, *takes: str) -> Iterator[str]:
    """What is wrong with a list of guardrails, each a function of these."""
    functions = as_list(listed)
    if functions is None:
        yield f"{name}= must be a list of functions"
    for each in functions or []:
        yield from _wrong_guardrail(name, each, takes)


def _wrong_guardrail(name: str, guardrail: object, takes: Sequence[str]) -> Iterator[str]:
    if not callable(guardrail):
        yield f"{name}= has {guardrail!r}, which is not a function"
        return
    if name_of(guardrail) == "<lambda>":
        yield f"{name}= has a lambda, which has no name to be told by: define a function"
    try:
        inspect.signature(guardrail).bind(*takes)
    except TypeError:
        yield f"{name}=: {name_of(guardrail)} must take {' and '.join(takes)}"
    except ValueError:
        return
