"""`signoff check-receiver` finds what a bot does wrong, and nothing in one that does right."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.api.schemas import Pause
from app.cli.receiver.notices import Story
from tests.launcher import REPOSITORY
from tests.notices import CHANNEL_SECRET, OLDER_SECRET
from tests.receivers import Answer, Received, Receiver, decides, says
from tests.service import Process, free_port, until

Json = dict[str, Any]

FORGERIES = {"wrongly-signed", "unsigned", "altered"}


class Checked:
    """What the command said of a receiver, and how it ended."""

    def __init__(self, process: Process, exit_code: int) -> None:
        self.exit_code = exit_code
        self.said = process.said
        self.complaints = process.complaints

    @property
    def findings(self) -> dict[str, Json]:
        return {each["check"]: each for each in orjson.loads(self.said)}

    @property
    def wrong(self) -> set[str]:
        return {name for name, each in self.findings.items() if not each["passed"]}


async def check(url: str, log: Path, *options: str, secrets: str = CHANNEL_SECRET) -> Checked:
    process = Process(
        *("check-receiver", url, *options),
        environment={"WEBHOOK_SECRETS": secrets},
        log=log / "check.log",
    )
    return Checked(process, await process.exit_code())


@contextmanager
def bot(*options: str, secrets: str = CHANNEL_SECRET) -> Generator[str]:
    """The example bot as a process."""
    port = free_port()
    command = [sys.executable, "examples/approval_bot.py", "--port", str(port), *options]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "WEBHOOK_SECRETS": secrets},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        yield f"http://127.0.0.1:{port}/"
        process.kill()


async def until_it_listens(url: str) -> None:
    async def listens() -> bool:
        async with httpx.AsyncClient() as client:
            try:
                return (await client.post(url)).status_code > 0
            except httpx.ConnectError:
                return False

    await until(listens)


class Careful(Receiver):
    """Verifies with the public package, and then answers what it is told to."""

    def answer(self, request: Received) -> Answer:
        try:
            Webhook(CHANNEL_SECRET).verify(request.body, dict(request.headers))
        except (WebhookVerificationError, ValueError):
            return Answer(status=401)
        return super().answer(request)


class Forgetful(Careful):
    """Decides at random: another feedback each time."""

    def answer(self, request: Received) -> Answer:
        answer = super().answer(request)
        is_opened = request.json["type"] == "pause.opened"
        if answer.status == 401 or not is_opened or request.json["data"]["reply"] is None:
            return answer
        return decides({"approved": True, "feedback": str(len(self.received))})


@pytest.mark.parametrize("options", [(), ("--later",)])
async def test_the_example_bot_does_everything_right(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    both = f"{CHANNEL_SECRET} {OLDER_SECRET}"
    with bot(*options, secrets=both) as url:
        await until_it_listens(url)
        checked = await check(url, tmp_path, secrets=both)
    assert checked.exit_code == 0, checked.said
    assert "12 of 12 are right." in checked.said
    assert "decided nothing" not in checked.said


async def test_a_receiver_that_believes_everybody_is_found_out(tmp_path: Path) -> None:
    async with Receiver(decides({"approved": True})) as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    assert checked.exit_code == 1
    assert checked.wrong == FORGERIES | {"old", "early", "reordered", "expired"}
    assert checked.findings["expired"]["wrong"] == "answered 200 with a decision"
    assert checked.findings["old"]["wrong"] == "answered 200 with a decision, not 4xx"


async def test_a_receiver_that_verifies_and_forgets_is_found_out(tmp_path: Path) -> None:
    async with Forgetful() as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    assert checked.wrong == {"duplicate", "reordered"}


async def test_a_receiver_without_an_opinion_is_told_how_to_have_one(tmp_path: Path) -> None:
    async with Careful() as receiver:
        checked = await check(receiver.url, tmp_path)
    assert checked.exit_code == 0
    assert "--pause gives it a pause" in checked.said


async def test_a_receiver_that_refuses_everything_is_found_out(tmp_path: Path) -> None:
    async with Receiver(Answer(status=401)) as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    assert checked.exit_code == 1
    taken = {"good", "duplicate", "reordered", "rotated", "other-scheme", "expired", "others"}
    assert checked.wrong == taken


async def test_a_decision_that_would_be_refused_is_found_out(tmp_path: Path) -> None:
    async with Careful(decides({"approved": "yes", "sure": True})) as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    assert "/sure unknown field" in checked.findings["good"]["wrong"]


class Hasty(Careful):
    """Takes everything, and decides by a request of its own: late, without looking, as it pleases."""

    token = "{token}"

    def answer(self, request: Received) -> Answer:
        data = request.json["data"]
        if data["reply"]:
            body = {"pause_id": data["pause"]["id"], "decision": {"approved": True}}
            token = self.token.format(token=data["reply"]["token"])
            httpx.post(data["reply"]["url"], json=body, headers={"authorization": token})
        return super().answer(request)


class Nameless(Hasty):
    """Shows no token."""

    token = "Basic 0000"


async def test_a_decision_by_a_request_that_should_not_be_is_found_out(tmp_path: Path) -> None:
    class Wise(Hasty):
        token = "Bearer {token}"

    async with Wise() as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    forged = FORGERIES | {"old", "early"}
    assert checked.wrong == forged | {"reordered"}
    for each in forged:
        assert checked.findings[each]["wrong"] == "decided by a request of its own"


async def test_a_decision_by_a_request_without_its_token_is_found_out(tmp_path: Path) -> None:
    async with Nameless() as receiver:
        checked = await check(receiver.url, tmp_path, "--json")
    assert "without the token" in checked.findings["good"]["wrong"]


async def test_the_pause_of_a_file_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "pause.json"
    file.write_bytes(orjson.dumps({"kind": "interactive", "message": "Blue or red?", "call": None}))
    async with Careful(says({"decision": {"value": "blue"}})) as receiver:
        checked = await check(receiver.url, tmp_path, "--json", "--pause", str(file))
        shown = receiver.received[0].json["data"]["pause"]
    assert (shown["kind"], shown["message"]) == ("interactive", "Blue or red?")
    assert "good" not in checked.wrong


@pytest.mark.parametrize(
    ("options", "secrets", "says", "code"),
    [
        ((), "", "Say the receiver's secret", 1),
        ((), "whsec_%", "not base64", 1),
        (("--pause", "nowhere.json"), CHANNEL_SECRET, "cannot be read", 1),
        ((), CHANNEL_SECRET, "cannot be reached", 3),
    ],
    ids=["no secret", "no base64", "no file", "no receiver"],
)
async def test_what_cannot_be_checked_is_one_line(
    options: tuple[str, ...], secrets: str, says: str, code: int, tmp_path: Path
) -> None:
    checked = await check(f"http://127.0.0.1:{free_port()}", tmp_path, *options, secrets=secrets)
    assert checked.exit_code == code
    assert len(checked.complaints) == 1
    assert says in checked.complaints[0]


def test_what_a_receiver_is_shown_is_a_pause_as_the_service_shows_it() -> None:
    for story in (Story(service="http://127.0.0.1", shown={}),):
        for notice in (story.opened(), story.decided(), story.opened_but_expired()):
            pause = notice.body["data"]["pause"]
            assert pause.keys() == Pause.model_fields.keys()
            Pause.model_validate(pause)
