"""Fifty approvers at once: one of them decides, and what they decided happens once."""

from tests.e2e.conftest import Town
from tests.racing import check, check_votes, race, race_votes
from tests.service import Api


async def test_of_fifty_decisions_at_once_one_is_taken_and_has_one_effect(
    town: Town, api: Api, other_api: Api
) -> None:
    for _ in range(3):
        check(await race([api, other_api]), town.effects)


async def test_of_fifty_votes_at_once_two_of_two_people_are_taken_and_have_one_effect(
    town: Town, api: Api, other_api: Api
) -> None:
    for _ in range(3):
        check_votes(await race_votes([api, other_api]), town.effects)
