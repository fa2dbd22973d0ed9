"""A service is killed while an approver's server takes its notices."""

from typing import Any

import orjson

from tests.notices import CHANNEL_SECRET, about, verified
from tests.receivers import HANGS, Receiver, decides
from tests.service import Processes

CLAIM_LASTS = 60
"""Seconds for which a notice is its worker's alone, also when that was killed."""


async def test_a_notice_that_was_under_way_is_sent_again_under_its_id(own: Processes) -> None:
    async with Receiver(HANGS) as approvers:
        settings: dict[str, Any] = {
            "channels__approvers__url": approvers.url,
            "channels__approvers__secrets": orjson.dumps([CHANNEL_SECRET]).decode(),
        }
        doomed = await own.serve(**settings)
        async with doomed.api() as api:
            run = await api.started("told_letters")
        await approvers.wait_for(1)
        doomed.kill()
        approvers.answer_with(decides({"approved": True}))
        following = await own.serve(**settings)
        async with following.api() as api:
            ended = await api.ended(run, within=CLAIM_LASTS + 30)
    first, second = about(run, approvers.received, "pause.opened")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert verified(second, CHANNEL_SECRET)["data"]["pause"]["id"] == run["pause"]["id"]
    assert ended["output"] == "sent work"
