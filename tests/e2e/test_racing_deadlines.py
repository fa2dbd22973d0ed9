"""Deadlines under two services that both look after them."""

import asyncio
from collections.abc import Sequence

import asyncpg

from tests.e2e.conftest import Town
from tests.notices import about
from tests.receivers import Receiver
from tests.service import Api, Json

MANY = 20


async def come(town: Town, runs: Sequence[Json], moment: str) -> None:
    """Has a moment of the runs' pauses come, of all at once."""
    connection = await asyncpg.connect(town.database_url)
    await connection.execute(
        f"update pauses set {moment} = clock_timestamp() where run_id = any($1::text[])",
        [run["id"] for run in runs],
    )
    await connection.close()


async def test_each_reminder_escalation_and_expiry_happens_once(
    town: Town, api: Api, other_api: Api
) -> None:
    async with Receiver(port=town.approvers_port) as approvers:
        doors = [api, other_api] * (MANY // 2)
        runs = await asyncio.gather(*(door.started("timed_letters") for door in doors))
        for number, moment in enumerate(("remind_at", "escalate_at", "expires_at"), start=1):
            await approvers.wait_for(MANY * number)
            await come(town, runs, moment)
        ended = await asyncio.gather(*(api.ended(run) for run in runs))
        await approvers.wait_for(MANY * 4)
    for run in ended:
        (pause,) = run["pauses"]
        assert (pause["status"], pause["escalated_to"]) == ("expired", "approvers")
        assert pause["decision"]["by"] == "system:deadline"
        assert town.effects.of(run) == ["sent work"]
        assert [each.json["type"] for each in about(run, approvers.received)] == EACH_ONCE
        assert [each["event_type"] for each in await api.deliveries(run)] == EACH_ONCE


async def test_who_comes_too_late_is_refused_at_either_door(
    town: Town, api: Api, other_api: Api
) -> None:
    run = await api.started("timed_letters")
    await come(town, [run], "expires_at")
    ended = await api.ended(run)
    for door in (api, other_api):
        late = await door.decide(run["pause"])
        assert (late.status_code, late.json()["code"]) == (409, "pause_expired")
    assert await api.run(run) == ended


EACH_ONCE = ["pause.opened", "pause.reminder", "pause.escalated", "pause.expired"]
