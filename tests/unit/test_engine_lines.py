"""The lines of a run side by side: whatever comes when, a decision wakes its line."""

import asyncio
from collections.abc import Mapping, Sequence

from app.domain.json import Json
from app.domain.pause import Answer, Ask
from app.engine.drive import BranchEnded, Ended, Forked, Held, LineOutcome
from app.engine.lines import LineNow, Lines

YES: Mapping[str, Answer] = {"i": Answer(approved=True, by="alice", via="api", shape="verdict")}


class Desk:
    """Somebody who decides at a moment of the test's choice."""

    def __init__(self) -> None:
        self.news = asyncio.Queue[Mapping[str, Answer]]()
        self.put = asyncio.Queue[Sequence[Ask]]()

    async def open(self, asks: Sequence[Ask]) -> None:
        self.put.put_nowait(asks)

    async def decided(self) -> Mapping[str, Answer]:
        return await self.news.get()


async def test_a_decision_that_comes_while_its_line_is_being_looked_at_wakes_the_line() -> None:
    desk = Desk()

    async def run_line(now: LineNow) -> LineOutcome:
        if now.joined:
            return Ended(output="joined", shown_output="joined")
        if "i" in now.answers:
            return ended("went on")
        desk.news.put_nowait(YES)  # it is heard before this line has said that it waits
        for _ in range(5):
            await asyncio.sleep(0)
        return Held(interrupt_id="i")

    lines = Lines(run_line, desk, {}, asyncio.Event())
    fork = Forked(interrupt_id="f", branches={"root/a": "a"}, given={"value": "x"})
    async with asyncio.timeout(15):
        outcome = await lines.drive("root", fork)
    assert outcome == Ended(output="joined", shown_output="joined")


def ended(output: Json) -> BranchEnded:
    return BranchEnded(output=output, left_out=False, said={}, secrets={}, decided=False)


async def test_the_end_of_a_branch_is_kept_while_its_sibling_still_runs() -> None:
    desk, release = Desk(), asyncio.Event()

    async def run_line(now: LineNow) -> LineOutcome:
        if now.joined:
            return Ended(output="joined", shown_output="joined")
        if now.line == "root/slow":
            await release.wait()
        return ended(now.line)

    lines = Lines(run_line, desk, {}, asyncio.Event())
    branches = {"root/slow": "slow", "root/quick": "quick"}
    fork = Forked(interrupt_id="f", branches=branches, given={"value": "x"})
    driving = asyncio.create_task(lines.drive("root", fork))
    async with asyncio.timeout(15):
        assert not await desk.put.get()
        release.set()
        assert isinstance(await driving, Ended)
