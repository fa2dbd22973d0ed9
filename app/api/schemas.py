"""What goes in and comes out, as pydantic models.

Requests are read with those at the top, strictly: nothing is coerced, unknown fields are refused. Answers are
written straight from what the use cases give; their models here are what the document says of them, and a test
holds real answers against them.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SkipValidation,
)

from app.api.ids import ID_PATTERN
from app.api.moments import Moment
from app.domain.audit import AuditAction
from app.domain.credentials import looks_secret
from app.domain.delivery import DeliveryStatus
from app.domain.event import EventType
from app.domain.json import Json
from app.domain.pause import PauseKind, PauseLevel, PauseStatus
from app.domain.run import RunStatus
from app.domain.step import StepStatus

Metadata = Annotated[
    dict[str, Json],
    Field(
        description="Anything the caller wants to keep beside it; carried and shown, never interpreted."
    ),
]


def _harmless(text: str) -> str:
    if looks_secret(text):
        raise ValueError("must not have the form of a key or a token")
    return text


Id = Annotated[str, Field(pattern=ID_PATTERN), AfterValidator(_harmless)]


# ── What is sent ─────────────────────────────────────────────────────────────────────────────────────


class Sent(BaseModel):
    """A request's body."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")


class Empty(Sent):
    """Nothing is needed; an empty object may be sent."""


class NewThread(Sent):
    """A conversation to be made."""

    id: Id | None = Field(
        default=None,
        description="An id of the caller's choice; without one the thread gets a new one.",
        examples=["customer-4711"],
    )
    workflow: str | None = Field(
        default=None,
        max_length=64,
        description="The workflow that the thread is for; kept as a note.",
        examples=["errands"],
    )
    metadata: Metadata = {}


class Callback(Sent):
    """An address that is told of the run's events, as Standard Webhooks."""

    url: str = Field(
        description="https, and public unless the service allows its network.",
        examples=["https://example.com/hooks/signoff"],
    )
    secret: str | None = Field(
        default=None,
        description="`whsec_` and base64 of at least 16 bytes; signs the notices. Never shown again.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )


class NewRun(Sent):
    """A run to be started."""

    workflow: str = Field(
        max_length=64, description="The name of a workflow.", examples=["errands"]
    )
    input: Json = Field(
        description="What the workflow takes: see its `input_schema`.",
        examples=[{"text": "Tell my boss that I am late"}],
    )
    metadata: Metadata = {}
    callback: Callback | None = None
    if_not_exists: Literal["reject", "create"] = Field(
        default="reject", description="Whether an unknown thread is refused (404) or made."
    )
    if_paused: Literal["reject", "supersede"] = Field(
        default="reject",
        description="Whether a thread whose run is paused is refused (409), or that run ended for this one.",
    )


class Decider(Sent):
    """What every decision has."""

    by: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Who decides. Required while the service is open; with keys it is the key's principal.",
        examples=["maria"],
    )
    feedback: str | None = Field(
        default=None, max_length=2000, description="A reason. On a rejection the model reads it."
    )


class Verdict(Decider):
    """Yes or no: for `approval`, `confirmation` and `review`."""

    approved: bool
    override_arguments: dict[str, Json] | None = Field(
        default=None,
        description=(
            "With an approval of a call: all its arguments, in the place of those shown. Sensitive ones that are "
            'left out or `"***"` stay as they are.'
        ),
    )
    override_output: Json = Field(
        default=None,
        description="With an approval of a `review`: the output in the place of the one shown.",
    )


class Value(Decider):
    """An answer: for `interactive`, `input`, `external_result` and `route`; declined by `approved: false`."""

    value: Json = Field(description="What the pause's `response_schema` allows.")


class Action(Decider):
    """What to do next: for `error` and `unknown_outcome`."""

    action: Literal["retry", "skip", "fail", "run_again", "use_value"]
    value: Json = Field(default=None, description="With `use_value`: the outcome of the call.")


class Resume(Sent):
    """A decision about one pause."""

    pause_id: str = Field(
        min_length=1,
        max_length=200,
        description="The pause that is decided; required, so that a second click cannot decide the next one.",
        examples=["pau_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"],
    )
    # Read by the one door for decisions, which knows the kind of the pause.
    decision: SkipValidation[Verdict | Value | Action] = Field(
        description="One of three shapes; `allowed` and `response_schema` of the pause say which.",
        examples=[{"approved": True, "by": "maria"}],
    )


class SignIn(Sent):
    """What a browser signs in with."""

    credential: str = Field(
        min_length=1, max_length=16 * 1024, description="An API key, or a JWT of the issuer."
    )


def _as_text(moment: object) -> object:
    if not isinstance(moment, str):
        raise ValueError("must be a time with its offset, as text")
    return moment


class Extension(Sent):
    """Another deadline."""

    expires_at: Annotated[
        Moment,
        Field(strict=False, description="Later than now; it may be earlier than it was."),
        BeforeValidator(_as_text),
    ] = Field(examples=["2026-10-01T12:00:00Z"])


# ── What is answered ─────────────────────────────────────────────────────────────────────────────────


class Answered(BaseModel):
    """A part of an answer; it has these members and no others."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class WrongField(Answered):
    """One wrong field of a request."""

    pointer: str = Field(
        description=(
            "A JSON pointer (RFC 6901) into the body; of a parameter `/path/…`, `/query/…` or `/header/…`."
        ),
        examples=["/decision/approved"],
    )
    message: str


class Problem(BaseModel):
    """Why a request was not done (RFC 9457). Further members are values that the detail speaks of."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    type: str = Field(examples=["about:blank"])
    title: str = Field(description="The status in words.", examples=["Conflict"])
    status: int = Field(examples=[409])
    detail: str = Field(description="What is so, and what to do.")
    code: str = Field(description="The fixed name of the error.", examples=["thread_paused"])
    errors: list[WrongField] | None = Field(
        default=None, description="The wrong fields, where there are any."
    )


class ActiveRun(Answered):
    """The unfinished run of a thread."""

    id: str
    status: Literal["queued", "running", "paused"]


class Thread(Answered):
    """A conversation; at most one of its runs is unfinished."""

    id: str
    workflow: str | None
    metadata: Metadata
    active_run: ActiveRun | None
    created_at: datetime


class Named(Answered):
    """A workflow by name and version."""

    name: str
    version: str


class RunError(Answered):
    """Why a run failed."""

    code: str
    message: str
    step: str | None = Field(default=None, description="The path of the step that failed.")
    details: Json = None


class RunStep(Answered):
    """One step of a run as it went."""

    name: str
    path: str = Field(
        description="Its place: the workflow's name, then those of the steps around it."
    )
    type: str
    status: StepStatus
    output: Json = Field(description="Sensitive values are `***`.")
    attempts: int
    cost: str = Field(
        description="US dollars, as a decimal, spent at this step itself, not at the steps in it.",
        examples=["0.0042"],
    )


class Usage(Answered):
    """What a run has used so far."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost: str = Field(description="US dollars, as a decimal.", examples=["0.0123"])


class PauseStep(Answered):
    """The step that asks."""

    name: str
    path: str
    index: int
    type: str


class Call(Answered):
    """The tool call that is asked about."""

    id: str = Field(description="The service's own id: unique, and the same on every attempt.")
    provider_call_id: str | None = Field(description="What the model's provider calls it.")
    tool: str
    description: str
    arguments: dict[str, Json] = Field(description="Sensitive values are `***`.")
    arguments_schema: dict[str, Any] = Field(description="JSON Schema of the arguments.")
    sensitive_paths: list[str] = Field(
        description="JSON pointers of what is masked; `*` stands for any item or key."
    )


class CallPosition(Answered):
    """Which of the turn's calls that ask this is."""

    index: int = Field(description="From 0.")
    of: int


class PausePolicy(Answered):
    """Who may decide, and how many have to."""

    approvers: list[str]
    quorum: int
    allow_requester: bool


_SENT_BY = "Who sent it in the name of `by`, where that is somebody else."


class Vote(Answered):
    """One of several decisions that a pause needs."""

    by: str
    approved: bool
    at: datetime
    feedback: str | None
    sent_by: str | None = Field(default=None, description=_SENT_BY)


class Decided(Answered):
    """A decision as everybody may read it; sensitive values are `***`."""

    approved: bool | None = None
    value: Json = None
    action: str | None = None
    override_arguments: dict[str, Json] | None = None
    effective_arguments: dict[str, Json] | None = Field(
        default=None, description="The arguments that run."
    )
    override_output: Json = None
    feedback: str | None = None
    by: str
    sent_by: str | None = Field(default=None, description=_SENT_BY)
    via: str = Field(description="The door it came in by.", examples=["api"])


class Taken(Decided):
    """The decision that closed a pause."""

    decided_at: datetime


class Choice(Answered):
    """A way on, by the name of its step."""

    name: str
    description: str | None


class Pause(Answered):
    """One open or closed question of a run, with all that is needed to show and to answer it."""

    id: str
    thread_id: str
    run_id: str
    workflow: str
    sequence: int = Field(description="Its place among the pauses of its run, from 1.")
    status: PauseStatus
    level: PauseLevel = Field(
        description="Whose question it is: a call's (`executor`) or a step's."
    )
    kind: PauseKind
    step: PauseStep
    agent: str | None
    call: Call | None
    position: CallPosition | None
    message: str
    options: list[Json] | None = Field(
        description="Of an `interactive`: what may be answered. Of an `error`: the actions that are possible."
    )
    choices: list[Choice] | None = Field(description="Of a `route`.")
    output: Json = Field(description="Of a `review`.")
    error: RunError | None = Field(description="Of an `error`: why the step failed.")
    branch: str | None
    allowed: list[str] = Field(description="The shapes and actions that are accepted.")
    response_schema: dict[str, Any] = Field(description="JSON Schema of the decision.")
    channel: str
    policy: PausePolicy
    votes: list[Vote] = Field(
        description="Where the quorum is more than one; the last one settled it."
    )
    requested_by: str | None
    metadata: Metadata
    you_may_decide: bool
    resume_url: str = Field(description="Where to POST `{pause_id, decision}`.")
    opened_at: datetime
    expires_at: datetime | None
    escalated_to: str | None = Field(description="The channel that was asked too, once it was.")
    digest: str | None = Field(
        description=(
            "SHA-256 of tool and arguments; sent as `If-Match`, the decision holds for exactly these."
        )
    )
    decision: Taken | None


class Run(Answered):
    """One execution of a workflow, with all its pauses. Sensitive values are `***`."""

    id: str
    thread_id: str
    workflow: Named
    status: RunStatus
    input: Json
    output: Json
    error: RunError | None
    stop_reason: str | None = Field(examples=["waiting for approval"])
    pause: Pause | None = Field(description="The first open one.")
    pauses: list[Pause] = Field(description="All of them, in the order in which they were opened.")
    steps: list[RunStep]
    usage: Usage
    metadata: Metadata
    requested_by: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class WorkflowSummary(Named):
    """A workflow that is served here."""

    fingerprint: str = Field(description="SHA-256 of its shape; a paused run needs the same one.")


class AskTerms(Answered):
    """A question that runs may stop at, as it is declared, and its terms. Durations are in seconds."""

    kind: PauseKind
    message: str | None
    conditional: bool = Field(description="Whether it is asked only sometimes.")
    on_reject: str | None = Field(description="What a rejection does, where that is declared.")
    channel: str
    approvers: list[str]
    quorum: int
    allow_requester: bool
    expires_after_seconds: float | None
    on_expire: str
    remind_before_seconds: float | None
    escalate_to: str | None
    escalate_before_seconds: float | None
    response_schema: dict[str, Any] = Field(description="JSON Schema of the decision.")


class Stop(AskTerms):
    """A place where a run may stop by what is declared; a tool may ask more by itself."""

    path: str = Field(description="The path of the step.")
    level: PauseLevel
    tool: str | None


class Selection(Answered):
    """Who picks the way on."""

    by: Literal["person", "model", "function"]
    multiple: bool | None = None
    model: str | None = None
    after_decision: str | None = None


class WorkflowStep(Answered):
    """A step as it is declared; what is optional belongs to some types of step only."""

    name: str
    path: str
    index: int = Field(description="Its place among its siblings, from 0.")
    type: str
    description: str | None
    output_schema: Json
    asks: list[AskTerms]
    on_error: str
    agent: str | None = None
    steps: "list[WorkflowStep] | None" = None
    then: "list[WorkflowStep] | None" = None
    otherwise: "list[WorkflowStep] | None" = None
    choices: "list[WorkflowStep] | None" = None
    select: Selection | None = None
    max_iterations: int | None = None
    workflow: Named | None = None


class Limit(Answered):
    """A limit, and whether it is the one that holds where nothing is said."""

    limit: int | float | str = Field(description="Costs are decimals in US dollars.")
    default: bool


class AgentLimits(Answered):
    """The limits of one visit to an agent."""

    model_calls: Limit
    tool_calls: Limit
    judge_retries: Limit | None = Field(default=None, description="Where it has judges.")
    time_seconds: Limit | None = Field(
        default=None, description="Without the time in which it waits for people."
    )


class AgentGuardrails(Answered):
    """What looks at the calls and the answers of an agent, by name, in order."""

    before_tool_call: list[str]
    on_decision: list[str]
    after_tool_call: list[str]
    before_answer: list[str]
    judges: list[str]


class WorkflowTool(Answered):
    """A tool of an agent."""

    name: str
    description: str
    arguments_schema: dict[str, Any]
    filled_by_a_person: list[str] = Field(description="Arguments that the model does not give.")
    result_schema: Json
    sensitive_paths: list[str]
    asks: list[AskTerms]
    timeout_seconds: float | None
    retries: int
    on_crash: str
    before_call: list[str] = Field(description="The guardrails of its own, by name.")
    after_call: list[str]


class WorkflowAgent(Answered):
    """An agent, without its prompt."""

    name: str
    description: str
    model: str
    limits: AgentLimits
    guardrails: AgentGuardrails
    tools: list[WorkflowTool]


class WorkflowChannel(Answered):
    """A channel that may be asked."""

    name: str
    type: str


class RunLimits(Answered):
    """The limits of one run."""

    run_cost: Limit | None = None


class WorkflowGuards(Answered):
    """What looks at the input and at the output, by name, in order."""

    input: list[str]
    output: list[str]


class Workflow(WorkflowSummary):
    """Everything that may be known of a workflow."""

    history: int = Field(description="How many finished runs of the thread its agents remember.")
    limits: RunLimits
    guards: WorkflowGuards
    input_schema: dict[str, Any]
    output_schema: Json
    steps: list[WorkflowStep]
    stops: list[Stop]
    agents: list[WorkflowAgent]
    channels: list[WorkflowChannel]
    graph: str = Field(description="A Mermaid flowchart.")


class Reply(Answered):
    """How the channel that was told may decide by a request of its own."""

    url: str = Field(description="Where to POST `{pause_id, decision}`.")
    token: str = Field(
        description="Goes in as `Authorization: Bearer`; decides this pause, and is good for nothing else."
    )
    expires_at: datetime | None = Field(description="When the pause expires, if it does.")


class NoticeData(Answered):
    """What a notice is about, as it is by the time of sending. Sensitive values are `***`."""

    event_sequence: int = Field(
        description="Increases within a thread: drop what is older than what you know."
    )
    thread_id: str
    run_id: str
    workflow: Named
    run_status: RunStatus
    pause: Pause | None = Field(description="For the types that begin with `pause.`.")
    run: Run | None = Field(description="For the others.")
    reply: Reply | None = Field(
        description="For a channel that may decide, as long as the pause is open."
    )


class Notice(Answered):
    """The body of a webhook."""

    type: str = Field(examples=["pause.opened"])
    timestamp: datetime = Field(description="When it happened.")
    data: NoticeData


class NoticeAnswer(BaseModel):
    """What may be answered to a notice."""

    decision: SkipValidation[Verdict | Value | Action] | None = None


class DeliverySummary(Answered):
    """One notice to one address."""

    id: str = Field(description="Also the `webhook-id`, the same on every attempt.")
    thread_id: str
    run_id: str
    pause_id: str | None
    event_type: str = Field(examples=["pause.opened"])
    event_sequence: int = Field(description="Increases within a thread.")
    channel: str | None = Field(description="None for the run's own callback.")
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None


class Attempt(Answered):
    """One attempt at a delivery."""

    attempt: int
    at: datetime
    status: int | None = Field(description="The HTTP status that came back, if one did.")
    error: str | None
    excerpt: str | None = Field(description="The beginning of what came back.")


class Delivery(Answered):
    """One notice to one address, with its attempts."""

    id: str = Field(description="Also the `webhook-id`, the same on every attempt.")
    thread_id: str
    run_id: str
    pause_id: str | None
    event_type: str = Field(examples=["pause.opened"])
    event_sequence: int = Field(description="Increases within a thread.")
    channel: str | None = Field(description="None for the run's own callback.")
    status: DeliveryStatus
    attempts: list[Attempt]
    next_attempt_at: datetime | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None


class AuditRow(Answered):
    """What somebody did or was kept from doing, in its place in a chain of hashes."""

    at: datetime
    action: AuditAction
    by: str | None
    via: str = Field(description="The door: `api`, `webhook`, `channel`, `deadline`, `cli`.")
    credential: str | None = Field(
        description="What it was known by; `open` while nobody is asked for one, null for the service itself."
    )
    client: str | None = Field(description="The network address that the request came from.")
    request_id: str | None
    thread_id: str | None = Field(description="Null for what belongs to no thread.")
    run_id: str | None
    pause_id: str | None
    digest: str | None = Field(description="Of what the pause showed.")
    data: dict[str, Json] = Field(
        description="More of it: the masked `decision`, the `code` of a refusal."
    )
    thread_created_at: datetime | None = Field(
        description="Tells the chain from one of an earlier thread with this id."
    )
    sequence: int = Field(description="In its chain, from 1 on.")
    hash: str = Field(description="SHA-256 over this row and the hash of the one before it.")


_Next = Annotated[
    str | None, Field(description="The `cursor` of the next page; null if this is the last.")
]


class ThreadList(Answered):
    """Threads, newest first."""

    items: list[Thread]
    next: _Next


class RunList(Answered):
    """Runs, newest first."""

    items: list[Run]
    next: _Next


class PauseList(Answered):
    """Pauses, the longest waiting first."""

    items: list[Pause]
    next: _Next


class WorkflowList(Answered):
    """All workflows that are served here."""

    items: list[WorkflowSummary]
    next: _Next


class DeliveryList(Answered):
    """Deliveries, newest first."""

    items: list[DeliverySummary]
    next: _Next


class AuditList(Answered):
    """Rows of the audit, newest first."""

    items: list[AuditRow]
    next: _Next


class Session(Answered):
    """Who asks, and what they may do."""

    name: str | None = Field(description="Null while the service is open.")
    tenant: str
    groups: list[str]
    scopes: list[str]
    is_open: bool = Field(description="Whether nobody is asked who they are.")


class Health(Answered):
    """The process is well."""

    status: Literal["alive", "ready"]


class EventData(BaseModel):
    """Where it happened."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    event_sequence: int = Field(description="Increases within a thread.")
    thread_id: str
    run_id: str


class RunEventData(EventData):
    """How a run goes."""

    error: RunError | None = Field(default=None, description="Of `run.failed`.")


class StepEventData(EventData):
    """The step that it is about."""

    path: str
    name: str
    index: int


class ModelAnsweredData(EventData):
    """Who was answered, and with how many calls of tools."""

    path: str = Field(description="The step.")
    agent: str
    turn: int
    calls: int


class ToolEventData(EventData):
    """The call that it is about."""

    path: str = Field(description="The step.")
    agent: str
    tool: str
    call_id: str
    failed: bool | None = Field(default=None, description="Of `tool.finished`.")


class PauseEventData(EventData):
    """The pause that it is about."""

    pause_id: str
    kind: PauseKind | None = Field(default=None, description="Of `pause.opened`.")
    channel: str | None = None
    decision: Decided | None = Field(default=None, description="Of `pause.decided`.")


class ModelDeltaData(BaseModel):
    """A piece of what a model is writing. At the offset 0 the text begins, maybe anew."""

    thread_id: str
    run_id: str
    path: str = Field(description="The step.")
    agent: str
    turn: int
    offset: int = Field(description="Where the piece begins, in characters.")
    text: str


class RunEvent(Answered):
    """A run is queued, begun, paused, or over."""

    type: Literal[
        EventType.RUN_QUEUED,
        EventType.RUN_STARTED,
        EventType.RUN_PAUSED,
        EventType.RUN_COMPLETED,
        EventType.RUN_FAILED,
        EventType.RUN_CANCELLED,
    ]
    timestamp: datetime
    data: RunEventData


class StepEvent(Answered):
    """A step has begun or ended."""

    type: Literal[
        EventType.STEP_STARTED,
        EventType.STEP_COMPLETED,
        EventType.STEP_FAILED,
        EventType.STEP_SKIPPED,
    ]
    timestamp: datetime
    data: StepEventData


class ModelAnswered(Answered):
    """A model has answered."""

    type: Literal[EventType.MODEL_ANSWERED]
    timestamp: datetime
    data: ModelAnsweredData


class ToolEvent(Answered):
    """A call of a tool has begun or ended."""

    type: Literal[EventType.TOOL_STARTED, EventType.TOOL_FINISHED]
    timestamp: datetime
    data: ToolEventData


class PauseEvent(Answered):
    """Somebody is asked, reminded, or has decided; or nobody has in time."""

    type: Literal[
        EventType.PAUSE_OPENED,
        EventType.PAUSE_REMINDER,
        EventType.PAUSE_ESCALATED,
        EventType.PAUSE_DECIDED,
        EventType.PAUSE_EXPIRED,
        EventType.PAUSE_CANCELLED,
    ]
    timestamp: datetime
    data: PauseEventData


class ModelDelta(Answered):
    """A piece of what a model is writing; it has no id, and is told once."""

    type: Literal["model.delta"]
    data: ModelDeltaData


class Event(
    RootModel[
        Annotated[
            RunEvent | StepEvent | ModelAnswered | ToolEvent | PauseEvent | ModelDelta,
            Field(discriminator="type"),
        ]
    ]
):
    """The `data` of an event in a stream, by its `type`. Sensitive values are `***`."""
