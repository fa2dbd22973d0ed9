"""What the service answers, as values: members of the API's JSON under their own names.

A member that this version does not know is kept and can be read by its name; a value that it does not know, such
as a new kind of pause, is let through. So an older client goes on with a newer service.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, SkipValidation

T = TypeVar("T")
Json: TypeAlias = Any
"""Whatever JSON can say."""

RunStatus: TypeAlias = Annotated[
    Literal["queued", "running", "paused", "completed", "failed", "cancelled"], SkipValidation
]
StepStatus: TypeAlias = Annotated[
    Literal["running", "completed", "failed", "skipped", "cancelled"], SkipValidation
]
PauseKind: TypeAlias = Annotated[
    Literal[
        "approval",
        "interactive",
        "input",
        "external_result",
        "confirmation",
        "route",
        "review",
        "error",
        "unknown_outcome",
    ],
    SkipValidation,
]
PauseLevel: TypeAlias = Annotated[Literal["executor", "step"], SkipValidation]
PauseStatus: TypeAlias = Annotated[
    Literal["open", "decided", "expired", "cancelled", "superseded"], SkipValidation
]
DeliveryStatus: TypeAlias = Annotated[Literal["pending", "delivered", "dead"], SkipValidation]
AuditAction: TypeAlias = Annotated[
    Literal[
        "decided",
        "voted",
        "refused",
        "expired",
        "extended",
        "cancelled",
        "superseded",
        "retried",
        "thread_deleted",
        "denied",
        "key_created",
        "key_revoked",
    ],
    SkipValidation,
]


class Answered(BaseModel):
    """A part of an answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────────


class ActiveRun(Answered):
    """The unfinished run of a thread."""

    id: str
    status: RunStatus


class Thread(Answered):
    """A conversation; at most one of its runs is unfinished."""

    id: str
    workflow: str | None = None
    metadata: dict[str, Json] = {}
    active_run: ActiveRun | None = None
    created_at: datetime


# ── Pauses ───────────────────────────────────────────────────────────────────────────────────────────


class PauseStep(Answered):
    """The step that asks; `path` has the steps around it."""

    name: str
    path: str
    index: int
    type: str


class Call(Answered):
    """The tool call that is asked about; sensitive arguments are `***`."""

    id: str
    provider_call_id: str | None = None
    tool: str
    description: str
    arguments: dict[str, Json]
    arguments_schema: dict[str, Json]
    sensitive_paths: list[str] = []


class CallPosition(Answered):
    """Which of the turn's calls that ask this is, from 0."""

    index: int
    of: int


class PausePolicy(Answered):
    """Who may decide, and how many have to."""

    approvers: list[str]
    quorum: int
    allow_requester: bool


class Vote(Answered):
    """One of several decisions that a pause needs."""

    by: str
    approved: bool
    at: datetime
    feedback: str | None = None
    sent_by: str | None = None


class Decided(Answered):
    """A decision as everybody may read it; sensitive values are `***`. `via` is the door it came in by."""

    approved: bool | None = None
    value: Json = None
    action: str | None = None
    override_arguments: dict[str, Json] | None = None
    effective_arguments: dict[str, Json] | None = None
    override_output: Json = None
    feedback: str | None = None
    by: str
    sent_by: str | None = None
    via: str


class Taken(Decided):
    """The decision that closed a pause."""

    decided_at: datetime


class RunError(Answered):
    """Why a run, or a step of it, failed."""

    code: str
    message: str
    step: str | None = None
    details: Json = None


class Choice(Answered):
    """A way on, by the name of its step."""

    name: str
    description: str | None = None


class Pause(Answered):
    """One question of a run, with all that is needed to show and to answer it."""

    id: str
    thread_id: str
    run_id: str
    workflow: str
    sequence: int
    status: PauseStatus
    level: PauseLevel
    kind: PauseKind
    step: PauseStep
    agent: str | None = None
    call: Call | None = None
    position: CallPosition | None = None
    message: str
    options: list[Json] | None = None
    choices: list[Choice] | None = None
    output: Json = None
    error: RunError | None = None
    branch: str | None = None
    allowed: list[str]
    response_schema: dict[str, Json]
    channel: str
    policy: PausePolicy
    votes: list[Vote] = []
    requested_by: str | None = None
    metadata: dict[str, Json] = {}
    you_may_decide: bool
    resume_url: str
    opened_at: datetime
    expires_at: datetime | None = None
    escalated_to: str | None = None
    digest: str | None = None
    decision: Taken | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody has yet to decide."""
        return self.status == "open"


# ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────


class Named(Answered):
    """A workflow by name and version."""

    name: str
    version: str


class RunStep(Answered):
    """One step of a run as it went."""

    name: str
    path: str
    type: str
    status: StepStatus
    output: Json = None
    attempts: int
    cost: str


class Usage(Answered):
    """What a run has used so far; `cost` is US dollars, as a decimal."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost: str


class Run(Answered):
    """One execution of a workflow, with all its pauses. Sensitive values are `***`."""

    id: str
    thread_id: str
    workflow: Named
    status: RunStatus
    input: Json = None
    output: Json = None
    error: RunError | None = None
    stop_reason: str | None = None
    pause: Pause | None = None
    pauses: list[Pause] = []
    steps: list[RunStep] = []
    usage: Usage
    metadata: dict[str, Json] = {}
    requested_by: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, or waits for somebody."""
        return self.has_ended or self.status == "paused"

    @property
    def open_pauses(self) -> list[Pause]:
        """What it waits for: one, or several where steps go side by side."""
        return [each for each in self.pauses if each.is_open]


# ── Workflows ────────────────────────────────────────────────────────────────────────────────────────


class WorkflowSummary(Named):
    """A workflow that is served."""

    fingerprint: str


class AskTerms(Answered):
    """A question that runs may stop at, as it is declared. Durations are in seconds."""

    kind: PauseKind
    message: str | None = None
    conditional: bool
    on_reject: str | None = None
    channel: str
    approvers: list[str]
    quorum: int
    allow_requester: bool
    expires_after_seconds: float | None = None
    on_expire: str
    remind_before_seconds: float | None = None
    escalate_to: str | None = None
    escalate_before_seconds: float | None = None
    response_schema: dict[str, Json]


class Stop(AskTerms):
    """A place where a run may stop by what is declared."""

    path: str
    level: PauseLevel
    tool: str | None = None


class Selection(Answered):
    """Who picks the way on."""

    by: Annotated[Literal["person", "model", "function"], SkipValidation]
    multiple: bool | None = None
    model: str | None = None
    after_decision: str | None = None


class WorkflowStep(Answered):
    """A step as it is declared."""

    name: str
    path: str
    index: int
    type: str
    description: str | None = None
    output_schema: Json = None
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
    """A limit, and whether it is the one that holds where nothing is said. Costs are decimals."""

    limit: int | float | str
    default: bool


class AgentLimits(Answered):
    """The limits of one visit to an agent."""

    model_calls: Limit
    tool_calls: Limit
    judge_retries: Limit | None = None
    time_seconds: Limit | None = None


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
    arguments_schema: dict[str, Json]
    filled_by_a_person: list[str]
    result_schema: Json = None
    sensitive_paths: list[str]
    asks: list[AskTerms]
    timeout_seconds: float | None = None
    retries: int
    on_crash: str
    before_call: list[str]
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
    """Everything that may be known of a workflow; `graph` is a Mermaid flowchart."""

    history: int
    limits: RunLimits
    guards: WorkflowGuards
    input_schema: dict[str, Json]
    output_schema: Json = None
    steps: list[WorkflowStep]
    stops: list[Stop]
    agents: list[WorkflowAgent]
    channels: list[WorkflowChannel]
    graph: str


# ── Deliveries, the audit, who asks ──────────────────────────────────────────────────────────────────


class _AnyDelivery(Answered):
    id: str
    thread_id: str
    run_id: str
    pause_id: str | None = None
    event_type: str
    event_sequence: int
    channel: str | None = None
    status: DeliveryStatus
    next_attempt_at: datetime | None = None
    last_error: str | None = None
    created_at: datetime
    delivered_at: datetime | None = None


class DeliverySummary(_AnyDelivery):
    """One notice to one address, with how often it was tried."""

    attempts: int


class Attempt(Answered):
    """One attempt at a delivery."""

    attempt: int
    at: datetime
    status: int | None = None
    error: str | None = None
    excerpt: str | None = None


class Delivery(_AnyDelivery):
    """One notice to one address, with its attempts."""

    attempts: list[Attempt]


class AuditRow(Answered):
    """What somebody did or was kept from doing, in its place in a chain of hashes."""

    at: datetime
    action: AuditAction
    by: str | None = None
    via: str
    credential: str | None = None
    client: str | None = None
    request_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    pause_id: str | None = None
    digest: str | None = None
    data: dict[str, Json]
    thread_created_at: datetime | None = None
    sequence: int
    hash: str


class Session(Answered):
    """Who asks, and what they may do."""

    name: str | None = None
    tenant: str
    groups: list[str]
    scopes: list[str]
    is_open: bool


class Page(Answered, Generic[T]):
    """A part of a list; `next` is where the next one begins, if there is one."""

    items: list[T]
    next: str | None = None


# ── Webhooks ─────────────────────────────────────────────────────────────────────────────────────────


class Reply(Answered):
    """The right of a channel to decide one pause by a request of its own. Whoever has it can decide."""

    url: str
    token: str
    expires_at: datetime | None = None


class NoticeData(Answered):
    """What a notice is about, as it is by the time of sending."""

    event_sequence: int
    thread_id: str
    run_id: str
    workflow: Named
    run_status: RunStatus
    pause: Pause | None = None
    run: Run | None = None
    reply: Reply | None = None


class Notice(Answered):
    """A webhook; `id` is its `webhook-id`, the same whenever the notice comes again."""

    id: str
    type: str
    timestamp: datetime
    data: NoticeData
