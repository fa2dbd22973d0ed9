"""The fingerprint of a workflow: what a paused run depends on, and nothing else."""

from typing import Any, cast

from app.authoring.agent import Agent
from app.authoring.existing import shape_of
from app.authoring.gates import AskError, AskInput, Before, Choose
from app.authoring.model_router import ModelRouter
from app.authoring.shape import Schema, adapter_of, schema_of
from app.authoring.step import (
    AgentStep,
    BuiltWorkflow,
    ConditionNode,
    FunctionStep,
    GraphNode,
    LoopNode,
    RouterNode,
    StepNode,
    WorkflowNode,
)
from app.authoring.tool import Tool
from app.domain.json import Json, sha256


def fingerprint_of(workflow: BuiltWorkflow) -> str:
    """SHA-256 (hex) over what a paused run depends on: steps, agents, tools, arguments, asks.

    Descriptions, prompts, models and versions are not part of it: with those changed, a run goes
    on.
    """
    steps = [_shape(step) for step in workflow.steps]
    return sha256({"name": workflow.name, "steps": steps, **_guarded(workflow)})


def _shape(step: StepNode) -> Json:
    return {"type": step.type, "name": step.name, **_own_shape(step), **_asks(step)}


def _own_shape(step: StepNode) -> dict[str, Json]:
    match step:
        case FunctionStep():
            return {}
        case AgentStep(agent=agent):
            return {"agent": agent.name, "tools": _shape_of_tools(agent)}
        case GraphNode(graph=graph):
            return shape_of(graph)
        case ConditionNode():
            return {
                "decides": step.when is not None,
                "then": [_shape(each) for each in step.then],
                "otherwise": [_shape(each) for each in step.otherwise],
            }
        case RouterNode():
            steps = [_shape(each) for each in step.choices]
            return {"select": _selection(step.select), "steps": steps}
        case WorkflowNode(workflow=workflow):
            return {"steps": [_shape(each) for each in step.children], **_guarded(workflow)}
        case _:
            return {"steps": [_shape(each) for each in step.children]}


def _guarded(workflow: BuiltWorkflow) -> dict[str, Json]:
    """Each guarded end of a workflow is a node of its graph."""
    guards = {"input": workflow.guards.input, "output": workflow.guards.output}
    found: list[Json] = [end for end, functions in guards.items() if functions]
    return {"guards": found} if found else {}


def _selection(select: object) -> str:
    match select:
        case Choose():
            return str(select.kind)
        case ModelRouter():
            return "model"
        case _:
            return "function"


def _asks(step: StepNode) -> dict[str, Json]:
    asks = {
        "before": [_shape_of_ask(each) for each in step.before],
        "after": step.after and str(step.after.kind),
        "after_each": str(step.after_each.kind)
        if isinstance(step, LoopNode) and step.after_each
        else None,
        "on_error": str(step.on_error.kind) if isinstance(step.on_error, AskError) else None,
    }
    return {where: shape for where, shape in asks.items() if shape}


def _shape_of_ask(ask: Before) -> Json:
    if not isinstance(ask, AskInput):
        return str(ask.kind)
    return {str(ask.kind): _without_words(schema_of(adapter_of(ask.model)))}


def _shape_of_tools(agent: Agent) -> Json:
    return [_shape_of_tool(each) for each in sorted(agent.tools, key=lambda each: each.name)]


def _shape_of_tool(tool: Tool[..., Any]) -> Json:
    return {
        "name": tool.name,
        "arguments": _without_words(tool.arguments_schema),
        "asks": [str(kind) for kind in tool.asked()],
        "fill": sorted(tool.filled_in),
    }


_WORDS = {"title", "description", "examples", "example", "deprecated"}


def _without_words(schema: Any) -> Json:
    """A JSON Schema without what is only said to people; a property may well be called `title`."""
    if isinstance(schema, list):
        return [_without_words(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Json] = {}
    for key, each in cast("Schema", schema).items():
        if key in {"properties", "patternProperties", "$defs"}:
            kept[key] = {name: _without_words(inner) for name, inner in each.items()}
        elif key in {"default", "const", "enum"}:
            kept[key] = each
        elif key not in _WORDS:
            kept[key] = _without_words(each)
    return kept
