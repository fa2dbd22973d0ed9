"""A function step as a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from langgraph.runtime import Runtime
from pydantic import ValidationError

from app.authoring import FunctionStep, StepContext
from app.authoring.shape import dump, load
from app.domain.json import Json
from app.engine import steps
from app.engine.drive import Drive, LineFailed, step_outside
from app.engine.faults import reason_of
from app.engine.served import StepPlace
from app.engine.state import LineState


class FunctionNode:
    """Runs a function on the value in hand. `before` are the steps that come before it."""

    def __init__(self, step: FunctionStep, place: StepPlace, before: tuple[StepPlace, ...]) -> None:
        self._step = step
        self._place = place
        self._before = before

    async def run(self, state: LineState, runtime: Runtime[Drive]) -> LineState:
        step_outside()
        drive = runtime.context
        steps.started(drive, self._place)
        await drive.journal.barrier()
        output = await self._output(state.get("value"), drive)
        steps.completed(drive, self._place, output)
        return {"value": output}

    async def _output(self, value: Json, drive: Drive) -> Json:
        run = drive.start.run
        context = StepContext(
            run_id=run.run_id,
            thread_id=run.thread_id,
            metadata=drive.start.metadata,
            outputs=_Outputs(self._before, drive.outputs),
        )
        try:
            taken = load(self._step.input, value)
        except ValidationError as error:
            raise self._failed("invalid_input", error) from error
        try:
            return dump(self._step.output, await self._step.call(context, taken))
        except Exception as error:
            raise self._failed("step_failed", error) from error

    def _failed(self, code: str, error: Exception) -> LineFailed:
        return LineFailed(code, reason_of(error), step=self._place.path)


class _Outputs(Mapping[str, Any]):
    """The outputs of earlier steps by name, typed as they are read."""

    def __init__(self, places: tuple[StepPlace, ...], outputs: Mapping[str, Json]) -> None:
        self._places = {place.name: place for place in places if place.path in outputs}
        self._outputs = outputs

    def __getitem__(self, name: str) -> Any:
        place = self._places[name]
        return load(place.output, self._outputs[place.path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
