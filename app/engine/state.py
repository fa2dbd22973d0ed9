"""What a line's checkpoints hold: plain JSON, true values among it."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from app.domain.ids import CallId
from app.domain.json import Json
from app.domain.message import Message
from app.engine.frames import Frame


class OpenQuestion(TypedDict):
    """A question that a tool asked. `answer` is an `Answer` as JSON, once there is one."""

    message: str
    options: list[str] | None
    answer_schema: Json
    policy: Json
    answer: NotRequired[Json]


class OpenCall(TypedDict):
    """One call of the open turn.

    `arguments` are those it is run with. `asks` are the kinds of pause it still waits at before it is
    dispatched, the next one first. `attempt` counts how often it was dispatched, and ended without a
    result: at a question, or in a crash. A call that has a `result` is finished.
    """

    index: int
    id: CallId
    place: str
    wire_id: str
    provider_id: str | None
    tool: str
    arguments: Json
    asks: list[str]
    attempt: int
    position: list[int]  # of the turn's calls that ask: which, and of how many
    salt: NotRequired[str]
    digest: NotRequired[str]
    changed_by: NotRequired[str]
    questions: list[OpenQuestion]
    result: NotRequired[str]
    unchecked: NotRequired[bool]
    unseen: NotRequired[bool]


class CallOutcome(TypedDict):
    """What became of a call that was dispatched: its result, a question it came upon, or a doubt.

    It is in doubt where an earlier attempt was begun, and nothing says how it ended.
    """

    result: NotRequired[str]
    question: NotRequired[OpenQuestion]
    in_doubt: NotRequired[bool]


def gathered(
    before: dict[str, CallOutcome], after: dict[str, CallOutcome] | None
) -> dict[str, CallOutcome]:
    """The outcomes of calls that run side by side, by call index; None clears them."""
    return {} if after is None else {**before, **after}


def merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Both, by place. Taking the same entry twice changes nothing."""
    return {**before, **after}


class Handed(TypedDict):
    """What an agent is given beside its value: where it stands, and what people said."""

    place: str
    inputs: list[Json]
    feedback: str | None
    previous: str | None


class HeldAnswer(TypedDict):
    """What an agent wants to say, while its guardrails and judges look at it: `looks` of them have."""

    said: Json
    looks: int


class LineState(TypedDict, total=False):
    """The state of a line: the value in hand, the steps it is in, and what its agents said, by place.

    `secrets` are the sensitive values that their models wrote. `failure` is an error on its way to the step
    that has something to say about it. `decided` says that an approval was decided since a model was last
    asked for the way. `left_out` ends a branch without an output.
    """

    value: Json
    said: Annotated[dict[str, Json], merged]
    secrets: Annotated[dict[str, list[str]], merged]
    frames: dict[str, Frame]
    handed: Handed | None
    failure: Json
    decided: bool
    stop_reason: str | None
    left_out: bool


class Work(TypedDict, total=False):
    """What an agent is given."""

    value: Json
    handed: Handed | None
    decided: bool
    secrets: Annotated[dict[str, list[str]], merged]


class Answered(TypedDict, total=False):
    """What comes out of an agent."""

    value: Json
    said: Annotated[dict[str, Json], merged]
    secrets: Annotated[dict[str, list[str]], merged]
    failure: Json
    decided: bool
    stop_reason: str | None


class AgentState(TypedDict, total=False):
    """The state of an agent's visit, with its open turn."""

    value: Json
    handed: Handed | None
    failure: Json
    decided: bool
    said: Annotated[dict[str, Json], merged]
    secrets: Annotated[dict[str, list[str]], merged]
    turn: int  # how often the model has answered
    called: int  # how many calls it has proposed
    messages: list[Message]
    calls: list[OpenCall]
    answer: HeldAnswer | None
    sent_back: int  # how often judges have sent its answer back
    worked: float  # seconds, without those in which it waited for people
    stop_reason: str | None
    outcomes: Annotated[dict[str, CallOutcome], gathered]


class SentCall(TypedDict):
    """What one tool task gets."""

    call: OpenCall
    handed: Handed | None
