"""What is gathered, when it must be written, and that nothing of it is lost."""

import asyncio

import pytest

from app.domain.event import Event, EventType
from app.domain.facts import Facts
from app.domain.ledger import LedgerEntry, LedgerKind
from app.domain.step import StepRecord, StepStatus
from app.engine.journal import Journal, in_task

EVENT = Event(type=EventType.STEP_STARTED)
COST = LedgerEntry(place="a#0.0", kind=LedgerKind.MODEL, agent="a", name="m")


class Writer:
    """Writes a journal, slowly, as one statement at a time."""

    def __init__(self) -> None:
        self.written: list[Facts] = []
        self.writing = 0
        self.journal = Journal(self.write)

    async def write(self) -> None:
        self.writing += 1
        assert self.writing == 1, "one write at a time"
        facts = self.journal.take()
        await asyncio.sleep(0)
        self.written.append(facts)
        self.writing -= 1


async def test_a_barrier_writes_only_what_could_not_be_had_again() -> None:
    writer = Writer()
    writer.journal.note(EVENT)
    await writer.journal.barrier()
    assert writer.written == []
    writer.journal.book(COST)
    await writer.journal.barrier()
    await writer.journal.barrier()
    assert writer.written == [Facts(events=(EVENT,), ledger=(COST,))]


async def test_barriers_at_the_same_moment_write_once() -> None:
    writer = Writer()
    writer.journal.keep()
    await asyncio.gather(*(writer.journal.barrier() for _ in range(5)))
    assert len(writer.written) == 1


async def test_no_effect_begins_before_the_write_it_rests_on_is_answered() -> None:
    async def lose() -> None:
        await asyncio.sleep(0)
        raise ConnectionError

    journal = Journal(lose)
    journal.keep()
    passed = await asyncio.gather(*(journal.barrier() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in passed] == [ConnectionError] * 3


async def test_a_flush_writes_at_once_and_leaves_the_next_barrier_to_write_again() -> None:
    writer = Writer()
    writer.journal.book(COST)
    await asyncio.gather(writer.journal.flush(), writer.journal.flush())
    assert [facts.ledger for facts in writer.written] == [(COST,), ()]
    await writer.journal.barrier()
    assert len(writer.written) == 3


async def test_a_write_that_failed_loses_nothing() -> None:
    async def fail() -> None:
        facts = journal.take()
        journal.book(later)
        journal.put_back(facts)
        raise ConnectionError

    later = LedgerEntry(place="a#0.1", kind=LedgerKind.MODEL, agent="a", name="m")
    journal = Journal(fail)
    journal.note(EVENT)
    journal.book(COST)
    with pytest.raises(ConnectionError):
        await journal.barrier()
    assert journal.take() == Facts(events=(EVENT,), ledger=(COST, later))


def test_a_step_stands_in_the_journal_as_it_stands_last() -> None:
    journal = Writer().journal
    started = StepRecord(path="w/a", name="a", type="function", index=0, status=StepStatus.RUNNING)
    ended = StepRecord(
        path="w/a", name="a", type="function", index=0, status=StepStatus.COMPLETED, output=1
    )
    journal.record(started)
    facts = journal.take()
    journal.record(ended)
    journal.put_back(facts)
    assert journal.take().steps == (ended,)


async def test_a_barrier_lets_nobody_through_who_may_do_nothing_any_more() -> None:
    def refuse() -> None:
        raise PermissionError

    writer = Writer()
    journal = Journal(writer.write, check=refuse)
    with pytest.raises(PermissionError):
        await journal.barrier()
    journal.keep()
    with pytest.raises(PermissionError):
        await journal.barrier()


async def _in_task(journal: Journal, task: str, *, waits: asyncio.Event | None = None) -> None:
    """Has a task begin a step and book what it cost; it goes on until it may end."""
    in_task(task)
    journal.note(EVENT)
    journal.book(COST)
    if waits is not None:
        await waits.wait()


async def test_what_a_task_has_done_is_held_back_until_its_checkpoint_is_there() -> None:
    writer = Writer()
    await asyncio.create_task(_in_task(writer.journal, "a"))
    writer.journal.write_soon()
    await writer.journal.barrier()
    assert writer.written == [Facts(events=(EVENT,))]
    writer.journal.kept("a")
    await writer.journal.barrier()
    assert writer.written[1:] == [Facts(ledger=(COST,))]


async def test_a_barrier_writes_nothing_for_a_task_that_is_still_under_way() -> None:
    writer, may_end = Writer(), asyncio.Event()
    under_way = asyncio.create_task(_in_task(writer.journal, "a", waits=may_end))
    await asyncio.sleep(0)
    await writer.journal.barrier()
    assert writer.written == []
    may_end.set()
    await under_way


async def test_what_tasks_have_done_is_written_in_the_order_in_which_they_did_it() -> None:
    def noted(type: EventType) -> Event:
        event = Event(type=type)
        journal.note(event)
        return event

    async def two_steps() -> list[Event]:
        in_task("a")
        return [noted(EventType.STEP_COMPLETED), noted(EventType.STEP_STARTED)]

    journal = Writer().journal
    first = noted(EventType.STEP_STARTED)
    both = await asyncio.create_task(two_steps())
    assert journal.take().events == (first,)  # what began after something that waits, waits too
    last = noted(EventType.STEP_COMPLETED)
    journal.kept("a")
    assert journal.take().events == (*both, last)


async def test_at_the_end_of_a_run_everything_is_written() -> None:
    journal = Writer().journal
    await asyncio.create_task(_in_task(journal, "a"))
    assert journal.take_all() == Facts(events=(EVENT,), ledger=(COST,))
