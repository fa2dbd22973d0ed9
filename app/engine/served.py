"""Where an agent stands in its workflow, and its tools, with what is worked out about them once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter

from app.authoring import Agent, Channel, Tool
from app.authoring.shape import load
from app.domain.json import Json
from app.domain.masking import MARK, MASK, mask, secrets_in, sensitive_paths
from app.engine.drive import LineFailed
from app.engine.models import ToolSpec

Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class StepPlace:
    """A step's place in its workflow. `path` names it in everything that is stored."""

    workflow: str
    path: str
    name: str
    index: int
    type: str  # function, agent, steps, condition, router, loop, parallel, workflow
    output: TypeAdapter[Any]
    output_schema: Schema

    def at(self, path: str) -> "StepPlace":
        """The same step where it stands now, in this iteration and this attempt."""
        return self if path == self.path else replace(self, path=path)

    def as_json(self) -> Json:
        return {"name": self.name, "path": self.path, "index": self.index, "type": self.type}


class ServedTool:
    """A tool of an agent, with its schemas at hand, and with the guardrails of both."""

    def __init__(self, tool: Tool[..., Any], agent: Agent | None = None) -> None:
        self.tool = tool
        self.before = (*tool.before_call, *(agent.before_tool_call if agent else ()))
        self.after = (*tool.after_call, *(agent.after_tool_call if agent else ()))
        self.name = tool.name
        self.schema: Schema = tool.arguments_schema
        self.result_schema: Schema = tool.result_schema
        self.sensitive_paths = sensitive_paths(self.schema)
        self.kinds = tool.asked()
        self.spec = ToolSpec(
            name=tool.name, description=tool.description, parameters=tool.offered_schema
        )

    @cached_property
    def override_schema(self) -> Schema:
        """JSON Schema of arguments put in the place of others: sensitive ones may be absent or masked."""
        return cast("Schema", _relaxed(self.tool.offered_schema))

    def read_closed(self, arguments: Json) -> BaseModel:
        """All arguments that a model gives, from somebody who has to name them right."""
        if self.tool.form is not None:
            return self.tool.read_offered(arguments)
        return self.tool.read_arguments(arguments, closed=True)

    def shown(self, arguments: Json) -> Json:
        return mask(arguments, self.schema)

    def secrets(self, arguments: Json) -> frozenset[str]:
        return secrets_in(arguments, self.schema)

    def written_out(self, arguments: Json, read: BaseModel) -> Json:
        """The arguments with defaults and conversions in them, so that what is shown is what runs.

        Where a type does not survive being written (a `SecretStr` does not), they stay as they were given.
        """
        try:
            full = self.tool.dump_arguments(read)
            return full if load(self.tool.arguments, full) == read else arguments
        except Exception:  # noqa: BLE001 - a writer's serializer can raise anything
            return arguments


def _relaxed(schema: Json) -> Json:
    """The schema with `"***"` allowed for sensitive values, and none of them required."""
    match schema:
        case dict():
            members = cast("Schema", schema)
            inner: Schema = {key: _relaxed(each) for key, each in members.items()}
            if members.get(MARK):
                return {"anyOf": [inner, {"const": MASK}], MARK: True}
            required = cast("list[str] | None", members.get("required"))
            if isinstance(required, list):
                properties = cast("Schema", members.get("properties", {}))
                inner["required"] = [
                    name for name in required if MARK not in repr(properties.get(name))
                ]
            return inner
        case list():
            return [_relaxed(each) for each in cast("list[Json]", schema)]
        case _:
            return schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Seat:
    """An agent at its place in a workflow, with its tools and everybody who can be asked."""

    place: StepPlace
    agent: Agent
    tools: Mapping[str, ServedTool]
    channels: Mapping[str, Channel]
    is_unheard: bool = False
    """Whether nobody may hear what its model is writing."""

    @cached_property
    def decides_at_once(self) -> bool:
        """Whether any of the channels may decide before anybody is asked."""
        return any(type(each).decide is not Channel.decide for each in self.channels.values())

    def checks_first(self, tool: ServedTool) -> bool:
        """Whether guardrails may be run before a call is asked about."""
        return bool(tool.before or (self.agent.on_decision and self.decides_at_once))

    def tool(self, name: str) -> ServedTool:
        """The tool of that name. Raises `LineFailed` where a checkpoint names one that is not there."""
        if name not in self.tools:
            message = f"The agent {self.agent.name!r} no longer has the tool {name!r}."
            raise LineFailed("workflow_incompatible", message, step=self.place.path)
        return self.tools[name]
