"""Turns steps that were listed into the nodes of a workflow, typed from one to the next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from app.authoring.agent import Agent
from app.authoring.asks import Approval
from app.authoring.channel import Channel
from app.authoring.declared import Condition, Loop, Parallel, Router, Steps
from app.authoring.draft import TEXT, Draft
from app.authoring.existing import CompiledGraph, ExistingGraph
from app.authoring.fitting import (
    Wishes,
    after_branch,
    behind_each,
    branch_may_be_left_out,
    given_inside,
    handed_on,
    may_be_left_out,
    output_of,
)
from app.authoring.gates import AskError, Choose, Gate
from app.authoring.look import Look, LookDraft
from app.authoring.model_router import ModelRouter
from app.authoring.shape import adapter_of
from app.authoring.step import (
    AgentStep,
    BuiltWorkflow,
    ConditionNode,
    FunctionStep,
    GraphNode,
    LoopNode,
    ParallelNode,
    RouterNode,
    StepNode,
    StepsNode,
    WorkflowNode,
)
from app.authoring.text import text_field

G = TypeVar("G", bound=Gate | Approval)


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Builds the nodes of steps with which nothing is wrong; an ask of nobody asks `channel`."""

    channel: Channel | None

    def sequence(self, steps: Sequence[Draft], given: Any, after: Wishes) -> tuple[StepNode, ...]:
        """The nodes of steps that follow each other, the first of which gets a `given`."""
        nodes: list[StepNode] = []
        for step, behind in zip(steps, behind_each(steps, after), strict=True):
            skippable = may_be_left_out(given, behind)
            nodes.append(self._node(step, given, behind, skippable=skippable))
            given = handed_on(step, output_of(step, given, behind), given, behind)
        return tuple(nodes)

    def _node(self, step: Draft, given: Any, after: Wishes, *, skippable: bool) -> StepNode:
        output = output_of(step, given, after)
        shared: dict[str, Any] = {
            "name": step.name,
            "description": step.description,
            "output": adapter_of(output),
            "before": tuple(self._asking(each) for each in step.before),
            "after": None if step.after is None else self._asking(step.after),
            "skippable": skippable,
        }
        match step.run:
            case Agent() as agent:
                field = text_field(output) if step.gives is TEXT else None
                shared |= {"on_error": self._on_error(step), "input": adapter_of(given)}
                return AgentStep(agent=agent, field=field, **shared)
            case ExistingGraph(graph=graph, asks=asks):
                asks, graph = self._asking(asks), cast("CompiledGraph", graph)
                return GraphNode(graph=graph, asks=asks, input=adapter_of(given), **shared)
            case BuiltWorkflow() as workflow:
                return WorkflowNode(workflow=workflow, input=workflow.input, **shared)
            case Steps() | Condition() | Router() | Loop() | Parallel():
                shared["input"] = adapter_of(given)
                return self._container(step, given, after, shared)
            case fn:
                shared |= {"on_error": self._on_error(step), "input": adapter_of(step.takes)}
                return FunctionStep(fn=fn, **shared)

    def _container(
        self, step: Draft, given: Any, after: Wishes, shared: dict[str, Any]
    ) -> StepNode:
        look = None if step.look is None else _look(step.look, given)
        match step.run:
            case Condition():
                then, otherwise = self._branches(step, given, after)
                return ConditionNode(when=look, then=then, otherwise=otherwise, **shared)
            case Router(select=select):
                choices = self._only(step, given_inside(step, given, after), after)
                return RouterNode(choices=choices, select=self._select(select, look), **shared)
            case Loop(max_iterations=most):
                (steps,) = self._branches(step, given_inside(step, given, after), after)
                until = (
                    None if step.look is None else _look(step.look, output_of(step, given, after))
                )
                review = None if step.after_each is None else self._asking(step.after_each)
                return LoopNode(
                    steps=steps, until=until, max_iterations=most, after_each=review, **shared
                )
            case Parallel():
                return ParallelNode(steps=self._side_by_side(step, given, after), **shared)
            case _:
                (steps,) = self._branches(step, given, after)
                return StepsNode(steps=steps, **shared)

    def _branches(self, step: Draft, given: Any, after: Wishes) -> list[tuple[StepNode, ...]]:
        return [
            self.sequence(branch, given, after_branch(step, branch, after))
            for branch in step.branches
        ]

    def _only(self, step: Draft, given: Any, after: Wishes) -> tuple[StepNode, ...]:
        return tuple(node for branch in self._branches(step, given, after) for node in branch)

    def _side_by_side(self, step: Draft, given: Any, after: Wishes) -> tuple[StepNode, ...]:
        return tuple(
            self._node(
                branch[0],
                given,
                after_branch(step, branch, after),
                skippable=branch_may_be_left_out(branch[0], after),
            )
            for branch in step.branches
        )

    def _select(self, select: object, look: Look[Any] | None) -> Look[Any] | Choose | ModelRouter:
        match select:
            case Choose():
                return self._asking(select)
            case ModelRouter():
                return select
            case _ if look is not None:
                return look
            case _:
                raise AssertionError("a router without a way to select was not refused")

    def _on_error(self, step: Draft) -> object:
        return self._asking(step.on_error) if isinstance(step.on_error, AskError) else step.on_error

    def _asking(self, ask: G) -> G:
        return replace(ask, channel=ask.channel or self.channel)


def _look(look: LookDraft, given: Any) -> Look[Any]:
    return Look(fn=look.fn, input=adapter_of(given if look.takes is Any else look.takes))
