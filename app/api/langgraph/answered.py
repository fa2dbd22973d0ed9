"""What is answered to LangGraph's clients, as the document says it: their shapes, with what there is of them.

Where `select` asks for some members only, the others are left out; so none of them is required.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, RootModel

from app.api.schemas import Answered, Metadata, Pause
from app.domain.json import Json

Object = dict[str, Json]


class LangGraphInfo(Answered):
    """What this server is and can do."""

    version: str
    strict_resume: bool
    flags: dict[str, bool]


class LangGraphAssistant(Answered):
    """A workflow."""

    assistant_id: str | None = None
    graph_id: str | None = Field(default=None, description="The workflow's name.")
    name: str | None = None
    description: str | None = None
    config: Object | None = None
    context: Object | None = None
    metadata: Metadata | None = Field(default=None, description="`version` and `fingerprint`.")
    version: int | None = None
    created_at: datetime | None = Field(default=None, description="Null: it is not known.")
    updated_at: datetime | None = None


class LangGraphAssistants(RootModel[list[LangGraphAssistant]]):
    """Workflows."""


class LangGraphCount(RootModel[int]):
    """How many there are."""


class LangGraphSchemas(Answered):
    """What a workflow takes and gives."""

    graph_id: str
    input_schema: Json
    output_schema: Json
    state_schema: None = None
    config_schema: None = None
    context_schema: None = None


class LangGraphGraph(Answered):
    """The steps of a workflow, one after the other; what is in them is not drawn."""

    nodes: list[Object]
    edges: list[Object]


class LangGraphValue(Answered):
    """What an interrupt asks, in the form that approval pages for LangGraph read."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    action_requests: list[Object] | None = None
    review_configs: list[Object] | None = None
    signoff: Pause


class LangGraphInterrupt(Answered):
    """An open pause."""

    id: str = Field(description="The pause's.")
    value: LangGraphValue
    response_schema: dict[str, Any] = Field(description="JSON Schema of a decision.")


class LangGraphThread(Answered):
    """A thread, with the state of its newest run."""

    thread_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Metadata | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    config: Object | None = None
    values: Object | None = None
    interrupts: dict[str, list[LangGraphInterrupt]] | None = None


class LangGraphThreads(RootModel[list[LangGraphThread]]):
    """Threads."""


class LangGraphPlace(Answered):
    """Which state it is: that of the run whose id it has."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None
    checkpoint_map: None


class LangGraphTask(Answered):
    """What a state waits for, or failed at."""

    id: str
    name: str
    error: str | None
    interrupts: list[LangGraphInterrupt]
    checkpoint: None
    state: None
    result: None


class LangGraphState(Answered):
    """The state in which a run is, or which it left."""

    values: Object | None = None
    next: list[str] | None = None
    tasks: list[LangGraphTask] | None = None
    interrupts: list[LangGraphInterrupt] | None = None
    metadata: Object | None = None
    created_at: datetime | None = None
    checkpoint: LangGraphPlace | None = None
    parent_checkpoint: None = None


class LangGraphStates(RootModel[list[LangGraphState]]):
    """States, newest first."""


class LangGraphRun(Answered):
    """A run."""

    run_id: str | None = None
    thread_id: str | None = None
    assistant_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    status: Literal["pending", "running", "error", "success", "interrupted"] | None = None
    metadata: Metadata | None = None
    multitask_strategy: Literal["reject"] | None = None
    cancel_reason: str | None = None


class LangGraphRuns(RootModel[list[LangGraphRun]]):
    """Runs, newest first."""


class LangGraphResult(RootModel[Object]):
    """The state that was waited for, with `__interrupt__` where it waits; or `__error__` alone."""


class LangGraphPart(RootModel[Json]):
    """The `data` of a part of a stream; what it is depends on `event`."""
