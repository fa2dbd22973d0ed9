"""Notes how a step goes."""

from collections.abc import Iterable

from app.domain.event import Event, EventType
from app.domain.json import Json
from app.domain.step import StepRecord, StepStatus
from app.engine import scrubbing
from app.engine.drive import Drive
from app.engine.served import StepPlace


def started(drive: Drive, place: StepPlace, *, attempts: int = 1) -> None:
    """The step has begun, or has begun again."""
    _note(drive, place, EventType.STEP_STARTED)
    drive.journal.record(_record(place, StepStatus.RUNNING, attempts))


def completed(
    drive: Drive,
    place: StepPlace,
    output: Json,
    secrets: Iterable[str] = (),
    *,
    attempts: int = 1,
) -> None:
    """The step has given its output; `secrets` are struck out of what is shown of it."""
    _note(drive, place, EventType.STEP_COMPLETED)
    drive.outputs[place.path] = output
    secrets = [*secrets, *drive.secrets]
    shown = scrubbing.shown(output, place.output_schema, secrets)
    drive.journal.record(
        _record(place, StepStatus.COMPLETED, attempts, output=output, shown_output=shown)
    )


def skipped(drive: Drive, place: StepPlace, *, attempts: int = 1) -> None:
    """The step was left out, or what it gave was dropped."""
    _note(drive, place, EventType.STEP_SKIPPED)
    drive.outputs.pop(place.path, None)
    drive.journal.record(_record(place, StepStatus.SKIPPED, attempts))


def failed(drive: Drive, place: StepPlace, *, attempts: int = 1) -> None:
    """The step cannot go on."""
    _note(drive, place, EventType.STEP_FAILED)
    drive.journal.record(_record(place, StepStatus.FAILED, attempts))


def _note(drive: Drive, place: StepPlace, type: EventType) -> None:
    data: dict[str, Json] = {"path": place.path, "name": place.name, "index": place.index}
    drive.journal.note(Event(type=type, data=data))


def _record(place: StepPlace, status: StepStatus, attempts: int, **outputs: Json) -> StepRecord:
    return StepRecord(
        path=place.path,
        name=place.name,
        type=place.type,
        index=place.index,
        status=status,
        attempts=attempts,
        **outputs,
    )
