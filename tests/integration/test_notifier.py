"""A notice finds its way to every kind of channel."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from app.authoring.channel import Channel, Notice
from app.channels import HttpCallbackChannel, InboxChannel
from app.channels.address_guard import LOOPBACK, AddressGuard, SystemResolver, guarded_client
from app.channels.notifier import Notifier
from app.channels.webhook import Delivered, Endpoint, Failed, WebhookSender
from app.domain.decision import Decision, Verdict
from tests.receivers import Receiver, decides

NOTICE = Notice(
    id="dlv_1",
    type="pause.opened",
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    data={"event_sequence": 1},
)


class Policy(Channel):
    """Answers with a decision."""

    async def notify(self, notice: Notice) -> Decision | None:
        return Verdict(approved=notice.id == "dlv_1")


class Broken(Channel):
    """Fails, with a secret in the error's text."""

    async def notify(self, notice: Notice) -> Decision | None:
        raise RuntimeError("https://chat.example/bot-s3cret")


class Endless(Channel):
    """Never ends."""

    async def notify(self, notice: Notice) -> Decision | None:
        await asyncio.Event().wait()


@asynccontextmanager
async def notifier(**urls: str) -> AsyncGenerator[Notifier]:
    guard = AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK)
    endpoints = {name: Endpoint(url=url) for name, url in urls.items()}
    async with guarded_client(guard) as client:
        yield Notifier(endpoints, WebhookSender(client), limit=timedelta(seconds=0.2))


async def test_a_callback_channel_is_told_at_its_own_address() -> None:
    async with (
        Receiver(decides({"approved": True})) as finance,
        Receiver() as legal,
        notifier(finance=finance.url, legal=legal.url) as notify,
    ):
        told = await notify.tell(HttpCallbackChannel("finance"), NOTICE)

    [request] = finance.received
    assert isinstance(told, Delivered)
    assert told.decision == {"approved": True}
    assert request.headers["webhook-id"] == "dlv_1"
    assert request.json == {
        "type": "pause.opened",
        "timestamp": "2026-01-02T03:04:05Z",
        "data": {"event_sequence": 1},
    }
    assert legal.connections == 0


async def test_a_callback_channel_without_an_address_fails_and_says_what_to_set() -> None:
    async with notifier() as notify:
        told = await notify.tell(HttpCallbackChannel("finance"), NOTICE)

    assert isinstance(told, Failed)
    assert told.reason.endswith("set SIGNOFF_CHANNELS__FINANCE__URL")


async def test_a_channel_of_ones_own_may_decide() -> None:
    async with notifier() as notify:
        assert await notify.tell(Policy("policy"), NOTICE) == Delivered(
            decision=Verdict(approved=True)
        )


async def test_an_inbox_takes_every_notice() -> None:
    async with notifier() as notify:
        assert await notify.tell(InboxChannel("editors"), NOTICE) == Delivered()


async def test_a_channel_that_raises_is_a_failure_without_the_errors_text() -> None:
    async with notifier() as notify:
        told = await notify.tell(Broken("chat"), NOTICE)

    assert isinstance(told, Failed)
    assert told.reason.startswith("Broken('chat') raised RuntimeError at test_notifier.py:")
    assert "s3cret" not in told.reason


async def test_a_channel_that_never_ends_is_a_failure_in_bounded_time() -> None:
    async with notifier() as notify:
        told = await notify.tell(Endless("chat"), NOTICE)

    assert told == Failed(reason="Endless('chat') did not end within 0.2 s")
