"""Compiles a workflow: each line, the workflow itself and each branch it may fork into, as one graph.

Steps and asks are nodes named by their path; where a line goes is told by the nodes themselves, so containers
are nothing but a few nodes between their steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from langgraph.graph import END, START, StateGraph
from pydantic import TypeAdapter

from app.authoring import (
    Agent,
    AgentStep,
    FunctionStep,
    GraphNode,
    ModelJudge,
    ModelRouter,
    Workflow,
)
from app.authoring.guardrails import JudgeFunction
from app.authoring.shape import schema_of
from app.authoring.step import (
    BuiltWorkflow,
    ConditionNode,
    LoopNode,
    Node,
    ParallelNode,
    RouterNode,
    StepNode,
    WorkflowNode,
    walk,
)
from app.engine.agent import Graph, agent_graph
from app.engine.containers import (
    ConditionStepping,
    InnerStepping,
    LoopStepping,
    ParallelStepping,
    RouterStepping,
    WorkflowStepping,
)
from app.engine.drive import Drive
from app.engine.ends import End, PlaceNow, guarded_end, label_of
from app.engine.judging import Judge, JudgingModel
from app.engine.leaves import AgentStepping, FunctionStepping
from app.engine.models import Model
from app.engine.routing import ModelChoice
from app.engine.served import Seat, ServedTool, StepPlace
from app.engine.state import LineState
from app.engine.stepping import Around, Stepping

ModelOf = Callable[[Agent | ModelRouter | ModelJudge], Model]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A compiled workflow: its lines by the path they begin at, and what is known about every step by path."""

    lines: Mapping[str, Graph]
    places: Mapping[str, StepPlace]
    seats: Mapping[str, Seat]
    nodes: Mapping[str, Node]


def plan_of(workflow: Workflow, model_of: ModelOf) -> Plan:
    """Compiles a workflow and everything in it."""
    planning = _Planning(workflow, model_of)
    planning.survey(workflow.steps, workflow.name)
    planning.compile_root()
    return Plan(
        lines=planning.lines, places=planning.places, seats=planning.seats, nodes=planning.nodes
    )


class _Planning:
    """A workflow on its way from steps to graphs."""

    def __init__(self, workflow: Workflow, model_of: ModelOf) -> None:
        self._workflow = workflow
        self.model_of = model_of
        self.remembers = workflow.history > 0
        self.lines: dict[str, Graph] = {}
        self.places: dict[str, StepPlace] = {}
        self.seats: dict[str, Seat] = {}
        self.nodes: dict[str, Node] = {}
        self.outputs: dict[str, TypeAdapter[Any]] = {}

    def survey(self, steps: tuple[StepNode, ...], within: str) -> None:
        """Notes every step by its path, each before those in it."""
        for index, step in enumerate(steps):
            path = f"{within}/{step.name}"
            self.nodes[path] = step
            self.outputs[path] = step.output
            self.places[path] = StepPlace(
                workflow=self._workflow.name,
                path=path,
                name=step.name,
                index=index,
                type=step.type,
                output=step.output,
                output_schema=schema_of(step.output),
            )
            if isinstance(step, AgentStep):
                self.seats[path] = self._seat(self.places[path], step.agent)
            self.survey(step.children, path)

    def _seat(self, place: StepPlace, agent: Agent) -> Seat:
        return Seat(
            place=place,
            agent=agent,
            tools={tool.name: ServedTool(tool, agent) for tool in agent.tools},
            channels={channel.name: channel for channel in self._workflow.channels},
            is_unheard=bool(agent.before_answer) or self._guards_output,
        )

    @cached_property
    def _guards_output(self) -> bool:
        """Whether anything looks at an output, of the workflow or of one in it, before anybody has it."""
        inner = [
            node.workflow
            for _, node in walk(self._workflow.steps, "")
            if isinstance(node, WorkflowNode)
        ]
        return any(each.guards.output for each in (self._workflow, *inner))

    def compile_root(self) -> None:
        """The workflow itself; if it is one agent without gates, that agent's graph as it is."""
        steps, root = self._workflow.steps, self._workflow.name
        match steps:
            case [AgentStep(before=(), after=None, on_error="fail") as step] if (
                not self._is_guarded
            ):
                path = f"{root}/{step.name}"
                self.lines[root] = self.agent(path, step, alone=True)
            case [GraphNode()]:
                return  # it is compiled already
            case _:
                self.lines[root] = _LineGraph(self, root).compiled(self._workflow)

    @property
    def _is_guarded(self) -> bool:
        guards = self._workflow.guards
        return bool(guards.input or guards.output)

    def compile_branch(self, step: StepNode, path: str) -> None:
        """A branch of a `Parallel`: a line of its own."""
        self.lines[path] = _LineGraph(self, path).compiled_step(step, path)

    def agent(
        self, path: str, step: AgentStep, *, alone: bool = False, catches: bool = False
    ) -> Graph:
        """An agent's graph.

        `alone` where it is its whole line and notes its own beginning and end; `catches` where its failure
        is told to a step that has something to say about it.
        """
        return agent_graph(
            self.seats[path],
            step,
            self.model_of(step.agent),
            judges=[self._judge(each) for each in step.agent.judges],
            remembers=self.remembers,
            alone=alone,
            catches=catches,
        )

    def _judge(self, judge: ModelJudge | JudgeFunction) -> Judge:
        if isinstance(judge, ModelJudge):
            return JudgingModel(judge=judge, model=self.model_of(judge))
        return judge


class _LineGraph:
    """One line on its way to a graph. Each step is told where it leads to; so steps are laid from the last."""

    def __init__(self, planning: _Planning, root: str) -> None:
        self._planning = planning
        self._root = root
        self._graph = StateGraph(LineState, context_schema=Drive)

    def compiled(self, workflow: Workflow) -> Graph:
        return self._finish(self._between_ends(workflow, self._root, END, None))

    def compiled_step(self, step: StepNode, path: str) -> Graph:
        return self._finish(self._step(step, path, END))

    def _finish(self, first: str) -> Graph:
        self._graph.add_edge(START, first)
        return cast("Graph", self._graph.compile())

    def _sequence(self, steps: tuple[StepNode, ...], within: str, leads_to: str) -> str:
        """Lays steps one after the other; gives where they begin."""
        for step in reversed(steps):
            leads_to = self._step(step, f"{within}/{step.name}", leads_to)
        return leads_to

    def _between_ends(
        self, workflow: BuiltWorkflow, path: str, leads_to: str, place_now: PlaceNow | None
    ) -> str:
        """Lays the steps of a workflow between its guarded ends; gives where they begin."""
        leads_to = self._end(workflow, "output", path, leads_to, place_now)
        first = self._sequence(workflow.steps, path, leads_to)
        return self._end(workflow, "input", path, first, place_now)

    def _end(
        self,
        workflow: BuiltWorkflow,
        end: End,
        path: str,
        leads_to: str,
        place_now: PlaceNow | None,
    ) -> str:
        node = guarded_end(workflow, end, leads_to, place_now)
        if node is None:
            return leads_to
        self._node(label_of(path, end), node)
        return label_of(path, end)

    def _step(self, step: StepNode, path: str, leads_to: str) -> str:
        """Lays one step with everything around it; gives where it begins."""
        around = Around(root=self._root, leads_to=leads_to, outputs=self._planning.outputs)
        place = self._planning.places[path]
        if isinstance(step, FunctionStep):
            return self._function(FunctionStepping(step, place, around))
        stepping = self._inside(step, place, around)
        self._node(stepping.enter_label, stepping.enter)
        self._node(stepping.done_label, stepping.guarded(stepping.done))
        self._gates(stepping)
        return stepping.enter_label

    def _inside(self, step: StepNode, place: StepPlace, around: Around) -> Stepping:
        """Lays what is between the entering of a step and its end."""
        match step:
            case AgentStep():
                return self._agent(AgentStepping(step, place, around), step)
            case WorkflowNode():
                return self._workflow(WorkflowStepping(step, place, around), step)
            case ConditionNode():
                return self._condition(ConditionStepping(step, place, around), step)
            case RouterNode():
                return self._router(RouterStepping(step, place, around), step)
            case LoopNode():
                return self._loop(LoopStepping(step, place, around), step)
            case ParallelNode():
                return self._parallel(ParallelStepping(step, place, around), step)
            case _:
                return self._steps(InnerStepping(step, place, around), step.children)

    def _gates(self, stepping: Stepping) -> None:
        for index in range(len(stepping.node.before)):
            self._node(stepping.before_label(index), stepping.before(index))
        if stepping.node.after is not None:
            self._node(stepping.review_label, stepping.review)
        if stepping.node.on_error != "fail":
            self._node(stepping.failed_label, stepping.failed)

    def _function(self, stepping: FunctionStepping) -> str:
        self._node(stepping.path, stepping.guarded(stepping.run))
        self._gates(stepping)
        if stepping.is_bare:
            return stepping.path
        self._node(stepping.enter_label, stepping.enter)
        return stepping.enter_label

    def _agent(self, stepping: AgentStepping, step: AgentStep) -> Stepping:
        agent = self._planning.agent(stepping.path, step, catches=step.on_error != "fail")
        self._node(stepping.path, agent)
        self._graph.add_edge(stepping.path, stepping.done_label)
        return stepping

    def _steps(self, stepping: Stepping, steps: tuple[StepNode, ...]) -> Stepping:
        stepping.first = self._sequence(steps, stepping.path, stepping.done_label)
        return stepping

    def _workflow(self, stepping: WorkflowStepping, step: WorkflowNode) -> Stepping:
        stepping.first = self._between_ends(
            step.workflow, stepping.path, stepping.done_label, stepping.now
        )
        self._node(stepping.path, stepping.guarded(stepping.begin))
        return stepping

    def _condition(self, stepping: ConditionStepping, step: ConditionNode) -> Stepping:
        stepping.then, stepping.otherwise = (
            self._sequence(steps, stepping.path, stepping.done_label)
            for steps in (step.then, step.otherwise)
        )
        self._node(stepping.path, stepping.guarded(stepping.branch))
        return stepping

    def _router(self, stepping: RouterStepping, step: RouterNode) -> Stepping:
        stepping.entries = {
            each.name: self._step(each, f"{stepping.path}/{each.name}", stepping.next_label)
            for each in step.choices
        }
        if isinstance(step.select, ModelRouter):
            stepping.model = ModelChoice(step.select, self._planning.model_of(step.select))
        self._node(stepping.path, stepping.guarded(stepping.select))
        self._node(stepping.next_label, stepping.next)
        return stepping

    def _loop(self, stepping: LoopStepping, step: LoopNode) -> Stepping:
        stepping.first = self._sequence(step.steps, stepping.path, stepping.turn_label)
        self._node(stepping.turn_label, stepping.guarded(stepping.turn))
        if step.after_each is not None:
            self._node(stepping.each_label, stepping.each)
        return stepping

    def _parallel(self, stepping: ParallelStepping, step: ParallelNode) -> Stepping:
        for each in step.steps:
            self._planning.compile_branch(each, f"{stepping.path}/{each.name}")
        self._node(stepping.path, stepping.fork)
        return stepping

    def _node(self, name: str, node: object) -> None:
        self._graph.add_node(name, cast("Any", node))
