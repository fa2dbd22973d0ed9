"""The races of fifty approvers, again and again: `RACES` says how often."""

import os

from tests.e2e.conftest import Town
from tests.racing import check, check_votes, race, race_votes
from tests.service import Api

TIMES = int(os.environ.get("RACES", "25"))
"""How often each race is run."""


async def test_every_time_one_decision_of_fifty_is_taken_and_has_one_effect(
    town: Town, api: Api, other_api: Api
) -> None:
    winners = set[bool]()
    for _ in range(TIMES):
        came = await race([api, other_api])
        check(came, town.effects)
        winners.add(came.taken[0]["approved"])
    assert winners == {True, False}


async def test_every_time_two_votes_of_fifty_are_taken_and_have_one_effect(
    town: Town, api: Api, other_api: Api
) -> None:
    for _ in range(TIMES):
        check_votes(await race_votes([api, other_api]), town.effects)
