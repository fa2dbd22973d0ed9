"""The example bot as a process of its own, told by the service's own sender."""

import asyncio
import base64
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from app.channels.address_guard import LOOPBACK, AddressGuard, SystemResolver, guarded_client
from app.channels.signing import parse_secrets
from app.channels.webhook import Delivered, Endpoint, Failed, Told, WebhookSender
from tests.receivers import Answer, Receiver, says

BOT = Path(__file__).parents[2] / "examples" / "approval_bot.py"
OLD, NEW, FOREIGN = ("whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(3))
OPENED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Bot:
    """A running bot, and a way to tell it something."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.client = client

    async def tell(
        self,
        webhook_id: str,
        data: dict[str, Any],
        *,
        event_type: str = "pause.opened",
        secret: str = NEW,
        clock: Callable[[], float] = time.time,
    ) -> Told:
        return await WebhookSender(self.client, clock=clock).send(
            Endpoint(url=self.url, secrets=parse_secrets([secret])),
            webhook_id=webhook_id,
            event_type=event_type,
            timestamp=OPENED,
            data=data,
        )


@asynccontextmanager
async def running_bot(*options: str, secrets: str = f"{NEW} {OLD}") -> AsyncGenerator[Bot]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(BOT), "--port", "0", *options),
        env={**os.environ, "WEBHOOK_SECRETS": secrets},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        first_line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        guard = AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK)
        async with guarded_client(guard) as client:
            yield Bot(first_line.split()[-1], client)
    finally:
        process.kill()
        await process.communicate()


def opened(
    to: str, *, pause: str = "pau_1", sequence: int = 1, reply: str = "", status: str = "open"
) -> dict[str, Any]:
    return {
        "event_sequence": sequence,
        "pause": {
            "id": pause,
            "kind": "approval",
            "status": status,
            "call": {"tool": "send_email", "arguments": {"to": to, "smtp_password": "***"}},
        },
        "reply": {"url": reply, "token": "tok_1"},
    }


def decision(told: Told) -> Any:
    assert isinstance(told, Delivered), told
    return told.decision


async def test_the_bot_decides_by_its_rule_and_leaves_the_rest_to_people() -> None:
    async with running_bot() as bot:
        inside = await bot.tell("dlv_1", opened("boss@example.com", pause="pau_1"))
        nobody = await bot.tell("dlv_2", opened("", pause="pau_2"))
        outside = await bot.tell("dlv_3", opened("boss@elsewhere.example", pause="pau_3"))

    assert decision(inside) == {"approved": True, "feedback": "stays in the house"}
    assert decision(nobody)["approved"] is False
    assert decision(outside) is None


async def test_the_bot_believes_either_of_its_secrets_and_no_other() -> None:
    async with running_bot() as bot:
        assert decision(await bot.tell("dlv_1", opened("boss@example.com"), secret=OLD))
        foreign = await bot.tell("dlv_2", opened("boss@example.com"), secret=FOREIGN)

    assert isinstance(foreign, Failed)
    assert foreign.status == 401


async def test_the_bot_does_not_believe_an_old_notice() -> None:
    async with running_bot() as bot:
        old = await bot.tell("dlv_1", opened("boss@example.com"), clock=OPENED.timestamp)

    assert isinstance(old, Failed)
    assert old.status == 401


async def test_a_notice_that_comes_again_gets_the_same_answer() -> None:
    async with running_bot() as bot:
        first = await bot.tell("dlv_1", opened("boss@example.com", sequence=1))
        await bot.tell("dlv_2", opened("boss@example.com", sequence=2), event_type="pause.decided")
        again = await bot.tell("dlv_1", opened("boss@example.com", sequence=1))

    assert decision(again) == decision(first)


async def test_a_notice_older_than_what_is_known_about_its_pause_is_dropped() -> None:
    async with running_bot() as bot:
        await bot.tell("dlv_2", opened("boss@example.com", sequence=2), event_type="pause.decided")
        older = await bot.tell("dlv_1", opened("boss@example.com", sequence=1))
        other = await bot.tell("dlv_3", opened("boss@example.com", sequence=1, pause="pau_2"))

    assert decision(older) is None
    assert decision(other)


async def test_a_pause_that_is_not_open_any_more_is_no_question() -> None:
    async with running_bot() as bot:
        expired = await bot.tell("dlv_1", opened("boss@example.com", status="expired"))

    assert isinstance(expired, Delivered)
    assert expired.decision is None


async def test_a_run_that_ended_is_no_question() -> None:
    async with running_bot() as bot:
        ended = await bot.tell("dlv_1", {"event_sequence": 3}, event_type="run.completed")

    assert decision(ended) is None


async def test_later_the_bot_decides_at_the_resume_url_with_the_token_of_the_pause() -> None:
    async with Receiver(says({})) as service, running_bot("--later") as bot:
        told = await bot.tell("dlv_1", opened("boss@example.com", reply=service.url))

    [request] = service.received
    assert decision(told) is None
    assert request.headers["authorization"] == "Bearer tok_1"
    assert request.json == {
        "pause_id": "pau_1",
        "decision": {"approved": True, "feedback": "stays in the house"},
    }


async def test_a_bot_that_could_not_decide_asks_for_the_notice_again() -> None:
    answers = [Answer(status=503), says({"code": "pause_decided"}, status=409)]
    async with Receiver(*answers) as service, running_bot("--later") as bot:
        data = opened("boss@example.com", reply=service.url)
        unavailable = await bot.tell("dlv_1", data)
        settled_by_another = await bot.tell("dlv_1", data)

    assert isinstance(unavailable, Failed)
    assert unavailable.status == 503
    assert isinstance(settled_by_another, Delivered)
    assert len(service.received) == 2


async def test_without_a_secret_the_bot_does_not_start() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(BOT), "--port", "0"),
        env={**os.environ, "WEBHOOK_SECRETS": ""},
        stderr=asyncio.subprocess.PIPE,
    )
    _, complaint = await asyncio.wait_for(process.communicate(), 20)

    assert process.returncode == 1
    assert b"Set WEBHOOK_SECRETS" in complaint
