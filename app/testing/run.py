"""A run as a test sees it, and its story for when a claim about it fails."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.authoring import Workflow
from app.authoring.shape import load
from app.domain.json import Json
from app.domain.run import RunRef

View = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that is paused or has ended. `pause` and the like are the JSON that callers get.

    `called` are the names of the tools that ran, in the order in which they were called.
    """

    ref: RunRef
    workflow: Workflow
    view: View
    called: Sequence[str]

    @property
    def thread_id(self) -> str:
        """To start the next run of the conversation with."""
        return self.ref.thread_id

    @property
    def status(self) -> str:
        return self.view["status"]

    @property
    def output(self) -> Any:
        """The output as a value of its type, with sensitive parts masked; None until the run has completed."""
        shown: Json = self.view["output"]
        return None if shown is None else load(self.workflow.output, shown)

    @property
    def stop_reason(self) -> str | None:
        return self.view["stop_reason"]

    @property
    def error(self) -> View | None:
        """`{code, message, step?, details?}` of a run that failed."""
        return self.view["error"]

    @property
    def pause(self) -> View | None:
        """The first open pause."""
        return self.view["pause"]

    @property
    def pauses(self) -> Sequence[View]:
        """All pauses in order, the decided ones too."""
        return self.view["pauses"]

    @property
    def open_pauses(self) -> Sequence[View]:
        return [each for each in self.pauses if each["status"] == "open"]

    @property
    def steps(self) -> Sequence[View]:
        return self.view["steps"]

    def story(self) -> str:
        """What happened, a line each."""
        return "\n".join(f"  {line}" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.workflow.name} is {self.status}{_because(self.stop_reason)}"
        if self.error:
            yield f"error {self.error['code']}: {self.error['message']}"
        if self.view["output"] is not None:
            yield f"output: {self.view['output']!r}"
        for step in self.steps:
            yield f"step {step['path']}: {step['status']}"
        for pause in self.pauses:
            yield told(pause)
        yield f"tools that ran: {', '.join(self.called) or 'none'}"


def told(pause: View) -> str:
    """A pause in a line: where, what, and what became of it."""
    tool = pause["call"] and f" of {pause['call']['tool']}"
    line = f"pause at {pause['step']['path']}: {pause['kind']}{tool or ''}, {pause['status']}"
    decision = pause["decision"]
    if not decision:
        return f"{line}: {pause['message']}"
    said = {name: value for name, value in decision.items() if name not in _NOT_SAID}
    return f"{line} by {decision['by']}: {said!r}"


_NOT_SAID = {"by", "via", "decided_at", "acted_by"}


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
