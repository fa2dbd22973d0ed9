"""Graphs that were built with LangGraph for themselves, served as they are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol, cast, get_type_hints, runtime_checkable

from pydantic import AfterValidator, WithJsonSchema

from app.authoring.asks import Approval
from app.authoring.json_schema import check
from app.authoring.shape import Schema, adapter_of, schema_of, why_not_json
from app.domain.json import Json

STEP = "graph"
"""The name of the only step of a workflow that is a graph."""

MESSAGES = "messages"
"""Where graphs keep a conversation."""


@runtime_checkable
class CompiledGraph(Protocol):
    """What a compiled graph of LangGraph is known by; only the engine runs it."""

    nodes: Mapping[str, Any]
    interrupt_before_nodes: Any
    interrupt_after_nodes: Any

    def get_input_jsonschema(self) -> Schema: ...
    def get_output_jsonschema(self) -> Schema: ...
    def get_subgraphs(self, *, recurse: bool = False) -> Iterable[tuple[str, "CompiledGraph"]]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ExistingGraph:
    """A graph with whom it asks. `input` and `output` are types, or None for what the graph says."""

    graph: object
    asks: Approval
    input: Any = None
    output: Any = None

    name = STEP

    @cached_property
    def takes(self) -> Any:
        """The type of what a run is given."""
        return self._own("get_input_jsonschema", _ASKED) if self.input is None else self.input

    @cached_property
    def gives(self) -> Any:
        """The type of what a run gives."""
        return self._own("get_output_jsonschema", _SAID) if self.output is None else self.output

    def _own(self, schema: str, messages: Schema) -> Any:
        if not isinstance(self.graph, CompiledGraph):
            return Any
        return _json_of(_schema_of(self.graph, schema, messages))

    def mistakes(self) -> Iterator[str]:
        """What is wrong with it, taken by itself."""
        if not isinstance(self.graph, CompiledGraph):
            what = "compile it first" if hasattr(self.graph, "compile") else "it is none"
            yield f"graph= must be a compiled graph of LangGraph: {what}"
            return
        if self.graph.interrupt_before_nodes or self.graph.interrupt_after_nodes:
            yield (
                "the graph is compiled with interrupt_before= or interrupt_after=, which ask nobody "
                "anything: call interrupt() in the node"
            )
        yield from _wrong_asks(self.asks)
        has_messages = MESSAGES in _schema_of(self.graph, "get_input_jsonschema", {})["properties"]
        if str in (self.input, self.output) and not has_messages:
            yield "a text is put among the graph's messages, and it has none: name a model instead"


def _wrong_asks(asks: Approval) -> Iterator[str]:
    yield from (f"asks: {wrong}" for wrong in asks.mistakes())
    if asks.when is not None:
        yield "asks: when= could never matter: the graph says itself when it asks"


def shape_of(graph: CompiledGraph) -> dict[str, Json]:
    """The names of its nodes and of those of the graphs in it: what a paused run depends on."""
    inner = dict(graph.get_subgraphs(recurse=True))
    return {
        "nodes": sorted(graph.nodes),
        "graphs": {name: sorted(each.nodes) for name, each in sorted(inner.items())},
    }


# ── What callers send and read ───────────────────────────────────────────────────────────────────

_ASKED: Schema = {
    "description": "The conversation: objects with a role, or LangChain's type, and a content.",
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["content"],
        "anyOf": [{"required": ["role"]}, {"required": ["type"]}],
        "properties": {"role": {"type": "string"}, "type": {"type": "string"}},
    },
}
_SAID: Schema = {
    "description": "The conversation, each message as LangChain writes it.",
    "type": "array",
    "items": {"type": "object"},
}


def _schema_of(graph: CompiledGraph, method: str, messages: Schema) -> Schema:
    """The graph's own schema, with messages as callers write them; open where it cannot be told."""
    try:
        found: Schema = getattr(graph, method)()
    except Exception:  # noqa: BLE001 - a state may have types of which pydantic knows no schema
        found = {"properties": _fields_of(graph, method)}
    properties: Schema = dict(found.get("properties", {}))
    if MESSAGES in properties:
        properties[MESSAGES] = messages
    inlined = {
        name: _inlined(each, {**found.get("$defs", {}), **each.get("$defs", {})}, ())
        for name, each in properties.items()
    }
    required = [each for each in found.get("required", ()) if each in properties]
    return {"type": "object", "properties": inlined, "required": required}


def _fields_of(graph: CompiledGraph, method: str) -> Schema:
    """The fields of a state of which pydantic knows no schema as a whole, each by itself."""
    which = "input_schema" if method == "get_input_jsonschema" else "output_schema"
    state: Any = getattr(getattr(graph, "builder", None), which, None)
    try:
        hints = get_type_hints(state)
    except Exception:  # noqa: BLE001 - it may be of any class, and its annotations name anything
        return {}
    return {name: _field(hint) for name, hint in hints.items()}


def _field(hint: Any) -> Schema:
    return {} if why_not_json(hint) else schema_of(adapter_of(hint))


def _inlined(schema: Json, definitions: Schema, above: Sequence[str]) -> Json:
    """The schema with its definitions in their places; open where one holds itself."""
    match schema:
        case {"$ref": str() as reference}:
            name = reference.rpartition("/")[2]
            if name in above or name not in definitions:
                return {}
            return _inlined(definitions[name], definitions, (*above, name))
        case dict():
            members = cast("Schema", schema)
            return {key: _inlined(each, definitions, above) for key, each in members.items()}
        case list():
            return [_inlined(each, definitions, above) for each in cast("list[Json]", schema)]
        case _:
            return schema


def _json_of(schema: Schema) -> Any:
    def fits(value: dict[str, Any]) -> dict[str, Any]:
        check(value, schema)
        return value

    return Annotated[dict[str, Any], AfterValidator(fits), WithJsonSchema(schema)]
