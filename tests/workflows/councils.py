"""Workflows that several have to agree to, or that have a deadline; what their tools do is kept in lists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.authoring import (
    Agent,
    Approval,
    Channel,
    ModelRequest,
    Notice,
    Reply,
    Review,
    ScriptedModel,
    Step,
    StepContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel
from app.domain.decision import Decision

desk = InboxChannel("desk")
attic = InboxChannel("attic")


class Notebook(Channel):
    """Keeps what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.told: list[Notice] = []

    async def notify(self, notice: Notice) -> Decision | None:
        self.told.append(notice)
        return None

    def about(self, run: Mapping[str, Any]) -> list[str]:
        """The types of what it was told of a run, as things happened."""
        mine = [each for each in self.told if each.data["run_id"] == run["id"]]
        return [
            each.type for each in sorted(mine, key=lambda each: str(each.data["event_sequence"]))
        ]


@dataclass
class Council:
    """A workflow `council` with one gated call, and what was done by it."""

    approval: Approval
    channel: Channel = desk
    further: tuple[Channel, ...] = ()
    done: list[str] = field(default_factory=list[str])

    @property
    def workflow(self) -> Workflow:
        done = self.done

        @tool(channel=self.channel, approval=self.approval)
        async def build(what: str) -> str:
            """Builds something."""
            done.append(what)
            return f"built {what}"

        def asks(request: ModelRequest) -> Reply:
            last = request.messages[-1]
            return reply_with(last.text) if last.role == "tool" else call_tool(build, last.text)

        clerk = Agent("clerk", prompt="Build.", model=ScriptedModel(asks), tools=[build])
        channels = [self.channel, *self.further]
        return Workflow("council", version="1", input=str, steps=[clerk], channels=channels)


async def _draft(context: StepContext, value: str) -> str:
    return f"draft of {value}"


reviewed = Workflow(
    "reviewed",
    version="1",
    input=str,
    steps=[Step("draft", _draft, after=Review("Good?", channel=desk, quorum=2))],
    channels=[desk],
)
