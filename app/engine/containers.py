"""What the containers do between their steps: look, choose, repeat, fork."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from app.authoring.gates import AskInput, Choose, Confirm
from app.authoring.shape import dump, load
from app.authoring.step import ConditionNode, LoopNode, ParallelNode, RouterNode, WorkflowNode
from app.domain.json import Json
from app.domain.pause import Answer
from app.engine.drive import Drive, Fork, LineCancelled, drive_of
from app.engine.faults import reason_of
from app.engine.frames import Frame, changed, frame_of, remarked
from app.engine.routing import ModelChoice
from app.engine.served import StepPlace
from app.engine.state import LineState
from app.engine.step_asks import StepAsk, gate_ask, review_ask, route_ask
from app.engine.stepping import Next, Stepping, known_secrets, rejected_by, reviewed


class InnerStepping(Stepping):
    """Steps that are gated as one: the step itself is nothing but what is in it."""

    @property
    def body(self) -> str:
        return self.first


class WorkflowStepping(Stepping):
    """A workflow as a step: what it is given is read as its input, what it gives as its output."""

    async def begin(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Reads the input."""
        drive = drive_of(runtime)
        value = dump(self.node.input, self.fits(state.get("value"), state, drive))
        first = self.first
        return Command(goto=first, update={"value": value})

    def _output(self, state: LineState, drive: Drive) -> Json:
        workflow = cast("WorkflowNode", self.node).workflow
        try:
            return dump(workflow.output, load(workflow.output, state.get("value")))
        except Exception as error:
            raise self.broken("invalid_output", reason_of(error), state, drive) from error


class ConditionStepping(Stepping):
    """Takes one branch or the other."""

    then: str
    otherwise: str

    async def branch(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Looks at the value in hand; without a look, whoever let it begin has decided."""
        drive = drive_of(runtime)
        drive.check()
        when = cast("ConditionNode", self.node).when
        if frame_of(state.get("frames", {}), self.path).get("was_turned_down"):
            return Command(goto=self.otherwise)
        if when is None:
            return Command(goto=self.then)
        typed = load(when.input, state.get("value"))
        is_so = await self.looked(when.at(typed), state, drive)
        return Command(goto=self.then if is_so else self.otherwise)

    async def gate_of(
        self, gate: Confirm | AskInput, at: StepPlace, index: int, value: Json
    ) -> StepAsk:
        """With both, the pause says which branch it would be."""
        when = cast("ConditionNode", self.node).when
        if when is None or not isinstance(gate, Confirm):
            return gate_ask(gate, at, index)
        try:
            branch = "then" if await when.at(load(when.input, value)) else "otherwise"
        except Exception:  # noqa: BLE001 - a look that fails is told when it is due
            branch = None
        return gate_ask(gate, at, index, branch=branch)

    def turned_down(self, means: str, answer: Answer, state: LineState, drive: Drive) -> Next:
        if means == "else" and answer.action != "fail":
            frames = changed(state.get("frames", {}), self.path, was_turned_down=True)
            return Command(goto=self.otherwise, update={"frames": frames})
        return super().turned_down(means, answer, state, drive)


class RouterStepping(Stepping):
    """Takes its choices one after the other."""

    entries: Mapping[str, str]
    model: ModelChoice | None = None

    @property
    def next_label(self) -> str:
        return f"{self.path}#next"

    async def select(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Finds out which way: by a function, by a person, by a model."""
        drive = drive_of(runtime)
        drive.check()
        node = cast("RouterNode", self.node)
        match node.select:
            case Choose() as choose:
                return self._asked_for(choose, node, state, drive)
            case _ if self.model is not None:
                name, update = await self.model.choose(
                    node, self.at_now(state.get("frames", {}), drive), state, drive
                )
                return self._taking([name], state, **update)
            case look:
                typed = load(cast("Any", look).input, state.get("value"))
                selected = await self.looked(cast("Any", look).at(typed), state, drive)
        try:
            return self._taking(node.chosen(selected), state)
        except ValueError as error:
            raise self.broken("step_failed", str(error), state, drive) from error

    def _asked_for(self, choose: Choose, node: RouterNode, state: LineState, drive: Drive) -> Next:
        choices = [(each.name, each.description) for each in node.choices]
        ask = route_ask(choose, self.at_now(state.get("frames", {}), drive), choices)
        answer = self.asked(drive, ask)
        if not answer.approved:
            return self.turned_down(choose.on_reject, answer, state, drive)
        return self._taking(cast("list[str]", answer.value), state)

    def _taking(self, names: Sequence[str], state: LineState, **update: Json) -> Next:
        first, *rest = names
        frames = changed(state.get("frames", {}), self.path, routes=list(rest))
        return Command(goto=self.entries[first], update={"frames": frames, **update})

    async def next(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """The next choice, or the end."""
        routes = frame_of(state.get("frames", {}), self.path).get("routes", [])
        if routes:
            return self._taking(routes, state)
        return Command(goto=self.done_label)


class LoopStepping(InnerStepping):
    """Runs its steps again on what they gave."""

    restarts: ClassVar[Mapping[str, Any]] = {"iteration": 0}

    def entered(self, state: LineState, drive: Drive) -> dict[str, Frame]:
        return changed(super().entered(state, drive), self.path, iteration=0)

    @property
    def turn_label(self) -> str:
        return f"{self.path}#turn"

    @property
    def each_label(self) -> str:
        return f"{self.path}#each"

    async def turn(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """After an iteration: is it the last one?"""
        drive, node = drive_of(runtime), cast("LoopNode", self.node)
        drive.check()
        if node.until is not None:
            typed = load(node.until.input, state.get("value"))
            if await self.looked(node.until.at(typed), state, drive):
                return Command(goto=self.done_label)
        if node.after_each is not None:
            typed = load(node.output, state.get("value"))
            goto = self.each_label if node.after_each.asks_about(typed) else self.done_label
            return Command(goto=goto)
        if self._iteration(state) + 1 >= node.max_iterations:
            return Command(goto=self.done_label)
        return self._iterate(state)

    async def each(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Asks about an iteration's output: it is accepted, or the next one begins with the feedback."""
        drive, node = drive_of(runtime), cast("LoopNode", self.node)
        drive.check()
        review = node.after_each
        if review is None:
            raise AssertionError("only a loop with after_each= has this node")
        place, output = self.at_now(state.get("frames", {}), drive), state.get("value")
        answer = self.asked(
            drive, review_ask(review, place, output, secrets=known_secrets(state, drive), at="each")
        )
        if answer.approved:
            return Command(goto=self.done_label, update={"value": reviewed(answer, output)})
        if review.on_reject != "retry" or answer.action == "fail":
            return self.turned_down(review.on_reject, answer, state, drive)
        if self._iteration(state) + 1 >= node.max_iterations:
            raise LineCancelled(rejected_by(answer))
        return self._iterate(state, feedback=answer.feedback, previous=output, was_rejected=True)

    def _iterate(self, state: LineState, **changes: Any) -> Next:
        frames = changed(
            state.get("frames", {}), self.path, iteration=self._iteration(state) + 1, **changes
        )
        return Command(goto=self.first, update={"frames": frames})

    def _iteration(self, state: LineState) -> int:
        return frame_of(state.get("frames", {}), self.path).get("iteration", 0)


class ParallelStepping(Stepping):
    """Forks its line into branches and goes on once all of them have ended."""

    async def fork(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Stops the line; whoever drives it runs the branches and comes back with their outputs."""
        drive = drive_of(runtime)
        drive.check()
        node = cast("ParallelNode", self.node)
        place = self.at_now(state.get("frames", {}), drive)
        drive.forking = Fork(
            branches={f"{place.path}/{each.name}": each.name for each in node.steps},
            given={
                "value": state.get("value"),
                "decided": state.get("decided", False),
                "frames": remarked(state.get("frames", {})),
                "secrets": state.get("secrets", {}),
            },
        )
        joined = interrupt({"place": f"{place.path}#fork"})
        drive.forking = None
        return Command(goto=self.done_label, update=joined["value"])
