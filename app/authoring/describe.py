"""A workflow as JSON: what it consists of, whom it asks, and what its shape is."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, cast

from app.authoring.agent import Agent
from app.authoring.limits import Limits
from app.authoring.model import ScriptedModel
from app.authoring.shape import Schema, schema_of
from app.authoring.step import AgentStep, FunctionStep, StepNode
from app.authoring.tool import Tool
from app.domain.json import Json, sha256
from app.domain.masking import sensitive_paths
from app.domain.pause import PauseKind


def fingerprint_of(name: str, steps: Sequence[StepNode]) -> str:
    """SHA-256 (hex) over what a paused run depends on: steps, agents, tools, arguments, asks.

    Descriptions, prompts, models and the version are not part of it: with those changed, a run goes
    on.
    """
    return sha256({"name": name, "steps": [_shape_of_step(step) for step in steps]})


def _shape_of_step(step: StepNode) -> Json:
    match step:
        case FunctionStep():
            return {"function": step.name}
        case AgentStep():
            tools = sorted(step.agent.tools, key=lambda tool: tool.name)
            return {
                "agent": step.agent.name,
                "step": step.name,
                "tools": [_shape_of_tool(tool) for tool in tools],
            }
        case _:
            return {"type": step.type, "step": step.name}


def _shape_of_tool(tool: Tool[..., Any]) -> Json:
    return {
        "name": tool.name,
        "arguments": _without_words(tool.arguments_schema),
        "asks": [str(kind) for kind in tool.asked()],
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


def describe_step(workflow: str, index: int, step: StepNode) -> Json:
    """One step as callers read it."""
    shown = {"name": step.name, "path": f"{workflow}/{step.name}", "index": index}
    match step:
        case FunctionStep():
            return shown | {"type": "function", "output_schema": schema_of(step.output)}
        case AgentStep():
            agent = {"type": "agent", "agent": step.agent.name}
            return shown | agent | {"output_schema": schema_of(step.output)}
        case _:
            return shown | {"type": step.type, "output_schema": schema_of(step.output)}


def describe_agent(agent: Agent) -> Json:
    """One agent, without its prompt."""
    return {
        "name": agent.name,
        "description": agent.description,
        "model": _model_name(agent.model),
        "limits": _describe_limits(agent.limits),
        "tools": [describe_tool(tool) for tool in agent.tools],
    }


def _model_name(model: object) -> str:
    # Not a model's own text: it may show the key it was made with.
    match model:
        case str():
            return model
        case ScriptedModel():
            return "scripted"
        case _:
            return type(model).__name__


def _describe_limits(limits: Limits) -> Json:
    return {
        "model_calls": {"limit": limits.most_model_calls, "default": limits.model_calls is None},
        "tool_calls": {"limit": limits.most_tool_calls, "default": limits.tool_calls is None},
    }


def describe_tool(tool: Tool[..., Any]) -> Json:
    """One tool, with whom it asks and under which terms."""
    return {
        "name": tool.name,
        "description": tool.description,
        "arguments_schema": tool.arguments_schema,
        "result_schema": tool.result_schema,
        "sensitive_paths": sensitive_paths(tool.arguments_schema),
        "asks": [_describe_ask(tool, kind) for kind in tool.asked()],
        "timeout_seconds": _seconds(tool.timeout),
        "retries": tool.retries,
        "on_crash": tool.on_crash,
    }


def _describe_ask(tool: Tool[..., Any], kind: PauseKind) -> Json:
    policy = tool.policy_for(kind)
    return {
        "kind": str(kind),
        "channel": policy.channel,
        "conditional": kind is PauseKind.APPROVAL
        and tool.gate is not None
        and tool.gate.when is not None,
        "approvers": list(policy.approvers),
        "quorum": policy.quorum,
        "allow_requester": policy.allow_requester,
        "expires_after_seconds": _seconds(policy.expires_after),
        "on_expire": policy.on_expire,
        "escalate_to": policy.escalate_to,
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def mermaid(steps: Sequence[StepNode]) -> str:
    """The steps as a Mermaid flowchart, with every tool that asks somebody."""
    names = [f's{index}["{step.name}"]' for index, step in enumerate(steps)]
    flow = " --> ".join(["input([input])", *names, "output([output])"])
    asks = [
        f's{index} -.-> s{index}t{at}{{{{"{tool.name}: {_asks(tool)}"}}}}'
        for index, step in enumerate(steps)
        for at, tool in enumerate(_asking_tools(step))
    ]
    return "\n".join(["flowchart TD", f"  {flow}", *(f"  {line}" for line in asks)])


def _asking_tools(step: StepNode) -> Iterable[Tool[..., Any]]:
    return (
        [tool for tool in step.agent.tools if tool.asked()] if isinstance(step, AgentStep) else []
    )


def _asks(tool: Tool[..., Any]) -> str:
    return ", ".join(f"{kind} by {tool.policy_for(kind).channel}" for kind in tool.asked())
