"""A line as a graph: its steps as nodes named by their path, from one to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langgraph.graph import END, START, StateGraph

from app.authoring import Agent, AgentStep, FunctionStep, Workflow
from app.authoring.shape import schema_of
from app.authoring.step import StepNode
from app.engine.agent import Graph, agent_graph
from app.engine.drive import Drive
from app.engine.function import FunctionNode
from app.engine.models import Model
from app.engine.served import Seat, ServedTool, StepPlace
from app.engine.state import LineState
from app.errors import AuthoringError


@dataclass(frozen=True, kw_only=True)
class Line:
    """A compiled line, the places of its steps, and the seats of its agents by path."""

    graph: Graph
    places: tuple[StepPlace, ...]
    seats: dict[str, Seat]


def root_line(workflow: Workflow, models: dict[Agent, Model]) -> Line:
    """Compiles the workflow itself."""
    for step in workflow.steps:
        _refuse_gates(workflow, step)
    places = tuple(_place(workflow, index, step) for index, step in enumerate(workflow.steps))
    seats = {
        place.path: _seat(workflow, place, step.agent)
        for place, step in zip(places, workflow.steps, strict=True)
        if isinstance(step, AgentStep)
    }
    compiled = _Compiling(workflow, models, places, seats)
    return Line(graph=compiled.graph(), places=places, seats=seats)


def _place(workflow: Workflow, index: int, step: StepNode) -> StepPlace:
    return StepPlace(
        workflow=workflow.name,
        path=f"{workflow.name}/{step.name}",
        name=step.name,
        index=index,
        type="agent" if isinstance(step, AgentStep) else "function",
        output=step.output,
        output_schema=schema_of(step.output),
    )


def _seat(workflow: Workflow, place: StepPlace, agent: Agent) -> Seat:
    return Seat(
        place=place,
        agent=agent,
        tools={tool.name: ServedTool(tool) for tool in agent.tools},
        channels={channel.name: channel for channel in workflow.channels},
    )


def _refuse_gates(workflow: Workflow, step: StepNode) -> None:
    """A gate that nobody asks at would be worse than none."""
    if step.before or step.after is not None or step.on_error != "fail":
        raise _not_served(f"{workflow.name}/{step.name}", "has before=, after= or on_error=")


def _not_served(path: str, why: str) -> AuthoringError:
    return AuthoringError(f"The step {path!r} {why}, which is not served yet.")


class _Compiling:
    """One line on its way from steps to a graph."""

    def __init__(
        self,
        workflow: Workflow,
        models: dict[Agent, Model],
        places: Sequence[StepPlace],
        seats: dict[str, Seat],
    ) -> None:
        self._steps = workflow.steps
        self._remembers = workflow.history > 0
        self._models = models
        self._places = places
        self._seats = seats

    def graph(self) -> Graph:
        """The graph; a line that is one agent is that agent's graph itself, which saves two checkpoints."""
        match self._steps:
            case [AgentStep() as step]:
                return self._agent(self._places[0], step)
            case _:
                return self._sequence()

    def _sequence(self) -> Graph:
        graph = StateGraph(LineState, context_schema=Drive)
        for place, step in zip(self._places, self._steps, strict=True):
            graph.add_node(place.path, cast("Any", self._node(place, step)))
        paths = [place.path for place in self._places]
        for path, following in zip([START, *paths], [*paths, END], strict=True):
            graph.add_edge(path, following)
        return cast("Graph", graph.compile())

    def _node(self, place: StepPlace, step: StepNode) -> object:
        match step:
            case AgentStep():
                return self._agent(place, step)
            case FunctionStep():
                before = tuple(each for each in self._places if each.index < place.index)
                return FunctionNode(step, place, before).run
            case _:
                raise _not_served(place.path, f"is a {step.type}")

    def _agent(self, place: StepPlace, step: AgentStep) -> Graph:
        seat, model = self._seats[place.path], self._models[step.agent]
        return agent_graph(seat, step, model, remembers=self._remembers)
