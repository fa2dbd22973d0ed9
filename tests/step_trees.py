"""Small steps for tests: functions that leave a mark on the text they get, and note that they ran."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from app.authoring import (
    Agent,
    Channel,
    Condition,
    Loop,
    ModelRequest,
    Parallel,
    Reply,
    Router,
    ScriptedModel,
    Step,
    StepContext,
    Steps,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.authoring.declared import StepEntry
from tests.engine_runs import approvers

Ran = list[str]
"""The names of the functions that ran, in order."""


def marks(name: str, ran: Ran) -> Callable[[StepContext, str], str]:
    """A function that adds its name to the text."""

    def mark(context: StepContext, text: str) -> str:
        ran.append(name)
        return f"{text}>{name}"

    return mark


def mark(name: str, ran: Ran, **gates: Any) -> Step:
    """A step that adds its name to the text."""
    return Step(name, marks(name, ran), **gates)


def gathers(ran: Ran, name: str = "last") -> Step:
    """A step that makes one text of whatever it gets, and adds its name."""

    def gather(context: StepContext, value: Any) -> str:
        ran.append(name)
        return f"{flat(value)}>{name}"

    return Step(name, gather)


def flat(value: object) -> str:
    """A text as it is; the outputs of branches as `(name=output|…)`."""
    if not isinstance(value, dict):
        return str(value)
    inner = cast("dict[str, object]", value)
    return "(" + "|".join(f"{name}={flat(each)}" for name, each in inner.items()) + ")"


def line_of(
    *steps: StepEntry, name: str = "work", channels: Sequence[Channel] = (approvers,)
) -> Workflow:
    """A workflow of these steps that takes a text."""
    return Workflow(name, version="1", input=str, steps=steps, channels=channels)


def publisher(ran: Ran, name: str = "publisher") -> Agent:
    """An agent with one gated tool, which adds `name` to the text."""

    @tool(channel=approvers)
    async def publish(body: str) -> str:
        ran.append(f"{name}.publish")
        return f"{body}>{name}"

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        text = last.text.partition("\n")[0]  # what was said about it before stands below it
        return reply_with(text) if last.role == "tool" else call_tool(publish, body=text)

    return Agent(name, prompt="Publish.", model=ScriptedModel(answer), tools=[publish])


def yes(value: Any) -> bool:
    return True


def no(value: Any) -> bool:
    return False


Wrap = Callable[[list[StepEntry], Ran, str], StepEntry]


def _steps(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    return Steps(name, inside)


def _then(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    return Condition(name, when=yes, then=inside, otherwise=[mark("never", ran)])


def _otherwise(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    return Condition(name, when=no, then=[mark("never", ran)], otherwise=inside)


def _router(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    def way(value: Any) -> str:
        return "taken"

    return Router(name, choices=[mark("never", ran), Steps("taken", inside)], select=way)


def _loop(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    return Loop(name, steps=inside, max_iterations=1)


def _workflow(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    return Step(name, line_of(*inside, name=name))


def _branch(inside: list[StepEntry], ran: Ran, name: str) -> StepEntry:
    """Forks, runs one branch, and makes a text of it again, so that it can stand anywhere."""
    fork = Parallel("fork", [Steps("taken", inside), mark("sibling", ran)])

    def taken(context: StepContext, value: dict[str, str]) -> str:
        return value["taken"]

    return Steps(name, [fork, Step("join", taken)])


CONTAINERS: dict[str, Wrap] = {
    "steps": _steps,
    "then": _then,
    "otherwise": _otherwise,
    "router": _router,
    "loop": _loop,
    "workflow": _workflow,
    "branch": _branch,
}
"""Every container, around steps that are run in it once."""


def path_in(kind: str, name: str) -> str:
    """The place of what stands in such a container, below the container's own."""
    inner = {"router": "/taken", "loop": "[0]", "branch": "/fork/taken"}
    return name + inner.get(kind, "")
