"""Who sends a notice, in which order things are told, and what becomes of what another worker had begun."""

import asyncio
from collections.abc import Mapping
from typing import Any

from app.authoring import Approval, AskError, Confirm, Notice, Parallel, Step, StepContext, Workflow
from app.channels import InboxChannel
from app.domain.decision import Decision
from app.lifecycle.deliver import Post
from app.lifecycle.site import Site
from tests.notices import about
from tests.receivers import Receiver
from tests.service import Api, until
from tests.serving import decide, paused, service, serving, site_over
from tests.workflows.councils import Council, Notebook
from tests.workflows.papers import echoes

Json = dict[str, Any]

desk = InboxChannel("desk")


class Deaf(Notebook):
    """Fails until it hears."""

    hears = False

    async def notify(self, notice: Notice) -> Decision | None:
        if not self.hears:
            raise ConnectionError
        return await super().notify(notice)


class Slow(Notebook):
    """Takes its time."""

    async def notify(self, notice: Notice) -> Decision | None:
        await super().notify(notice)
        await asyncio.sleep(2.5)
        return None


async def attempts(site: Site, run: Mapping[str, Any]) -> list[int]:
    rows = await site.database.fetch(
        "select attempts from deliveries where thread_id = $1", run["thread_id"]
    )
    return [row["attempts"] for row in rows]


async def make_due(site: Site) -> None:
    await site.database.fetch(
        "update deliveries set next_attempt_at = clock_timestamp() where status = 'pending'"
    )


async def test_a_notice_is_left_to_a_worker_that_serves_its_channel(database_url: str) -> None:
    team = Deaf("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow]) as here:
        run = await paused(here.client, "council")

        async def has_failed() -> bool:
            listed = await here.client.get(f"/deliveries?thread_id={run['thread_id']}")
            return listed.json()["items"][0]["last_error"] is not None

        await until(has_failed)
    team.hears = True
    async with site_over(database_url, [echoes], works=False) as elsewhere:
        await make_due(elsewhere)
        assert await Post(elsewhere).send_due() == 0
        assert await attempts(elsewhere, run) == [1]
    async with site_over(database_url, [council.workflow]) as again:

        async def was_told() -> bool:
            return team.about(run) == ["pause.opened"]

        await until(was_told)
        assert await attempts(again, run) == [2]


async def test_what_is_still_being_sent_is_sent_by_nobody_else(database_url: str) -> None:
    team = Slow("team")
    council = Council(Approval(), channel=team)
    workflows = [council.workflow]
    async with (
        site_over(database_url, workflows, lease_seconds=1) as site,
        site_over(database_url, workflows, lease_seconds=1),
        serving(site) as client,
    ):
        run = await paused(client, "council")

        async def was_taken() -> bool:
            listed = await client.get(f"/deliveries?thread_id={run['thread_id']}")
            return listed.json()["items"][0]["status"] == "delivered"

        await until(was_taken)
        assert team.about(run) == ["pause.opened"]
        assert await attempts(site, run) == [1]


async def _broken(context: StepContext, text: str) -> str:
    raise RuntimeError("broken")


async def _same(context: StepContext, text: str) -> str:
    return text


forked = Workflow(
    "forked",
    version="1",
    input=str,
    steps=[
        Parallel(
            "fork",
            [
                Step("waits", _same, before=Confirm("Go on?", channel=desk)),
                Step("also", _same, before=Confirm("Go on?", channel=desk)),
                Step("fails", _broken, on_error=AskError("What now?", channel=desk)),
            ],
        )
    ],
    channels=[desk],
)


async def test_a_cancelled_pause_is_told_before_the_end_of_its_run(database_url: str) -> None:
    async with Receiver() as receiver, service(database_url, [forked]) as here:
        run = await Api(here.client).started("forked", "x", callback={"url": receiver.url})
        error = next(each for each in run["pauses"] if each["kind"] == "error")
        await decide(here.client, {**run, "pause": error}, {"action": "fail", "by": "ann"})
        heard = about(run, await receiver.wait_for(7))
        assert [each.json["type"] for each in heard] == [
            *["pause.opened"] * 3,
            "pause.decided",
            *["pause.cancelled"] * 2,
            "run.failed",
        ]
        numbers = [each.json["data"]["event_sequence"] for each in heard]
        assert len(set(numbers)) == len(numbers)
        rows = await here.site.database.fetch(
            "select type from events where thread_id = $1 order by sequence desc limit 3",
            run["thread_id"],
        )
        assert [row["type"] for row in rows] == ["run.failed", *["pause.cancelled"] * 2]
