"""Fifty decisions at once about one pause, over several services."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.service import Api, Json, approval, rejection
from tests.workflows.effects import Effects

MANY = 50


@dataclass(frozen=True, kw_only=True)
class Race:
    """What came of it: the run, the decisions that were taken, and how often which refusal was answered."""

    run: Json
    taken: list[Json]
    refused: Counter[tuple[int, str]]


async def race(doors: Sequence[Api]) -> Race:
    """Every other one approves, the others reject; each has a name of its own."""
    run = await doors[0].started("letters")
    decisions = [
        (approval if number % 2 else rejection)(by=f"clerk {number}") for number in range(MANY)
    ]
    answers = await asyncio.gather(
        *(
            doors[number % len(doors)].decide(run["pause"], decision)
            for number, decision in enumerate(decisions)
        )
    )
    return Race(
        run=await doors[0].ended(run),
        taken=[
            decision
            for decision, answer in zip(decisions, answers, strict=True)
            if answer.is_success
        ],
        refused=Counter(
            (answer.status_code, str(answer.json()["code"]))
            for answer in answers
            if not answer.is_success
        ),
    )


def check(race: Race, effects: Effects) -> None:
    """One was taken, the others were told that they came too late, and one thing happened."""
    (taken,) = race.taken
    assert race.refused == {(409, "pause_decided"): MANY - 1}
    (pause,) = race.run["pauses"]
    assert pause["decision"]["by"] == taken["by"]
    assert pause["decision"]["approved"] is taken["approved"]
    assert race.run["status"] == "completed"
    assert effects.of(race.run) == ["sent work"] * taken["approved"]
