"""Fifty decisions, or votes, at once about one pause, over several services."""

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
    decisions = [
        (approval if number % 2 else rejection)(by=f"clerk {number}") for number in range(MANY)
    ]
    return await _race(doors, "letters", decisions)


async def race_votes(doors: Sequence[Api]) -> Race:
    """Five approve where two have to agree, each again and again."""
    # In fives at each door, so that one who votes is at both of them.
    votes = [approval(by=f"clerk {number // len(doors) % 5}") for number in range(MANY)]
    return await _race(doors, "voted_letters", votes)


async def _race(doors: Sequence[Api], workflow: str, decisions: Sequence[Json]) -> Race:
    run = await doors[0].started(workflow)
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


def check_votes(race: Race, effects: Effects) -> None:
    """Two different ones were taken, nobody else, and one thing happened."""
    voters = {vote["by"] for vote in race.taken}
    assert len(voters) == len(race.taken) == 2
    assert race.refused.total() == MANY - 2
    assert race.refused.keys() <= {(409, "already_voted"), (409, "pause_decided")}
    (pause,) = race.run["pauses"]
    first, last = pause["votes"]
    assert {first["by"], last["by"]} == voters
    assert pause["decision"]["by"] == last["by"]
    assert race.run["status"] == "completed"
    assert effects.of(race.run) == ["sent work"]
