"""A workflow as JSON: what it consists of, and where, whom and what it asks."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

from app.authoring.agent import Agent
from app.authoring.channel import Channel
from app.authoring.function import name_of
from app.authoring.gates import AskError, AskInput, Choose, Confirm, Gate, Review
from app.authoring.model import ScriptedModel
from app.authoring.model_judge import ModelJudge
from app.authoring.model_router import ModelRouter
from app.authoring.response import (
    Schema,
    action_schema,
    choices_schema,
    value_schema,
    verdict_schema,
)
from app.authoring.shape import adapter_of, schema_of
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
    walk,
)
from app.authoring.tool import Tool
from app.domain.ask import Policy
from app.domain.json import Json
from app.domain.masking import sensitive_paths
from app.domain.pause import PauseKind, PauseLevel


def describe_steps(steps: Sequence[StepNode], within: str) -> list[Json]:
    """Steps as callers read them, each with those in it."""
    return [_describe_step(step, index, within) for index, step in enumerate(steps)]


def _describe_step(step: StepNode, index: int, within: str) -> Json:
    path = f"{within}/{step.name}"
    return {
        "name": step.name,
        "path": path,
        "index": index,
        "type": step.type,
        "description": step.description,
        "output_schema": schema_of(step.output),
        "asks": _asks_of(step),
        "on_error": "ask" if isinstance(step.on_error, AskError) else step.on_error,
        **_own_description(step, path),
    }


def _own_description(step: StepNode, path: str) -> dict[str, Json]:
    match step:
        case FunctionStep() | GraphNode():
            return {}
        case AgentStep(agent=agent):
            return {"agent": agent.name}
        case ConditionNode(then=then, otherwise=otherwise):
            return {
                "then": describe_steps(then, path),
                "otherwise": describe_steps(otherwise, path),
            }
        case RouterNode(choices=choices):
            selection = {"select": _selection(step.select)}
            return selection | {"choices": describe_steps(choices, path)}
        case LoopNode(steps=steps):
            most = {"max_iterations": step.max_iterations}
            return most | {"steps": describe_steps(steps, path)}
        case WorkflowNode(workflow=workflow):
            inner = {"name": workflow.name, "version": workflow.version}
            return {"workflow": inner, "steps": describe_steps(workflow.steps, path)}
        case _:
            return {"steps": describe_steps(step.children, path)}


def _selection(select: object) -> Json:
    match select:
        case Choose():
            return {"by": "person", "multiple": select.multiple}
        case ModelRouter():
            return {
                "by": "model",
                "model": _model_name(select.model),
                "after_decision": select.after_decision,
            }
        case _:
            return {"by": "function"}


# ── Where it may stop ────────────────────────────────────────────────────────────────────────────


def stops_of(steps: Sequence[StepNode], within: str) -> Iterator[Json]:
    """Every place where a run may stop by what is declared; a tool may ask more by itself."""
    for path, step in walk(steps, within):
        level = PauseLevel.EXECUTOR if isinstance(step, GraphNode) else PauseLevel.STEP
        for described in _asks_of(step):
            yield {"path": path, "level": str(level), "tool": None, **described}
        if isinstance(step, AgentStep):
            for tool in step.agent.tools:
                for kind in tool.asked():
                    asked = {"path": path, "level": str(PauseLevel.EXECUTOR), "tool": tool.name}
                    yield asked | _describe_ask(tool, kind)


def _asks_of(step: StepNode) -> list[dict[str, Json]]:
    if isinstance(step, GraphNode):
        return [_describe_interrupt(step)]
    return [_describe_gate(step, gate) for gate in gates_of(step)]


def _describe_interrupt(step: GraphNode) -> dict[str, Json]:
    """Whatever a graph asks: what may be answered, and of which kind it is, its interrupt says."""
    return {
        "kind": str(PauseKind.INTERACTIVE),
        "message": step.asks.message,
        "conditional": True,
        "on_reject": None,
        **_describe_policy(step.asks.policy(cast("Channel", step.asks.channel))),
        "response_schema": {},
    }


def gates_of(step: StepNode) -> list[Gate]:
    """The asks of a step, in the order in which they come."""
    listed: list[object] = [
        *step.before,
        step.select if isinstance(step, RouterNode) else None,
        step.after_each if isinstance(step, LoopNode) else None,
        step.after,
        step.on_error,
    ]
    return [each for each in listed if isinstance(each, Gate)]


def _describe_gate(step: StepNode, gate: Gate) -> dict[str, Json]:
    return {
        "kind": str(gate.kind),
        "message": gate.message,
        "conditional": isinstance(gate, Review) and gate.when is not None,
        "on_reject": gate.on_reject
        if isinstance(gate, Confirm | AskInput | Choose | Review)
        else None,
        **_describe_policy(gate.policy()),
        "response_schema": response_schema_of(step, gate),
    }


def response_schema_of(step: StepNode, gate: Gate) -> Schema:
    """JSON Schema of the decision about an ask of a step."""
    match gate:
        case AskInput():
            return value_schema(schema_of(adapter_of(gate.model)))
        case Choose():
            names = [each.name for each in step.children]
            return value_schema(choices_schema(names, multiple=gate.multiple))
        case Review(quorum=1):
            return verdict_schema(override_output=schema_of(step.output))
        case AskError():
            return action_schema(*error_actions(step))
        case _:
            return verdict_schema()


def error_actions(step: StepNode, attempts: int = 1) -> list[str]:
    """What may be done about a step that failed for the `attempts`th time."""
    ask = step.on_error
    retries = ask.max_retries if isinstance(ask, AskError) else 0
    possible = {"retry": attempts <= retries, "skip": step.skippable, "fail": True}
    return [action for action, is_possible in possible.items() if is_possible]


# ── Agents and tools ─────────────────────────────────────────────────────────────────────────────


def describe_agent(agent: Agent) -> Json:
    """One agent, without its prompt."""
    return {
        "name": agent.name,
        "description": agent.description,
        "model": _model_name(agent.model),
        "limits": _describe_limits(agent),
        "guardrails": {
            "before_tool_call": _names(agent.before_tool_call),
            "on_decision": _names(agent.on_decision),
            "after_tool_call": _names(agent.after_tool_call),
            "before_answer": _names(agent.before_answer),
            "judges": [
                each.name if isinstance(each, ModelJudge) else name_of(each)
                for each in agent.judges
            ],
        },
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


def _describe_limits(agent: Agent) -> Json:
    limits = agent.limits
    described: dict[str, Json] = {
        "model_calls": _limit(limits.most_model_calls, limits.model_calls),
        "tool_calls": _limit(limits.most_tool_calls, limits.tool_calls),
    }
    if agent.judges:
        described["judge_retries"] = _limit(limits.most_judge_retries, limits.judge_retries)
    if limits.time is not None:
        described["time_seconds"] = _limit(_seconds(limits.time), limits.time)
    return described


def _limit(limit: Json, said: object) -> Json:
    return {"limit": limit, "default": said is None}


def describe_budget(budget: Decimal | None) -> Json:
    """What a run may cost, if anything is said about it."""
    return {} if budget is None else {"run_cost": _limit(str(budget), budget)}


def _names(functions: Sequence[Callable[..., Any]]) -> list[str]:
    return [name_of(each) for each in functions]


def describe_ends(workflow: BuiltWorkflow) -> dict[str, Json]:
    """What looks at the input and at the output of a workflow."""
    guards = workflow.guards
    return {"input": _names(guards.input), "output": _names(guards.output)}


def describe_tool(tool: Tool[..., Any]) -> Json:
    """One tool, with whom it asks and under which terms."""
    return {
        "name": tool.name,
        "description": tool.description,
        "arguments_schema": tool.arguments_schema,
        "filled_by_a_person": list(tool.filled_in),
        "result_schema": tool.result_schema,
        "sensitive_paths": sensitive_paths(tool.arguments_schema),
        "asks": [_describe_ask(tool, kind) for kind in tool.asked()],
        "timeout_seconds": _seconds(tool.timeout),
        "retries": tool.retries,
        "on_crash": tool.on_crash,
        "before_call": _names(tool.before_call),
        "after_call": _names(tool.after_call),
    }


def _describe_ask(tool: Tool[..., Any], kind: PauseKind) -> dict[str, Json]:
    gate, ask = tool.gate, tool.ask_of(kind)
    return {
        "kind": str(kind),
        "message": ask.message if ask else None,
        "conditional": kind is PauseKind.APPROVAL and gate is not None and gate.when is not None,
        "on_reject": None,
        **_describe_policy(tool.policy_for(kind)),
        "response_schema": _response_schema_of_tool(tool, kind),
    }


def _response_schema_of_tool(tool: Tool[..., Any], kind: PauseKind) -> Schema:
    match kind:
        case PauseKind.EXTERNAL_RESULT:
            return value_schema(tool.result_schema)
        case PauseKind.INPUT:
            return value_schema(tool.fill_schema)
        case _ if tool.policy_for(kind).quorum > 1:
            return verdict_schema()
        case _:
            return verdict_schema(override_arguments=tool.offered_schema)


def _describe_policy(policy: Policy) -> dict[str, Json]:
    return {
        "channel": policy.channel,
        "approvers": list(policy.approvers),
        "quorum": policy.quorum,
        "allow_requester": policy.allow_requester,
        "expires_after_seconds": _seconds(policy.expires_after),
        "on_expire": policy.on_expire,
        "remind_before_seconds": _seconds(policy.remind_before),
        "escalate_to": policy.escalate_to,
        "escalate_before_seconds": _seconds(policy.escalate_before),
    }


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
