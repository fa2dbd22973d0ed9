"""Limits: what an agent may do in one visit, and what a run may cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from app.authoring.mistakes import wrong_count, wrong_duration

DEFAULT_MODEL_CALLS: Final = 12
DEFAULT_TOOL_CALLS: Final = 20
DEFAULT_JUDGE_RETRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How far an agent may go from getting its work to its answer; of a workflow, what a run may cost.

    Of an agent: how often it may ask its model and its tools, how often judges may send its answer
    back, and how long it may work, without the time in which it waits for people. None stands for
    the default, which `describe` shows as such; `time` has none. Of a workflow: `run_cost`, in US
    dollars, of all model calls and of what tools report.
    """

    model_calls: int | None = None
    tool_calls: int | None = None
    judge_retries: int | None = None
    time: timedelta | None = None
    run_cost: Decimal | None = None

    @property
    def most_model_calls(self) -> int:
        return DEFAULT_MODEL_CALLS if self.model_calls is None else self.model_calls

    @property
    def most_tool_calls(self) -> int:
        return DEFAULT_TOOL_CALLS if self.tool_calls is None else self.tool_calls

    @property
    def most_judge_retries(self) -> int:
        return DEFAULT_JUDGE_RETRIES if self.judge_retries is None else self.judge_retries

    def mistakes_of_agent(self) -> Iterator[str]:
        """What is wrong with them as an agent's."""
        yield from wrong_count("limits: model_calls", self.most_model_calls, 1)
        yield from wrong_count("limits: tool_calls", self.most_tool_calls)
        yield from wrong_count("limits: judge_retries", self.most_judge_retries)
        yield from wrong_duration("limits: time", self.time)
        if self.run_cost is not None:
            yield "limits: run_cost= is of a workflow: it counts everything in a run"

    def mistakes_of_workflow(self) -> Iterator[str]:
        """What is wrong with them as a workflow's."""
        others = (self.model_calls, self.tool_calls, self.judge_retries, self.time)
        if any(each is not None for each in others):
            yield "limits: only run_cost= is of a workflow; the others are of an agent"
        yield from _wrong_cost(self.run_cost)


DEFAULT_LIMITS: Final = Limits()


def _wrong_cost(cost: object) -> Iterator[str]:
    match cost:
        case None:
            return
        case Decimal() if cost.is_finite() and cost > 0:
            return
        case Decimal():
            yield f"limits: run_cost={cost} must be more than nothing"
        case _:
            yield f"limits: run_cost= must be a Decimal, not {type(cost).__name__}"
