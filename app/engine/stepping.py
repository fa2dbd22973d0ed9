"""One step with everything around it, as nodes of its line.

    enter ─► before… ─► (the step itself) ─► done ─► review ─► the next step
                              ▲   │                    │
                              │   └─► failed           │   (only where the step says what
                              │         │              │    becomes of its failure)
                              └─────────┴──── again ───┘

Only what a step needs is compiled: a function that nobody is asked about is one node.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, TypeAdapter, ValidationError

from app.authoring.gates import AskError, AskInput, Confirm, Review
from app.authoring.shape import adapter_of, load, schema_of
from app.authoring.step import Node
from app.domain.json import Json
from app.domain.masking import scrub, secrets_in
from app.domain.pause import Answer
from app.engine import steps
from app.engine.drive import Drive, LineCancelled, LineFailed, drive_of, expired, step_outside
from app.engine.faults import reason_of
from app.engine.frames import Frame, changed, frame_of, left, place_of, row_of
from app.engine.served import Schema, StepPlace
from app.engine.state import LineState
from app.engine.step_asks import StepAsk, error_ask, gate_ask, review_ask
from app.engine.step_settling import decided_at_once, inputs_of

T = TypeVar("T")
Next: TypeAlias = Command[Any]
NodeFunction: TypeAlias = Callable[[LineState, Runtime[Drive]], Awaitable[Next]]


@dataclass(frozen=True, kw_only=True)
class Around:
    """Where a step stands: its line's root path, and where it goes on.

    `outputs` are the types of all steps' outputs, by path.
    """

    root: str
    leads_to: str
    outputs: Mapping[str, TypeAdapter[Any]]


class Stepping:
    """The nodes of one step. `body` is where the step itself begins, once it may.

    `first` is where the steps inside it begin.
    """

    restarts: ClassVar[Mapping[str, Any]] = {}
    """What of its frame begins anew when it is run again."""

    first: str

    def __init__(self, node: Node, place: StepPlace, around: Around) -> None:
        self.node = node
        self.path = place.path
        self._place = place
        self._around = around

    @property
    def body(self) -> str:
        """Where the step itself begins, once it may: its own node, unless it has none."""
        return self.path

    # ── Names of nodes ───────────────────────────────────────────────────────────────────────────

    @property
    def enter_label(self) -> str:
        return f"{self.path}#enter"

    @property
    def done_label(self) -> str:
        return f"{self.path}#done"

    @property
    def review_label(self) -> str:
        return f"{self.path}#review"

    @property
    def failed_label(self) -> str:
        return f"{self.path}#failed"

    def before_label(self, index: int) -> str:
        return f"{self.path}#before{index}"

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────

    async def enter(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Begins the step with the value in hand."""
        drive = drive_of(runtime)
        drive.check()
        frames = self.entered(state, drive)
        goto = self.before_label(0) if self.node.before else self.body
        return Command(
            goto=goto, update={"frames": frames, "failure": None, **self.handed(frames, drive)}
        )

    def entered(self, state: LineState, drive: Drive) -> dict[str, Frame]:
        """The frames with the step's own among them, noted as begun."""
        frames = changed(state.get("frames", {}), self.path, given=state.get("value"))
        place = self.at(frames, drive)
        drive.check_budget(place.path)
        steps.started(drive, place)
        return frames

    def before(self, index: int) -> NodeFunction:
        """Asks what has to be settled before the step begins."""
        gate = self.node.before[index]
        is_last = index + 1 == len(self.node.before)
        goto = self.body if is_last else self.before_label(index + 1)

        async def ask(state: LineState, runtime: Runtime[Drive]) -> Next:
            drive, frames = drive_of(runtime), state.get("frames", {})
            drive.check()
            question = await self.gate_of(
                gate, self.at_now(frames, drive), index, state.get("value")
            )
            answer = self.asked(drive, question)
            if not answer.approved:
                return self.turned_down(gate.on_reject, answer, state, drive)
            update: dict[str, Json] = {}
            if isinstance(gate, AskInput):
                inputs = [*frame_of(frames, self.path).get("inputs", []), answer.value]
                frames = changed(frames, self.path, inputs=inputs)
                update = noted_secrets(
                    question.place, answer.value, schema_of(adapter_of(gate.model))
                )
            update |= {"frames": frames, **self.handed(frames, drive)}
            return Command(goto=goto, update=update)

        return ask

    async def gate_of(
        self, gate: Confirm | AskInput, at: StepPlace, index: int, value: Json
    ) -> StepAsk:
        """The question that a gate asks about the value that the step would be given."""
        return gate_ask(gate, at, index)

    def turned_down(self, means: str, answer: Answer, state: LineState, drive: Drive) -> Next:
        """What a rejection does, as its ask says."""
        if answer.action == "fail":
            raise expired(self.now(state, drive))
        match means:
            case "skip":
                return self.skipped(state, drive)
            case "fail":
                raise self.broken("rejected", rejected_by(answer), state, drive)
            case _:
                raise LineCancelled(rejected_by(answer))

    async def done(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Looks at what came out of the step."""
        drive = drive_of(runtime)
        if (failure := state.get("failure")) is not None:
            return self._failing(cast("dict[str, Json]", failure), state, drive)
        return self.finished(state, self._output(state, drive), drive)

    def finished(self, state: LineState, output: Json, drive: Drive) -> Next:
        """Leaves the step with its output, unless somebody has to look at it first."""
        review = self.node.after
        if review is not None and review.asks_about(load(self.node.output, output)):
            return Command(goto=self.review_label, update={"value": output})
        return self.leave(state, output, drive)

    async def review(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Asks about the output: it stands, is put right, or is made again."""
        drive, frames, output = drive_of(runtime), state.get("frames", {}), state.get("value")
        drive.check()
        review = cast("Review", self.node.after)
        answer = self.asked(
            drive,
            review_ask(
                review, self.at_now(frames, drive), output, secrets=known_secrets(state, drive)
            ),
        )
        if answer.approved:
            return self.leave(state, reviewed(answer, output), drive)
        return self._rejected(review, answer, state, drive)

    def _rejected(self, review: Review, answer: Answer, state: LineState, drive: Drive) -> Next:
        frame = frame_of(state.get("frames", {}), self.path)
        reviews = frame.get("reviews", 0)
        if review.on_reject != "retry" or answer.action == "fail":
            return self.turned_down(review.on_reject, answer, state, drive)
        if reviews >= review.max_retries:
            raise LineCancelled(rejected_by(answer))
        return self._again(
            state,
            drive,
            reviews=reviews + 1,
            feedback=answer.feedback,
            previous=state.get("value"),
            was_rejected=True,
        )

    async def failed(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Decides, or asks, what becomes of a failure in the step."""
        drive, failure = drive_of(runtime), cast("dict[str, Json]", state.get("failure"))
        drive.check()
        frames = state.get("frames", {})
        if self.node.on_error == "skip":
            return self.skipped(state, drive)
        ask = cast("AskError", self.node.on_error)
        tried = frame_of(frames, self.path).get("errors", 0)
        question = error_ask(
            ask,
            self.at_now(frames, drive),
            failure,
            may_retry=tried < ask.max_retries,
            may_skip=self.node.skippable,
        )
        answer = self.asked(drive, question)
        match answer.action:
            case "retry":
                return self._again(state, drive, errors=tried + 1)
            case "skip":
                return self.skipped(state, drive)
            case _:
                raise LineFailed(
                    str(failure["code"]),
                    str(failure["message"]),
                    step=self.now(state, drive),
                    details=failure.get("details"),
                    is_noted=True,
                )

    # ── Moves ────────────────────────────────────────────────────────────────────────────────────

    def _again(self, state: LineState, drive: Drive, **changes: Any) -> Next:
        """Runs the step once more on what it was given."""
        frames = state.get("frames", {})
        frame = frame_of(frames, self.path)
        changes = {"attempt": frame.get("attempt", 0) + 1, **self.restarts, **changes}
        frames = changed(frames, self.path, **changes)
        steps.started(drive, self.at(frames, drive), attempts=_attempts(frames, self.path))
        update = {
            "frames": frames,
            "value": frame.get("given"),
            "failure": None,
            **self.handed(frames, drive),
        }
        return Command(goto=self.body, update=update)

    def leave(self, state: LineState, output: Json, drive: Drive) -> Next:
        """Goes on with the output in hand."""
        frames = state.get("frames", {})
        attempts, place = _attempts(frames, self.path), self.at(frames, drive)
        steps.completed(drive, place, output, known_secrets(state, drive), attempts=attempts)
        update: dict[str, Json] = {
            "value": output,
            "frames": left(frames, self.path),
            "failure": None,
            **noted_secrets(place.path, output, place.output_schema),
        }
        return Command(goto=self._around.leads_to, update=update)

    def skipped(self, state: LineState, drive: Drive) -> Next:
        """Goes on as if the step were not there."""
        frames = state.get("frames", {})
        steps.skipped(drive, self.at(frames, drive), attempts=_attempts(frames, self.path))
        update: dict[str, Json] = {
            "value": frame_of(frames, self.path).get("given"),
            "frames": left(frames, self.path),
            "failure": None,
        }
        if self.path == self._around.root:
            update["left_out"] = True
        return Command(goto=self._around.leads_to, update=update)

    def guarded(self, run: NodeFunction) -> NodeFunction:
        """The node, whose failure goes where the step says what becomes of it."""
        if self.node.on_error == "fail":
            return run

        async def node(state: LineState, runtime: Runtime[Drive]) -> Next:
            try:
                return await run(state, runtime)
            except LineFailed as failure:
                return self._failing(failure.error.as_json(), state, runtime.context)

        return node

    def _failing(self, failure: dict[str, Json], state: LineState, drive: Drive) -> Next:
        frames = state.get("frames", {})
        steps.failed(drive, self.at(frames, drive), attempts=_attempts(frames, self.path))
        message = scrub(str(failure["message"]), known_secrets(state, drive))
        told = {**failure, "message": message, "step": self.at(frames, drive).path}
        return Command(goto=self.failed_label, update={"failure": told})

    def broken(self, code: str, message: str, state: LineState, drive: Drive) -> LineFailed:
        """This attempt's failure."""
        told = scrub(message, known_secrets(state, drive))
        return LineFailed(code, told, step=self.now(state, drive))

    # ── What nodes need ──────────────────────────────────────────────────────────────────────────

    def asked(self, drive: Drive, ask: StepAsk) -> Answer:
        """The answer to a question, once there is one; until then the line stops here."""
        settled = decided_at_once(ask, self.node, drive)
        if settled is not None:
            return settled
        drive.asking = lambda: ask.as_ask(drive.start.line)
        return Answer.from_json(interrupt({"place": ask.place})["value"])

    def at(self, frames: dict[str, Frame], drive: Drive) -> StepPlace:
        """Where the step stands, over all its attempts."""
        return self._place.at(row_of(self.path, frames, self._around.root, drive.base))

    def at_now(self, frames: dict[str, Frame], drive: Drive) -> StepPlace:
        """Where the step stands in this attempt."""
        return self._place.at(place_of(self.path, frames, self._around.root, drive.base))

    def now(self, state: LineState, drive: Drive) -> str:
        """The place of this attempt."""
        return self.at_now(state.get("frames", {}), drive).path

    def handed(self, frames: dict[str, Frame], drive: Drive) -> dict[str, Json]:
        """What the step itself is given beside its value; nothing where it does not look."""
        return {}

    async def looked(self, look: Awaitable[T], state: LineState, drive: Drive) -> T:
        """What a writer's look at the value says; raises `LineFailed` where it cannot tell."""
        step_outside()
        try:
            return await look
        except Exception as error:
            raise self.broken("step_failed", reason_of(error), state, drive) from error

    def remarks(self, frames: dict[str, Frame]) -> tuple[str | None, Any]:
        """What was said last about this step's output, or that of a step around it; and that output."""
        path = self.path
        while path:
            frame = frame_of(frames, path)
            if frame.get("was_rejected"):
                previous = load(self._around.outputs[path], frame.get("previous"))
                return frame.get("feedback"), previous
            path = path.rpartition("/")[0]
        return None, None

    def inputs(self, frames: dict[str, Frame]) -> list[BaseModel]:
        """What people filled in for this step, typed."""
        return inputs_of(self.node, frame_of(frames, self.path).get("inputs", []))

    def _output(self, state: LineState, drive: Drive) -> Json:
        """The value in hand as this step's output; raises `LineFailed` where it does not fit."""
        return state.get("value")

    def fits(self, value: Json, state: LineState, drive: Drive) -> Any:
        """The value as the step's typed input; raises `LineFailed`."""
        try:
            return load(self.node.input, value)
        except ValidationError as error:
            raise self.broken("invalid_input", reason_of(error), state, drive) from error


def noted_secrets(place: str, value: Json, schema: Schema) -> dict[str, Json]:
    """What the line remembers of sensitive values in a value, if there are any."""
    found = secrets_in(value, schema)
    return {"secrets": {place: sorted(found)}} if found else {}


def known_secrets(state: LineState, drive: Drive) -> frozenset[str]:
    """The sensitive values that the line has come upon: none of them is shown in any text."""
    return drive.secrets.union(*state.get("secrets", {}).values())


def reviewed(answer: Answer, output: Json) -> Json:
    """The output as it stands after its review."""
    return answer.output if answer.has_output else output


def rejected_by(answer: Answer) -> str:
    return f"rejected by {answer.by}" + (f": {answer.feedback}" if answer.feedback else "")


def _attempts(frames: dict[str, Frame], path: str) -> int:
    return frame_of(frames, path).get("attempt", 0) + 1
