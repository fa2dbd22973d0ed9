"""The workflows that are served here: the newest by name, and every version by its fingerprint."""

from collections.abc import Sequence

from app.authoring import Channel
from app.engine.program import Program
from app.errors import AuthoringError, Conflict, NotFound


class UnknownWorkflow(NotFound):
    """No workflow of that name is served here."""


class WorkflowIncompatible(Conflict):
    """The run was started with a workflow of another shape than any that is served here."""

    code = "workflow_incompatible"


class Catalog:
    """Programs by name and by fingerprint; of two versions of one workflow, new runs take the last named.

    `unaddressed` are channels nobody can be told by, since they have no address: their pauses wait to be
    looked for.
    """

    def __init__(
        self, programs: Sequence[Program], *, unaddressed: frozenset[str] = frozenset()
    ) -> None:
        self._unaddressed = unaddressed
        self._latest = {program.name: program for program in programs}
        self._by_fingerprint = {program.fingerprint: program for program in programs}
        seen: set[tuple[str, str]] = set()
        for program in programs:
            if (program.name, program.version) in seen:
                raise AuthoringError(
                    f"The workflow {program.name} {program.version} is served twice: "
                    "give the changed one another version."
                )
            seen.add((program.name, program.version))

    @property
    def fingerprints(self) -> list[str]:
        return list(self._by_fingerprint)

    @property
    def latest(self) -> list[Program]:
        return list(self._latest.values())

    def named(self, name: str) -> Program:
        """The program that new runs of a workflow take. Raises `UnknownWorkflow`."""
        program = self._latest.get(name)
        if program is None:
            raise UnknownWorkflow(f"There is no workflow {name!r} here.", workflow=name)
        return program

    def of(self, fingerprint: str, *, workflow: str) -> Program:
        """The program a run goes on with. Raises `WorkflowIncompatible`."""
        program = self._by_fingerprint.get(fingerprint)
        if program is None:
            here = self._latest.get(workflow)
            raise WorkflowIncompatible(
                f"No workflow {workflow!r} of this run's shape is served here. Nothing is lost: "
                "serve that version again, beside the new one if need be.",
                fingerprint=fingerprint,
                served=here.fingerprint if here else None,
            )
        return program

    def channel(self, workflow: str, name: str) -> Channel | None:
        """A channel of a workflow, by name."""
        programs = (each for each in self._by_fingerprint.values() if each.name == workflow)
        return next((each.channels[name] for each in programs if name in each.channels), None)

    def told_by(self, program: Program) -> frozenset[str]:
        """The channels of a program that have to be told of its pauses."""
        return program.told_channels - self._unaddressed

    @property
    def told_here(self) -> frozenset[tuple[str, str]]:
        """The channels that can be told from here, each with the name of its workflow."""
        return frozenset(
            (program.name, channel)
            for program in self._by_fingerprint.values()
            for channel in self.told_by(program)
        )

    def channels_to_tell(self, name: str) -> frozenset[str]:
        """The channels that have to be told of a workflow's pauses, whatever the version."""
        return frozenset(
            channel
            for program in self._by_fingerprint.values()
            if program.name == name
            for channel in self.told_by(program)
        )
