"""What a graph asks by `interrupt()`, as questions for people, and what they answer, as the graph expects it.

An interrupt asks one thing, or several: LangChain's middleware for people in the loop asks about all calls of a
turn at once, or about each by itself, and agent-inbox asks in lists. Each is a part, and a pause of its own;
the graph goes on when all parts of one interrupt are answered. Anything else that is asked is one question.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from langgraph.types import Interrupt
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from app.authoring.response import value_schema, verdict_schema
from app.domain.json import Json
from app.domain.pause import Answer, PauseKind
from app.engine.served import Schema

APPROVE, EDIT, REJECT, RESPOND = "approve", "edit", "reject", "respond"
Said: TypeAlias = Callable[["Part", Answer], Json]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that is asked. `may` are the decisions that the graph takes, by LangChain's names.

    About a call of a `tool` an approval decides, unless the graph takes nothing but a result in its place.
    `value` is the JSON Schema of an answer that is a value. `said` makes of an answer what the graph reads.
    """

    message: str
    may: frozenset[str] = frozenset({RESPOND})
    tool: str | None = None
    call_id: str | None = None
    arguments: Json = None
    arguments_schema: Schema
    value: Schema
    said: Said
    index: int = 0
    of: int = 1

    @property
    def kind(self) -> PauseKind:
        if self.tool is None:
            return PauseKind.INTERACTIVE
        return PauseKind.APPROVAL if self.may - {RESPOND} else PauseKind.EXTERNAL_RESULT

    @property
    def allowed(self) -> list[str]:
        if self.kind is not PauseKind.APPROVAL:
            return ["value"]
        return ["verdict", *(["override_arguments"] if EDIT in self.may else [])]

    def response_schema(self, *, voted: bool) -> Schema:
        """JSON Schema of the decision; what several vote on, nobody changes."""
        if self.kind is not PauseKind.APPROVAL:
            schema = value_schema(self.value)
            del schema["properties"]["approved"]
            return schema | {"oneOf": [{"required": ["value"]}]}
        edits = EDIT in self.may and not voted
        schema = verdict_schema(**({"override_arguments": self.arguments_schema} if edits else {}))
        verdicts = [verdict for verdict in (True, False) if self.takes(approved=verdict)]
        schema["properties"]["approved"] = {"type": "boolean", "enum": verdicts}
        return schema

    def takes(self, *, approved: bool) -> bool:
        """Whether the graph takes such a verdict."""
        return bool(self.may & ({APPROVE, EDIT} if approved else {REJECT}))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An interrupt: its parts, and how what is said to them becomes what `interrupt()` returns."""

    id: str
    parts: tuple[Part, ...]
    joined: Callable[[list[Json]], Json] = lambda said: said[0]

    def keys(self) -> list[str]:
        """What the parts' answers are known by."""
        if len(self.parts) == 1:
            return [self.id]
        return [f"{self.id}/{part.index}" for part in self.parts]

    def answered(self, answers: Mapping[str, Answer]) -> Json | None:
        """A list with what `interrupt()` returns; None while a part has no answer."""
        found = [answers.get(key) for key in self.keys()]
        said = [part.said(part, each) for part, each in zip(self.parts, found) if each]  # noqa: B905
        return [self.joined(said)] if len(said) == len(self.parts) else None


def asked_by(interrupt: Interrupt[Any]) -> Asked:
    """Reads an interrupt, whatever form it has."""
    schema = cast("Schema", interrupt.response_schema or {})
    for form, read in (
        (_BATCH, _batched),
        (_CALL, _per_call),
        (_INBOX, _inbox),
        (_INBOXES, _inboxes),
    ):
        if form.fits(interrupt.value):
            return read(interrupt.id, interrupt.value, schema)
    return Asked(id=interrupt.id, parts=(_question(interrupt.value, schema),))


# ── LangChain's middleware ───────────────────────────────────────────────────────────────────────


class _Form:
    """A form that an interrupt's value may have."""

    def __init__(self, type_: Any) -> None:
        self._adapter = TypeAdapter[Any](type_)

    def fits(self, value: Any) -> bool:
        try:
            self._adapter.validate_python(value)
        except ValueError:
            return False
        return True


class _Request(TypedDict):
    name: str
    args: dict[str, Any]


class _Config(TypedDict):
    action_name: str
    allowed_decisions: list[str]


class _Batch(TypedDict):
    action_requests: list[_Request]
    review_configs: list[_Config]


def _batched(id: str, value: Any, _: Schema) -> Asked:
    requests: list[Any] = value["action_requests"]
    configs = {each["action_name"]: each for each in value["review_configs"]}
    parts = [
        _call(
            request,
            may=configs.get(request["name"], {}).get("allowed_decisions", [APPROVE, REJECT]),
            index=index,
            of=len(requests),
        )
        for index, request in enumerate(requests)
    ]
    return Asked(id=id, parts=tuple(parts), joined=lambda said: {"decisions": said})


class _Call(TypedDict):
    type: str
    tool_call_id: str
    name: str
    args: dict[str, Any]


def _per_call(id: str, value: Any, schema: Schema) -> Asked:
    branches = _branches(schema)
    edited = branches.get(EDIT, {}).get("properties", {}).get("edited_action", {})
    arguments = _at(edited, schema).get("properties", {}).get("args", {"type": "object"})
    may = list(branches) or [APPROVE, EDIT, REJECT]
    whole = {**_at(arguments, schema), **({"$defs": schema["$defs"]} if "$defs" in schema else {})}
    return Asked(id=id, parts=(_call(value, may=may, arguments_schema=whole),))


def _branches(schema: Schema) -> dict[str, Schema]:
    """The decisions that a schema has a branch for, by their type."""
    listed = [_at(each, schema) for each in schema.get("oneOf", [schema])]
    types = [(each.get("properties", {}).get("type", {}).get("const"), each) for each in listed]
    return {name: each for name, each in types if name}


def _at(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    return root["$defs"][reference.rpartition("/")[2]] if reference else schema


def _call(
    request: Any,
    *,
    may: Sequence[str],
    arguments_schema: Schema | None = None,
    index: int = 0,
    of: int = 1,
) -> Part:
    return Part(
        message=request.get("description") or f"May {request['name']} be called?",
        may=frozenset(may),
        tool=request["name"],
        call_id=request.get("tool_call_id"),
        arguments=request["args"],
        arguments_schema=arguments_schema or {"type": "object"},
        value={"type": "string"},
        said=_decision,
        index=index,
        of=of,
    )


def _decision(part: Part, answer: Answer) -> Json:
    if answer.shape == "value":
        return {"type": RESPOND, "message": answer.value}
    if not answer.approved:
        return {"type": REJECT, **({"message": answer.feedback} if answer.feedback else {})}
    if answer.arguments is not None:
        return {"type": EDIT, "edited_action": {"name": part.tool, "args": answer.arguments}}
    return {"type": APPROVE}


# ── Agent-inbox ──────────────────────────────────────────────────────────────────────────────────


class _InboxAction(TypedDict):
    action: str
    args: dict[str, Any]


class _InboxConfig(TypedDict):
    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class _InboxRequest(TypedDict):
    action_request: _InboxAction
    config: _InboxConfig


def _inbox(id: str, value: Any, _: Schema) -> Asked:
    return Asked(id=id, parts=(_inbox_part(value),))


def _inboxes(id: str, value: Any, _: Schema) -> Asked:
    parts = [_inbox_part(each, index=index, of=len(value)) for index, each in enumerate(value)]
    return Asked(id=id, parts=tuple(parts), joined=lambda said: said)


def _inbox_part(request: Any, *, index: int = 0, of: int = 1) -> Part:
    action, config = request["action_request"], request["config"]
    may = {
        APPROVE: config["allow_accept"],
        EDIT: config["allow_edit"],
        REJECT: config["allow_ignore"],
        RESPOND: config["allow_respond"],
    }
    return Part(
        message=request.get("description") or f"May {action['action']} be called?",
        may=frozenset(name for name, is_allowed in may.items() if is_allowed),
        tool=action["action"],
        arguments=action["args"],
        arguments_schema={"type": "object"},
        value={"type": "string"},
        said=_inbox_response,
        index=index,
        of=of,
    )


def _inbox_response(part: Part, answer: Answer) -> Json:
    if answer.shape == "value":
        return {"type": "response", "args": answer.value}
    if not answer.approved:
        if answer.feedback and RESPOND in part.may:
            return {"type": "response", "args": answer.feedback}
        return {"type": "ignore", "args": None}
    if answer.arguments is not None:
        return {"type": "edit", "args": {"action": part.tool, "args": answer.arguments}}
    return {"type": "accept", "args": None}


# ── Anything else ────────────────────────────────────────────────────────────────────────────────


def _question(value: Any, schema: Schema) -> Part:
    """One question; its message is the text that was given, or that stands in it, else all of it as JSON."""
    shown = to_jsonable_python(value, fallback=repr)
    return Part(
        message=_message(shown),
        arguments=shown,
        arguments_schema={},
        value=schema,
        said=lambda part, answer: answer.value,
    )


def _message(shown: Json) -> str:
    if isinstance(shown, dict):
        texts = (
            cast("Schema", shown).get(key) for key in ("message", "question", "prompt", "text")
        )
        found = next((each for each in texts if isinstance(each, str) and each.strip()), None)
        return found or "The graph asks a question."
    return shown if isinstance(shown, str) and shown.strip() else "The graph asks a question."


_BATCH, _CALL = _Form(_Batch), _Form(_Call)
_INBOX, _INBOXES = _Form(_InboxRequest), _Form(list[_InboxRequest])
