"""What LangGraph's clients send, as pydantic models.

What would change what happens, and cannot be done here, is refused, each with its reason; what only says what is so
here anyway is taken.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import core_schema

from app.api.ids import is_id
from app.api.schemas import Id, Metadata, Sent
from app.domain.json import Json

MODES: Final = ("values", "updates", "messages-tuple", "custom")
"""The modes of streaming that can be had."""

MOST_ANSWERS: Final = 100
_PAUSE: Final = "pau_"


@dataclass(frozen=True)
class Refused:
    """Marks a field that may be there as long as it says nothing, and why it is not taken."""

    why: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "description": f"Not taken: {self.why}."}

    def _check(self, value: Json) -> Json:
        if value not in (None, False, 0, {}, []):
            raise ValueError(f"is not taken: {self.why}")
        return value


def modes_of(said: object) -> list[str]:
    """The modes that are meant; `values` where nothing is said. Raises `ValueError`."""
    listed = cast("list[object]", said) if isinstance(said, list) else [said]
    if any(mode not in MODES for mode in listed):
        raise ValueError(f"supported are: {', '.join(MODES)}")
    return list(dict.fromkeys(str(mode) for mode in listed)) or ["values"]


def _modes_asked(said: list[str]) -> list[str]:
    """The same of a query, where an empty text says nothing."""
    return modes_of([mode for mode in said if mode])


_ONE: Final = {"type": "string", "enum": list(MODES)}
Modes: TypeAlias = Annotated[
    list[str],
    BeforeValidator(modes_of),
    WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE}]}),
]

ModesAsked: TypeAlias = Annotated[
    list[str],
    BeforeValidator(_modes_asked),
    WithJsonSchema({"type": "array", "items": _ONE}),
]


def _by_id(sent: object) -> object:
    resume = cast("dict[str, Json]", sent) if isinstance(sent, dict) else {"": None}
    if not all(_names_pause(key) for key in resume):
        raise ValueError(
            'must map ids of interrupts to answers, as {"pau_…": …}: an answer without the id could reach another '
            "question than it was meant for"
        )
    if not 1 <= len(resume) <= MOST_ANSWERS:
        raise ValueError(f"must have 1 to {MOST_ANSWERS} answers")
    return resume


def _names_pause(key: str) -> bool:
    return key.startswith(_PAUSE) and is_id(key)


class LangGraphCommand(Sent):
    """What goes on with a run that waits."""

    resume: Annotated[
        dict[str, Json],
        BeforeValidator(_by_id),
        Field(
            description="An answer for each interrupt that is meant, by its id; never an answer alone.",
            examples=[{"pau_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c": {"approved": True}}],
        ),
    ]
    update: Annotated[Json, Refused("a state cannot be changed from outside")] = None
    goto: Annotated[Json, Refused("a run goes its own way")] = None


class LangGraphNewRun(Sent):
    """A run to be started, or, with a command, one to go on."""

    assistant_id: str = Field(
        max_length=128, description="The name of a workflow, or its id as an assistant."
    )
    input: Json = Field(default=None, description="What the workflow takes.")
    command: LangGraphCommand | None = None
    metadata: Metadata | None = Field(
        default=None,
        description="Kept with a new run. With a command its `by` says who decides, where the answer does not.",
    )
    stream_mode: Modes = Field(default=["values"], validate_default=True)
    if_not_exists: Literal["create", "reject"] = "reject"
    multitask_strategy: Literal["reject", "interrupt"] = Field(
        default="reject",
        description="Whether a thread whose run is paused is refused (409), or that run ended for this one.",
    )
    on_disconnect: Literal["continue"] = "continue"
    on_completion: Literal["keep"] = "keep"
    durability: Literal["sync", "async", "exit"] | None = Field(
        default=None, description="It is `sync`, always."
    )
    checkpoint_during: bool | None = Field(default=None, description="It is, always.")
    strict_resume: bool | None = Field(default=None, description="It is, always.")
    stream_resumable: bool = Field(default=False, description="It is, always.")
    stream_subgraphs: bool = Field(default=False, description="There are none to be seen.")
    config: Annotated[Json, Refused("a workflow is not configured by its callers")] = None
    context: Annotated[Json, Refused("a workflow takes an input and no context")] = None
    checkpoint: Annotated[
        Json, Refused("a run begins with its input, and not in the middle of another")
    ] = None
    checkpoint_id: Annotated[
        Json, Refused("a run begins with its input, and not in the middle of another")
    ] = None
    interrupt_before: Annotated[Json, Refused("a run stops where its workflow asks")] = None
    interrupt_after: Annotated[Json, Refused("a run stops where its workflow asks")] = None
    webhook: Annotated[
        Json, Refused("POST /threads/{thread_id}/runs takes a callback, whose notices are signed")
    ] = None
    after_seconds: Annotated[Json, Refused("a run begins at once")] = None
    langsmith_tracer: Annotated[Json, Refused("where traces go is set up with the service")] = None
    feedback_keys: Annotated[Json, Refused("there is no feedback of LangSmith")] = None


class LangGraphNewThread(Sent):
    """A thread to be made."""

    thread_id: Id | None = Field(default=None, description="Without one it gets a new one.")
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: Annotated[Json, Refused("a thread has the runs that were made in it")] = None
    ttl: Annotated[Json, Refused("a thread stays until it is deleted")] = None


class LangGraphThreadPatch(Sent):
    """What is added to a thread's metadata."""

    metadata: Metadata
    ttl: Annotated[Json, Refused("a thread stays until it is deleted")] = None


_Limit = Annotated[int, Field(ge=1, le=1000)]
_Offset = Annotated[int, Field(ge=0, le=1_000_000)]
ThreadStatus: TypeAlias = Literal["idle", "busy", "interrupted", "error"]


class LangGraphThreadCount(Sent):
    """Which threads are counted."""

    metadata: Metadata | None = None
    status: ThreadStatus | None = None
    values: Annotated[Json, Refused("threads are not found by their state")] = None


class LangGraphThreadSearch(LangGraphThreadCount):
    """Which threads are looked for."""

    ids: list[str] | None = Field(default=None, max_length=1000)
    limit: _Limit = 10
    offset: _Offset = 0
    sort_by: Literal["created_at", "updated_at", "state_updated_at", "thread_id"] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: Annotated[Json, Refused("what is in a state is read from the state")] = None


class LangGraphAssistantCount(Sent):
    """Which assistants are counted."""

    metadata: Metadata | None = None
    graph_id: str | None = None
    name: str | None = Field(default=None, description="A part of the name, in any case.")


class LangGraphAssistantSearch(LangGraphAssistantCount):
    """Which assistants are looked for."""

    limit: _Limit = 10
    offset: _Offset = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"
    select: list[str] | None = None


class LangGraphCheckpoint(Sent):
    """A state: that of the run whose id it has."""

    thread_id: str | None = None
    checkpoint_id: str | None = None
    checkpoint_ns: Literal[""] = ""
    checkpoint_map: Json = None


class LangGraphStateRequest(Sent):
    """Which state is wanted."""

    checkpoint: LangGraphCheckpoint
    subgraphs: bool = Field(default=False, description="There are none to be seen.")
    select: list[str] | None = None


class LangGraphHistoryRequest(Sent):
    """Which states are wanted, newest first: one for each run."""

    limit: _Limit = 10
    before: str | LangGraphCheckpoint | None = None
    metadata: Annotated[Json, Refused("states are not found by their metadata")] = None
    checkpoint: Annotated[Json, Refused("there are no states of subgraphs to be seen")] = None
    select: list[str] | None = None
