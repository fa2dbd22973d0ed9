"""The example bot for Slack as a process of its own, between a stand-in of Slack and one of the service."""

import asyncio
import base64
import hashlib
import hmac
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import orjson
import pytest

from app.channels.address_guard import LOOPBACK, AddressGuard, SystemResolver, guarded_client
from app.channels.signing import parse_secrets
from app.channels.webhook import Endpoint, Told, WebhookSender
from app.cli.receiver.notices import Notice, Story
from tests.receivers import Answer, Received, Receiver, says
from tests.service import Process

Json = dict[str, Any]

BOT = Path(__file__).parents[2] / "examples" / "slack_bot.py"
SECRET = "whsec_" + base64.b64encode(os.urandom(32)).decode()
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
MARIA, STRANGER = "U0001", "U9999"


class Slack(Receiver):
    """Slack's Web API, as far as the bot needs it: every message gets a time of its own."""

    calls: int = 0
    refuses: Answer | None = None

    def answer(self, request: Received) -> Answer:
        if self.refuses:
            return self.refuses
        self.calls += 1
        return says({"ok": True, "channel": "C1", "ts": f"1700000000.{self.calls:06}"})

    @property
    def said(self) -> list[tuple[str, Json]]:
        """Each call: its method, and its arguments."""
        return [(each.path.rpartition("/")[2], each.json) for each in self.received]


@dataclass(frozen=True, kw_only=True)
class Office:
    """A running bot, with Slack on its one side and the service on its other."""

    bot: str
    slack: Slack
    signoff: Receiver
    client: httpx.AsyncClient

    def story(self, **shown: Any) -> Story:
        return Story(service=self.signoff.url.removesuffix("/hook"), shown=shown)

    async def tell(self, notice: Notice, secret: str = SECRET) -> Told:
        guard = AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK)
        async with guarded_client(guard) as client:
            return await WebhookSender(client).send(
                Endpoint(url=f"{self.bot}notices", secrets=parse_secrets([secret])),
                webhook_id=notice.id,
                event_type=notice.body["type"],
                timestamp=datetime.fromtimestamp(time.time(), UTC),
                data=notice.body["data"],
            )

    async def press(
        self, action_id: str, by: str = MARIA, *, secret: str = SIGNING_SECRET, age: float = 0
    ) -> int:
        """The status of the answer to a button of the last message."""
        blocks = self.slack.said[0][1]["blocks"]
        [button] = [each for each in blocks[-1]["elements"] if each["action_id"] == action_id]
        payload = {
            "type": "block_actions",
            "user": {"id": by, "username": "m", "team_id": "T1"},
            "trigger_id": "13345224609.738474920.8088930838d88f008e0",
            "container": {"type": "message", "message_ts": "1700000000.000001", "channel_id": "C1"},
            "actions": [{**button, "block_id": "b", "action_ts": "1700000001.0"}],
        }
        return await self._send(payload, secret=secret, age=age)

    async def submit(self, view: Json, why: str | None, by: str = MARIA) -> int:
        """The status of the answer to a filled dialog."""
        values = {"why": {"text": {"type": "plain_text_input", "value": why}}}
        payload = {
            "type": "view_submission",
            "user": {"id": by, "username": "m", "team_id": "T1"},
            "view": {**view, "id": "V1", "state": {"values": values}},
        }
        return await self._send(payload)

    async def _send(self, payload: Json, *, secret: str = SIGNING_SECRET, age: float = 0) -> int:
        body = urlencode({"payload": orjson.dumps(payload).decode()}).encode()
        sent_at = str(int(time.time() - age))
        signed = b"v0:" + sent_at.encode() + b":" + body
        code = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": sent_at,
            "x-slack-signature": f"v0={code}",
        }
        answer = await self.client.post(f"{self.bot}slack", content=body, headers=headers)
        return answer.status_code


@asynccontextmanager
async def office(*answers: Answer) -> AsyncGenerator[Office]:
    async with Slack() as slack, Receiver(*answers or (says({}),)) as signoff:
        environment = {
            "WEBHOOK_SECRETS": SECRET,
            "SIGNOFF_KEY": "a-key-that-may-act-for-others",
            "SLACK_BOT_TOKEN": "xoxb-1",
            "SLACK_SIGNING_SECRET": SIGNING_SECRET,
            "SLACK_CHANNEL": "C1",
            "SLACK_PEOPLE": orjson.dumps({MARIA: "maria"}).decode(),
            "SLACK_API_URL": f"{slack.url.removesuffix('/hook')}/api",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(BOT), "--port", "0"),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            first_line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
            async with httpx.AsyncClient() as client:
                yield Office(
                    bot=first_line.split()[-1], slack=slack, signoff=signoff, client=client
                )
        finally:
            process.kill()
            await process.communicate()


async def test_an_open_pause_is_a_message_with_its_arguments_and_two_buttons() -> None:
    async with office() as at:
        told = await at.tell(at.story(message="May <!channel> & co?").opened())
    [(method, message)] = at.slack.said
    assert told.status == 204
    assert (method, message["channel"]) == ("chat.postMessage", "C1")
    assert message["text"] == "May &lt;!channel&gt; &amp; co?"
    assert "boss@example.com" in message["blocks"][1]["text"]["text"]
    buttons = message["blocks"][-1]["elements"]
    assert [each["action_id"] for each in buttons] == ["approve", "reject"]
    assert at.slack.received[0].headers["authorization"] == "Bearer xoxb-1"


async def test_who_presses_decides_in_their_own_name_about_what_was_shown() -> None:
    async with office() as at:
        story = at.story()
        await at.tell(story.opened())
        assert await at.press("approve") == 200
        [request] = await at.signoff.wait_for(1)
    assert request.path == f"/threads/{story.thread_id}/resume"
    assert request.json == {
        "pause_id": story.pause_id,
        "decision": {"approved": True, "by": "maria"},
    }
    assert request.headers["authorization"] == "Bearer a-key-that-may-act-for-others"
    digest = story.opened().body["data"]["pause"]["digest"]
    assert request.headers["if-match"] == f'"{digest}"'


async def test_a_button_that_is_pressed_twice_is_one_request_by_its_key() -> None:
    async with office() as at:
        await at.tell(at.story().opened())
        await at.press("approve")
        await at.press("approve")
        first, second = await at.signoff.wait_for(2)
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


async def test_a_rejection_asks_for_a_reason_first() -> None:
    async with office() as at:
        await at.tell(at.story().opened())
        await at.press("reject")
        await at.slack.wait_for(2)
        method, opened = at.slack.said[1]
        assert method == "views.open"
        assert opened["trigger_id"].startswith("13345224609")
        assert at.signoff.received == []
        await at.submit(opened["view"], "not on a Friday")
        [request] = await at.signoff.wait_for(1)
    assert request.json["decision"] == {
        "approved": False,
        "by": "maria",
        "feedback": "not on a Friday",
    }


async def test_a_stranger_decides_nothing_and_is_told_so_alone() -> None:
    async with office() as at:
        await at.tell(at.story().opened())
        assert await at.press("approve", by=STRANGER) == 200
        await at.slack.wait_for(2)
    method, whisper = at.slack.said[1]
    assert (method, whisper["user"]) == ("chat.postEphemeral", STRANGER)
    assert at.signoff.received == []


async def test_a_refusal_is_told_to_who_pressed() -> None:
    detail = "This pause was decided before; nothing was changed."
    async with office(says({"detail": detail}, status=409)) as at:
        await at.tell(at.story().opened())
        await at.press("approve")
        await at.slack.wait_for(2)
    method, whisper = at.slack.said[1]
    assert (method, whisper["user"]) == ("chat.postEphemeral", MARIA)
    assert detail in whisper["text"]


@pytest.mark.parametrize(("secret", "age"), [("another", 0), (SIGNING_SECRET, 600)])
async def test_a_button_that_slack_did_not_sign_just_now_is_not_believed(
    secret: str, age: float
) -> None:
    async with office() as at:
        await at.tell(at.story().opened())
        assert await at.press("approve", secret=secret, age=age) == 401
    assert at.signoff.received == []


async def test_the_signature_of_slacks_own_documentation_is_believed() -> None:
    """Their example is of 2018, so that only its time stands against it."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
        b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signed = b"v0:1531420618:" + body
    code = hmac.new(SIGNING_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert code == "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


async def test_once_it_is_decided_the_message_says_so_and_has_no_buttons() -> None:
    async with office() as at:
        story = at.story()
        await at.tell(story.opened())
        await at.tell(story.decided())
    (_, _), (method, message) = at.slack.said
    assert (method, message["ts"]) == ("chat.update", "1700000000.000001")
    assert [each["type"] for each in message["blocks"]] == ["section", "section", "context"]
    assert message["blocks"][-1]["elements"][0]["text"] == "*approved* by somebody else"


async def test_a_notice_that_comes_again_or_too_late_says_nothing_more() -> None:
    async with office() as at:
        story, other = at.story(), at.story()
        opened = story.opened()
        await at.tell(opened)
        await at.tell(opened)
        await at.tell(other.decided())
        await at.tell(other.opened())
    assert len(at.slack.said) == 1


async def test_while_slack_is_busy_the_notice_shall_come_again_when_slack_says() -> None:
    async with office() as at:
        opened = at.story().opened()
        at.slack.refuses = Answer(status=429, headers={"retry-after": "30"})
        busy = await at.tell(opened)
        at.slack.refuses = says({"ok": False, "error": "channel_not_found"})
        wrong = await at.tell(opened)
        at.slack.refuses = None
        taken = await at.tell(opened)
    assert (busy.status, wrong.status, taken.status) == (503, 503, 204)
    assert getattr(busy, "retry_after").total_seconds() == 30  # noqa: B009  # of a failure alone


async def test_what_a_button_cannot_answer_is_answered_in_the_inbox() -> None:
    async with office() as at:
        await at.tell(at.story(kind="interactive", allowed=["value"], call=None).opened())
    [(_, message)] = at.slack.said
    [button] = message["blocks"][-1]["elements"]
    assert button["url"] == f"{at.signoff.url.removesuffix('/hook')}/inbox"


async def test_the_bot_for_slack_takes_notices_rightly(tmp_path: Path) -> None:
    async with office() as at:
        process = Process(
            *("check-receiver", f"{at.bot}notices"),
            environment={"WEBHOOK_SECRETS": SECRET},
            log=tmp_path / "check.log",
        )
        assert await process.exit_code() == 0, process.said
