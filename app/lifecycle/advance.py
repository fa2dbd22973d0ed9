"""Advances a leased run until it asks, ends, or is not this worker's any more."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from app.domain.facts import Facts, RunEnd
from app.domain.ids import CallId, PauseId
from app.domain.json import Json
from app.domain.pause import Answer, Ask
from app.domain.run import Lease, RunError, RunRef, RunStatus
from app.domain.step import StepStatus
from app.engine.drive import Cancelled, Ended, Failed, LineStart, Outcome, Waiting
from app.engine.journal import Journal
from app.engine.program import Program
from app.errors import SignoffError
from app.lifecycle.hands import Work
from app.lifecycle.parked import Parked
from app.lifecycle.site import Site, settled_hint
from app.storage import progress, runs
from app.storage.checkpoints import RunCheckpointer
from app.storage.database import StoreUnavailable
from app.storage.pauses import PauseRow
from app.storage.progress import Addressees, Leavings, Wrote
from app.storage.runs import LeaseLost, Loaded
from app.storage.sealing import KeyAbsent
from app.watching import logs
from app.watching.traces import Carrier, Span
from app.watching.watch import Watch, watched_by

log = logging.getLogger(__name__)


async def advance(site: Site, work: Work) -> None:
    """Goes on with a run from where it is.

    A lost lease or a lost database ends the attempt and nothing else: whoever claims the run next goes on
    from what is written. When this task is cancelled, the run is given back.
    """
    run = work.lease.run
    logs.belongs_to(run_id=run.run_id, thread_id=run.thread_id, workflow=work.workflow)
    watched_by(Watch(workflow=work.workflow, metrics=site.metrics))
    traced = site.traces.run(
        work.trace, workflow=work.workflow, thread_id=run.thread_id, run_id=run.run_id
    )
    try:
        with traced as span:
            program = site.catalog.of(work.fingerprint, workflow=work.workflow)
            loaded = work.loaded or await _load(site, run, program)
            await _Advance.of(site, work, program, loaded, span).until_settled()
    except LeaseLost:
        site.metrics.lease_lost()
        log.warning("lease lost", extra={"fence": work.lease.fence})
    except StoreUnavailable as error:
        log.warning("store lost", extra={"reason": error.values["reason"]})
    finally:
        site.hands.leave(run.run_id)
        site.waiters.wake(run.run_id)
        if work.from_queue:
            site.tell_others(settled_hint(run.run_id))


async def _load(site: Site, run: RunRef, program: Program) -> Loaded:
    workflow = program.workflow
    return await runs.load(
        site.database, run, history=workflow.history, has_budget=workflow.budget is not None
    )


@dataclass(kw_only=True)
class _Advance:
    """One attempt: the run, its checkpoints in memory, and what is not written yet."""

    site: Site
    lease: Lease
    program: Program
    loaded: Loaded
    saver: RunCheckpointer
    journal: Journal
    addressees: Addressees
    span: Span
    trace: Carrier | None
    opened: bool = False
    """Whether pauses were opened while the run went on."""
    kept_results: bool = False
    """Whether a step's result was stored."""
    kept_outputs: bool = False
    """Whether a step's output was stored."""

    @classmethod
    def of(cls, site: Site, work: Work, program: Program, loaded: Loaded, span: Span) -> "_Advance":
        run = work.lease.run
        saver = RunCheckpointer(
            thread_id=run.thread_id,
            run_id=run.run_id,
            checkpoints=loaded.checkpoints,
            writes=loaded.writes,
        )

        async def write() -> None:
            await advance.save()

        def check() -> None:
            """A worker that was frozen past its lease finds out before it does anything."""
            if site.hands.held_for(run.run_id) > site.lease_seconds:
                raise LeaseLost(run.run_id)

        advance = cls(
            site=site,
            lease=work.lease,
            program=program,
            loaded=loaded,
            saver=saver,
            journal=Journal(write, spent=loaded.spent, check=check),
            addressees=Addressees(
                channels=site.catalog.told_by(program), callback=loaded.has_callback
            ),
            span=span,
            trace=work.trace,
        )
        saver.on_writes = advance._task_ended
        return advance

    async def until_settled(self) -> None:
        self.site.hands.known_decisions[self.lease.run.run_id] = self.loaded.decisions
        try:
            outcome = await self._drive()
            while await self._settle(outcome) is Wrote.DECIDED_MEANWHILE:
                self.loaded = await _load(self.site, self.lease.run, self.program)
                outcome = await self._drive()
        except asyncio.CancelledError:
            await self._give_back()
            raise

    async def _drive(self) -> Outcome:
        loaded = self.loaded
        start = LineStart(
            run=self.lease.run,
            input=loaded.input,
            fresh=self.saver.is_empty,
            history=loaded.history,
            metadata=loaded.metadata,
            requested_by=loaded.requested_by,
            answers=loaded.answers,
            open=loaded.open,
            step_results=loaded.step_results,
            outputs=loaded.outputs,
            save_step_result=self._save_step_result,
            audience=self.site.followers.audience(self.lease.run),
        )
        try:
            return await self.program.drive(
                start, saver=self.saver, journal=self.journal, desk=self
            )
        except (LeaseLost, StoreUnavailable, KeyAbsent):
            raise
        except Exception:
            log.exception("run broke")
            return Failed(
                error=RunError(
                    code="internal_error", message="The service failed; its log says why."
                )
            )

    async def _settle(self, outcome: Outcome) -> Wrote:
        """Writes how the attempt came out, with everything that is still unwritten."""
        match outcome:
            case Waiting(asks=asks) if any(
                each.interrupt_id in self.loaded.answers for each in asks
            ):
                return Wrote.DECIDED_MEANWHILE  # an answer was not taken: it is given again
            case Waiting(asks=asks):
                return await self._park(asks)
            case Ended():
                end = RunEnd(
                    status=RunStatus.COMPLETED,
                    output=outcome.output,
                    shown_output=outcome.shown_output,
                    stop_reason=outcome.stop_reason,
                    history=outcome.history,
                )
            case Failed(error=error):
                end = RunEnd(status=RunStatus.FAILED, error=error)
                _log_failure(outcome)
            case Cancelled(stop_reason=stop_reason):
                end = RunEnd(status=RunStatus.CANCELLED, stop_reason=stop_reason)
        facts = self.journal.take_all()
        await progress.end(
            self.site.database,
            self.lease,
            facts,
            self.addressees,
            end=end,
            leaves=Leavings(
                open_pauses=self.opened or bool(self.loaded.open),
                step_results=self.kept_results or bool(self.loaded.step_results),
            ),
        )
        self._tell()
        self._ended(end, facts)
        return Wrote.DONE

    def _ended(self, end: RunEnd, facts: Facts) -> None:
        code = end.error and end.error.code
        self.site.metrics.run_ended(self.program.name, end.status, code)
        self.span.settled(end.status, code)
        self._written(facts)
        if code is None:
            log.info("run ended", extra={"status": end.status, "stop_reason": end.stop_reason})

    def _written(self, facts: Facts, asks: Sequence[Ask] = ()) -> None:
        """Counts what was written."""
        self.site.metrics.spent(self.program.name, facts.ledger)
        self.kept_outputs |= any(step.status is StepStatus.COMPLETED for step in facts.steps)
        for ask in (*asks, *facts.settled):
            self.site.metrics.pause_opened(self.program.name, ask.kind)
            self.span.asked(ask.kind)
            if ask.settled:
                via = ask.settled.answer.via
                self.site.metrics.decided(self.program.name, ask.kind, via, seconds=0)

    async def _park(self, asks: Sequence[Ask]) -> Wrote:
        facts, unsaved = self.journal.take(), self.saver.take()
        written = await progress.park(
            self.site.database,
            self.lease,
            facts,
            unsaved,
            self.addressees,
            asks=asks,
            seen=self.loaded.decisions,
        )
        if written.wrote is Wrote.DONE:
            self.saver.saved(unsaved)
            self._tell()
            self._written(facts, asks)
            self._remember(asks, written.opened)
            self.span.settled(RunStatus.PAUSED)
        else:
            self.journal.put_back(facts)
        return written.wrote

    def _remember(self, asks: Sequence[Ask], opened: Sequence[PauseId]) -> None:
        """Keeps the run at hand for a decision that comes here, where it waits at one plain question."""
        loaded = self.loaded
        others = self.opened or loaded.open
        more = self.kept_results or loaded.step_results or self.kept_outputs or loaded.outputs
        if len(asks) != 1 or len(opened) != 1 or others or more or self.program.workflow.budget:
            return
        ask, run = asks[0], self.lease.run
        if ask.interrupt_id is None or not ask.policy.is_plain:
            return
        checkpoints, writes = self.saver.kept
        pause = PauseRow.opened(
            opened[0],
            run,
            ask,
            workflow=self.program.name,
            fingerprint=self.program.fingerprint,
            requested_by=loaded.requested_by,
            has_callback=loaded.has_callback,
            trace=self.trace,
        )
        self.site.parked.keep(
            Parked(
                pause=pause,
                interrupt_id=ask.interrupt_id,
                fence=self.lease.fence,
                loaded=replace(loaded, checkpoints=checkpoints, writes=writes),
                opened_at=time.monotonic(),
            )
        )

    async def open(self, asks: Sequence[Ask]) -> None:
        """Opens pauses, if any, while the run goes on, with everything that is unwritten."""
        async with self.journal.writing:
            self.opened = self.opened or bool(asks)
            await self.save(asks)

    async def decided(self) -> Mapping[str, Answer]:
        """The answers so far, as soon as there are more than were known."""
        run_id = self.lease.run.run_id
        news = self.site.hands.news_of(run_id)
        while True:
            await news.wait()
            news.clear()
            known = self.loaded.decisions
            try:
                decisions, answers = await runs.decisions(self.site.database, self.lease.run)
            except StoreUnavailable:  # whoever looks at the leases tells again
                continue
            self.loaded = replace(self.loaded, decisions=decisions, answers=answers)
            self.site.hands.known_decisions[run_id] = decisions
            if decisions > known:
                return answers

    async def save(self, asks: Sequence[Ask] = ()) -> None:
        """Writes what is unwritten; the run goes on."""
        facts, unsaved = self.journal.take(), self.saver.take()
        try:
            await progress.save(
                self.site.database, self.lease, facts, unsaved, self.addressees, asks=asks
            )
        except BaseException:
            self.journal.put_back(facts)
            raise
        self.saver.saved(unsaved)
        self._tell()
        self._written(facts, asks)

    def _tell(self) -> None:
        """Wakes who follows the run, and has the notices sent that were just written, if there can be any."""
        self.site.happened(self.lease.run)
        if self.addressees.channels or self.addressees.callback:
            self.site.deliveries_due.set()

    async def _task_ended(self, task: str) -> None:
        """What it noted may be written; a call that has ended is, at once, where its siblings may take long."""
        self.journal.kept(task)
        if self.journal.in_flight:
            await self.journal.flush()

    async def _save_step_result(self, call_id: CallId, name: str, value: Json) -> None:
        self.kept_results = True
        await runs.save_step_result(self.site.database, self.lease, call_id, name, value)

    async def _give_back(self) -> None:
        """Queues the run for another worker, with everything that this one has finished."""
        facts, unsaved = self.journal.take(), self.saver.take()
        giving = progress.hand_back(self.site.database, self.lease, facts, unsaved, self.addressees)
        with suppress(LeaseLost, StoreUnavailable):
            await asyncio.shield(giving)
            self.site.happened(self.lease.run)
            self._written(facts)


def _log_failure(failed: Failed) -> None:
    """Why a run fails, for whoever is woken by it: in the service's own words, and where it was raised."""
    error, cause = failed.error, failed.cause
    details = cast("dict[str, Json]", error.details) if isinstance(error.details, dict) else {}
    log.warning(
        "run failed",
        exc_info=cause,
        extra={
            "code": error.code,
            "step": error.step,
            "limit": details.get("key"),
            "reason": cause.message if isinstance(cause, SignoffError) else None,
        },
    )
