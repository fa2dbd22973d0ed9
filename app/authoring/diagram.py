"""A workflow as a Mermaid flowchart: its steps, the ways between them, and whom they ask."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.authoring.gates import AskError, Choose, Gate
from app.authoring.step import (
    AgentStep,
    ConditionNode,
    LoopNode,
    ParallelNode,
    RouterNode,
    StepNode,
)
from app.authoring.tool import Tool


def mermaid(steps: Sequence[StepNode]) -> str:
    """The text of the chart: steps as boxes, asks as hexagons, decisions as diamonds."""
    chart = _Chart()
    chart.node('start(["input"])')
    ends = chart.sequence(steps, ["start"], "s")
    chart.node('finish(["output"])')
    chart.join(ends, "finish")
    return "\n".join(["flowchart TD", *chart.nodes, *chart.edges])


@dataclass(kw_only=True)
class _Chart:
    """The chart so far. An end is the node at which a way ends, with the label of what comes next.

    Edges are written after all nodes: one that is written in a subgraph would draw both into it.
    """

    nodes: list[str] = field(default_factory=list[str])
    edges: list[str] = field(default_factory=list[str])
    depth: int = 1

    def node(self, text: str) -> None:
        self.nodes.append("  " * self.depth + text)

    def join(self, ends: Sequence[str], to: str) -> None:
        self.edges += [f"  {end} --> {to}" for end in dict.fromkeys(ends)]

    def sequence(self, steps: Sequence[StepNode], ends: list[str], prefix: str) -> list[str]:
        """Draws steps one after the other, and gives where they end."""
        for index, step in enumerate(steps):
            ends = self._step(step, ends, f"{prefix}{index}")
        return ends

    def _step(self, step: StepNode, ends: list[str], key: str) -> list[str]:
        for index, ask in enumerate(step.before):
            ends = self._ask(ask, ends, f"{key}b{index}")
        ends = self._container(step, ends, key) if step.children else self._leaf(step, ends, key)
        return self._ask(step.after, ends, f"{key}a") if step.after else ends

    def _leaf(self, step: StepNode, ends: list[str], key: str) -> list[str]:
        self.node(f'{key}["{step.name}"]')
        self.join(ends, key)
        if isinstance(step.on_error, AskError):
            self._beside(key, f"{key}e", _says(step.on_error))
        for index, tool in enumerate(_asking_tools(step)):
            self._beside(key, f"{key}t{index}", f"{tool.name}: {_asked_by(tool)}")
        return [key]

    def _ask(self, ask: Gate, ends: list[str], key: str) -> list[str]:
        self.node(f'{key}{{{{"{_says(ask)}"}}}}')
        self.join(ends, key)
        return [key]

    def _beside(self, key: str, ask: str, text: str) -> None:
        self.node(f'{ask}{{{{"{text}"}}}}')
        self.edges.append(f"  {key} -.-> {ask}")

    def _container(self, step: StepNode, ends: list[str], key: str) -> list[str]:
        self.node(f'subgraph {key}["{step.name}"]')
        self.depth += 1
        ends = self._inside(step, ends, key)
        self.depth -= 1
        self.node("end")
        return ends

    def _inside(self, step: StepNode, ends: list[str], key: str) -> list[str]:
        match step:
            case ConditionNode():
                return self._condition(step, ends, f"{key}_")
            case RouterNode():
                ends = self._selection(step, ends, f"{key}w")
                return self._side_by_side(step.choices, ends, f"{key}_")
            case ParallelNode():
                return self._side_by_side(step.steps, ends, f"{key}_")
            case LoopNode():
                return self._loop(step, ends, f"{key}_")
            case _:
                return self.sequence(step.children, ends, f"{key}_")

    def _side_by_side(self, steps: Sequence[StepNode], ends: list[str], prefix: str) -> list[str]:
        found: list[str] = []
        for index, step in enumerate(steps):
            found += self._step(step, ends, f"{prefix}{index}")
        return found

    def _condition(self, step: ConditionNode, ends: list[str], prefix: str) -> list[str]:
        decision = f"{prefix}w"
        self.node(f'{decision}{{"{"when" if step.when else "approved"}"}}')
        self.join(ends, decision)
        taken = self.sequence(step.then, [f'{decision} -- "yes"'], f"{prefix}t")
        return taken + self.sequence(step.otherwise, [f'{decision} -- "no"'], f"{prefix}o")

    def _selection(self, step: RouterNode, ends: list[str], key: str) -> list[str]:
        if isinstance(step.select, Choose):
            return self._ask(step.select, ends, key)
        self.node(f'{key}{{"select"}}')
        self.join(ends, key)
        return [key]

    def _loop(self, step: LoopNode, ends: list[str], prefix: str) -> list[str]:
        again = f"{prefix}i"
        self.node(f'{again}(["at most {step.max_iterations} times"])')
        self.join(ends, again)
        ends = self.sequence(step.steps, [again], prefix)
        if step.after_each is not None:
            ends = self._ask(step.after_each, ends, f"{prefix}r")
        self.join([f'{end} -- "again"' for end in ends], again)
        return ends


def _says(ask: Gate) -> str:
    return f"{ask.kind} by {ask.policy().channel}"


def _asking_tools(step: StepNode) -> list[Tool[..., Any]]:
    return (
        [tool for tool in step.agent.tools if tool.asked()] if isinstance(step, AgentStep) else []
    )


def _asked_by(tool: Tool[..., Any]) -> str:
    return ", ".join(f"{kind} by {tool.policy_for(kind).channel}" for kind in tool.asked())
