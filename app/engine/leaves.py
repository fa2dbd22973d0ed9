"""The steps that do something themselves: functions and agents."""

from typing import cast

from langgraph.runtime import Runtime

from app.authoring import FunctionStep, StepContext
from app.authoring.shape import dump
from app.authoring.text import text_of
from app.domain.json import Json
from app.engine.drive import Drive, drive_of, step_outside
from app.engine.faults import reason_of
from app.engine.frames import Frame, frame_of
from app.engine.outputs import Outputs
from app.engine.state import Handed, LineState
from app.engine.stepping import Next, Stepping


class FunctionStepping(Stepping):
    """A function of the value in hand. A bare one is one node, which enters, runs and leaves."""

    @property
    def is_bare(self) -> bool:
        """Whether nobody is asked about it, whatever happens."""
        return not self.node.before and self.node.after is None and self.node.on_error == "fail"

    async def run(self, state: LineState, runtime: Runtime[Drive]) -> Next:
        """Runs the function."""
        drive = drive_of(runtime)
        drive.check()
        step_outside()
        if self.is_bare:
            state = cast("LineState", {**state, "frames": self.entered(state, drive)})
        await drive.journal.barrier()
        return self.finished(state, await self._called(state, drive), drive)

    async def _called(self, state: LineState, drive: Drive) -> Json:
        frames, step = state.get("frames", {}), cast("FunctionStep", self.node)
        feedback, previous = self.remarks(frames)
        context = StepContext(
            run_id=drive.start.run.run_id,
            thread_id=drive.start.run.thread_id,
            metadata=drive.start.metadata,
            outputs=self._outputs(frames, drive),
            inputs=self.inputs(frames),
            feedback=feedback,
            previous_output=previous,
        )
        taken = self.fits(state.get("value"), state, drive)
        try:
            return dump(step.output, await step.call(context, taken))
        except Exception as error:
            raise self.broken("step_failed", reason_of(error), state, drive) from error

    def _outputs(self, frames: dict[str, Frame], drive: Drive) -> Outputs:
        return Outputs(
            drive.outputs,
            self._around.outputs,
            reader=self.at_now(frames, drive).path,
            branches=drive.start.branches,
        )


class AgentStepping(Stepping):
    """An agent, whose graph is a node of its own between entering and leaving."""

    def handed(self, frames: dict[str, Frame], drive: Drive) -> dict[str, Json]:
        frame = frame_of(frames, self.path)
        feedback, previous = self.remarks(frames)
        handed = Handed(
            place=self.at_now(frames, drive).path,
            inputs=frame.get("inputs", []),
            feedback=feedback,
            previous=None if previous is None else text_of(previous),
        )
        return {"handed": cast("Json", handed)}
