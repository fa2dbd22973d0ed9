"""A service is struck at every boundary between two writes of a run; another one goes on with it.

Its wire to Postgres is held before a statement is sent, or after it was committed and before that is known;
then the service is killed, or frozen until another one has ended the run, and let go on.

`CRASH_ROUNDS` says how often all of it is done, once by default. `CRASH_EVERY=1` strikes at every point with
every fate; without it, every sixth pair of both has its turn.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crossing import Crossing, Fate, Place, cross
from tests.history import find, until_told
from tests.long.conftest import Say
from tests.postgres import Cluster
from tests.receivers import Receiver
from tests.service import Api, processes
from tests.wire import LOOKS, Moment, Point
from tests.workflows.crossings import SERVED, is_whole
from tests.workflows.effects import VARIABLE, Effects

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "1"))
EVERY = int(os.environ.get("CRASH_EVERY", "12"))
AT_ONCE = 4


def points_of(seen: Sequence[str]) -> list[Point]:
    """Before and after each statement that writes."""
    counts = Counter(seen)
    return [
        Point(statement=name, nth=nth, moment=moment)
        for name, count in counts.items()
        for nth in range(1, count + 1)
        for moment in Moment
        if moment is Moment.AFTER or name not in LOOKS
    ]


@pytest.mark.timeout(1200 * ROUNDS)
async def test_at_every_point_a_struck_service_leaves_nothing_undone_and_nothing_done_twice(
    cluster: Cluster, tmp_path: Path, say: Say
) -> None:
    effects = Effects(tmp_path / "effects")
    async with cluster.migrated_database() as url, Receiver() as approvers:
        place = Place(
            folder=tmp_path,
            database_url=url,
            workflows=SERVED,
            environment={
                VARIABLE: str(effects.path),
                "SIGNOFF_CHANNELS__APPROVERS__URL": approvers.url,
                "SIGNOFF_LEASE_SECONDS": "1",
            },
        )
        with processes(
            tmp_path, workflows=SERVED, database_url=url, environment=place.environment
        ) as begun:
            survivor = await begun.serve()
            async with survivor.api() as api:
                crossings = await _strike_everywhere(place, api, say)
                await until_told(url, approvers.received)
        findings = await find(url, effects, received=approvers.received, freezes=place.freezes)
    for each in crossings:
        if not is_whole(each.run, effects.of(each.run)):
            findings.faults.append(f"did not go to its end: {each.run['id']}")
    findings.counts["struck"] = sum(each.is_struck for each in crossings)
    say(f"crash points: {findings}")
    assert findings.faults == []


async def _strike_everywhere(place: Place, survivor: Api, say: Say) -> list[Crossing]:
    whole = await cross(place, "whole", survivor)
    points = points_of(whole.seen)
    say(f"statements that write: {dict(Counter(whole.seen))}; points: {len(points)}")
    room = asyncio.Semaphore(AT_ONCE)

    async def strike(name: str, point: Point, fate: Fate) -> Crossing:
        async with room:
            return await cross(place, name, survivor, point=point, fate=fate)

    struck = await asyncio.gather(
        *(
            strike(f"{fate}-{number}-{turn}", point, fate)
            for turn in range(ROUNDS)
            for number, point in enumerate(points)
            for turning, fate in enumerate(Fate)
            if (number + turning) % EVERY == 0
        )
    )
    return [whole, *struck]
