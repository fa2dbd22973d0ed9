"""The machine of Postgres is gone, under load, and its standby takes its place: nothing accepted is lost."""

import asyncio
import random
from pathlib import Path

import pytest

from app.storage.migrate import migrate
from tests.history import Findings, find, until_told
from tests.long.conftest import Say
from tests.long.test_crashes_at_random import CALLERS, LEASE, Crowd
from tests.receivers import Receiver
from tests.service import Processes, processes
from tests.standby import Pair, primary_and_standby
from tests.workflows.crossings import SERVED, is_whole
from tests.workflows.effects import VARIABLE, Effects

LOADED = 6.0
"""Seconds of load before the primary is killed, and after its standby has taken over."""


@pytest.mark.timeout(600)
async def test_with_the_primary_gone_the_standby_has_everything_and_every_run_ends_right(
    tmp_path: Path, say: Say
) -> None:
    effects = Effects(tmp_path / "effects")
    async with Receiver() as approvers:
        environment = {
            VARIABLE: str(effects.path),
            "SIGNOFF_CHANNELS__APPROVERS__URL": approvers.url,
            "SIGNOFF_ALLOWED_NETWORKS": "127.0.0.0/8",
        }
        with primary_and_standby() as pair:
            await migrate(pair.url)
            with processes(
                tmp_path, workflows=SERVED, database_url=pair.url, environment=environment
            ) as begun:
                crowd = await _live(begun, pair)
                await until_told(pair.url, approvers.received)
            findings = await find(pair.url, effects, received=approvers.received)
    _look_at_runs(findings, crowd, effects)
    say(f"failed over: {len(crowd.runs)} runs; {findings}")
    assert findings.faults == []


async def _live(begun: Processes, pair: Pair) -> Crowd:
    """Callers and approvers under way while the primary goes and its standby takes over."""
    doors = [await begun.serve(lease_seconds=LEASE) for _ in range(2)]
    await begun.work(lease_seconds=LEASE)
    async with doors[0].api() as first, doors[1].api() as second:
        crowd, over = Crowd((first, second), random.Random(1)), asyncio.Event()
        calling = [asyncio.create_task(crowd.call_until(over)) for _ in range(CALLERS)]
        await asyncio.sleep(LOADED)
        pair.kill_primary()
        await asyncio.sleep(1)
        await asyncio.to_thread(pair.promote)
        await asyncio.sleep(LOADED)
        over.set()
        await asyncio.gather(*calling)
        return crowd


def _look_at_runs(findings: Findings, crowd: Crowd, effects: Effects) -> None:
    """Whether every accepted run came to its end, and everybody who was told that they decided did."""
    for run in crowd.runs:
        if not is_whole(run, effects.of(run)):
            findings.faults.append(f"did not go to its end: {run['id']} {run['error']}")
        for pause in run["pauses"]:
            told, voted = crowd.taken.get(pause["id"], set[str]()), pause["votes"]
            counted = {vote["by"] for vote in voted} or {pause["decision"]["by"]}
            if not told <= counted:
                findings.faults.append(f"told {told}, decided by {counted}: {pause['id']}")
