"""What can be claimed of a run. A claim that fails tells what happened instead."""

from collections.abc import Sequence
from typing import Any

from app.authoring import Tool
from app.testing.run import Run, View


def assert_paused(run: Run, *, at: str, kind: str | None = None) -> None:
    """The run waits for a decision at that step, by its name or path; or about that tool, or of that agent."""
    __tracebackhide__ = True
    waiting = [each for each in run.open_pauses if at in _names(each)]
    if not waiting:
        _fail(f"the run is not paused at {at!r}", run)
    if kind is not None and all(each["kind"] != kind for each in waiting):
        kinds = ", ".join(each["kind"] for each in waiting)
        _fail(f"the pause at {at!r} is one of kind {kinds}, not {kind}", run)


def assert_finished(run: Run, output: Any = ...) -> None:
    """The run has completed, with that output if one is given."""
    __tracebackhide__ = True
    if run.status != "completed":
        _fail("the run has not completed", run)
    if output is not ... and run.output != output:
        _fail(f"the output is {run.output!r}, not {output!r}", run)


def assert_failed(run: Run, code: str) -> None:
    """The run has failed with that code."""
    __tracebackhide__ = True
    if run.error is None:
        _fail("the run has not failed", run)
    elif run.error["code"] != code:
        _fail(f"the run has failed with {run.error['code']!r}, not {code!r}", run)


def assert_called(run: Run, tools: Sequence[Tool[..., Any] | str]) -> None:
    """These tools ran, and no others, in this order, as often as they stand there."""
    __tracebackhide__ = True
    expected = [each.name if isinstance(each, Tool) else each for each in tools]
    if list(run.called) != expected:
        _fail(f"the tools that ran are {list(run.called)}, not {expected}", run)


def _names(pause: View) -> set[str | None]:
    """By what a pause is named in a test."""
    tool = pause["call"]["tool"] if pause["call"] else None
    return {pause["step"]["name"], pause["step"]["path"], pause["agent"], tool}


def _fail(claim: str, run: Run) -> None:
    __tracebackhide__ = True
    raise AssertionError(f"{claim[0].upper()}{claim[1:]}. What happened:\n{run.story()}")
