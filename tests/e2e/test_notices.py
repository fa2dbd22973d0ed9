"""Approvers are told: signed, at least once, under one id, and may decide in their answer."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import orjson

from tests.e2e.conftest import Town
from tests.launcher import REPOSITORY
from tests.notices import (
    CALLBACK_SECRET,
    CHANNEL_SECRET,
    OLDER_SECRET,
    RUN_SECRET,
    about,
    verified,
)
from tests.receivers import HANGS, Answer, Receiver, decides
from tests.service import Api, Json, Processes, until

REFUSED_ONCE_THEN_TAKEN = [None, 200]


async def all_told(api: Api, run: Json) -> list[Json]:
    """The notices of a run, once none of them is pending."""

    async def settled() -> list[Json] | None:
        found = await api.deliveries(run)
        return found if all(each["status"] != "pending" for each in found) else None

    return await until(settled)


async def test_a_pause_is_told_once_and_signed_with_both_secrets_of_a_rotation(
    town: Town, api: Api
) -> None:
    async with Receiver(port=town.approvers_port) as approvers:
        run = await api.started("told_letters", "hello")
        await approvers.wait_for(1)
        await api.decided(run["pause"])
        deliveries = await all_told(api, run)
    heard = about(run, approvers.received)
    assert [each.json["type"] for each in heard] == ["pause.opened", "pause.decided"]
    assert [each.headers["webhook-id"] for each in heard] == [each["id"] for each in deliveries]
    for each in heard:
        assert verified(each, CHANNEL_SECRET) == verified(each, OLDER_SECRET) == each.json
    opened, decided = (each.json["data"] for each in heard)
    told, shown = opened["pause"], run["pause"]
    assert {**told, "response_schema": shown["response_schema"]} == shown
    assert told["response_schema"]["required"] == ["approved"], (
        "whoever is told is known by its reply"
    )
    assert shown["response_schema"]["required"] == ["approved", "by"]
    assert opened["reply"]["url"] == f"{town.first.url}/threads/{run['thread_id']}/resume"
    assert opened["event_sequence"] < decided["event_sequence"]
    assert decided["pause"]["decision"]["by"] == "alice"


@contextmanager
def bot_on(port: int, *options: str) -> Generator[None]:
    """The example bot as a process."""
    command = [sys.executable, "examples/approval_bot.py", "--port", str(port), *options]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "WEBHOOK_SECRETS": CHANNEL_SECRET},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as bot:
        yield
        bot.kill()


async def test_a_bot_that_was_away_hears_of_the_pause_and_decides_by_rule(
    town: Town, api: Api
) -> None:
    run = await api.started("errands", {"text": "ask for a day off"})

    async def was_refused() -> bool:
        (notice,) = await api.deliveries(run)
        return bool(notice["attempts"])

    await until(was_refused)
    with bot_on(town.approvers_port):
        ended = await api.ended(run)
        opened, decided = await all_told(api, run)
    assert ended["status"] == "completed"
    assert ended["output"] == {"text": f'{{"id":"sent to boss@example.com as {_call_of(ended)}"}}'}
    decision = ended["pauses"][0]["decision"]
    assert (decision["by"], decision["via"]) == ("channel:approvers", "webhook")
    assert decision["feedback"] == "stays in the house"
    assert [each["status"] for each in opened["attempts"]][-2:] == REFUSED_ONCE_THEN_TAKEN
    assert decided["status"] == "delivered"


async def test_a_bot_decides_later_with_the_token_of_the_notice(town: Town, api: Api) -> None:
    with bot_on(town.approvers_port, "--later"):
        run = await api.accepted("errands", {"text": "ask for a day off"})
        ended = await api.ended(run)
        await all_told(api, ended)
    assert ended["status"] == "completed"
    decision = ended["pauses"][0]["decision"]
    assert (decision["by"], decision["via"]) == ("channel:approvers", "api")
    assert not any("reply_" in line for line in (*town.log_lines, *api.heard))


def _call_of(run: Json) -> str:
    return run["pauses"][0]["call"]["id"]


async def test_a_notice_that_failed_is_sent_again_under_its_id(town: Town, api: Api) -> None:
    async with Receiver(Answer(status=500), Answer(), port=town.approvers_port) as approvers:
        run = await api.started("told_letters")
        first, second = await approvers.wait_for(2)
        (notice,) = await all_told(api, run)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == notice["id"]
    assert verified(second, CHANNEL_SECRET)["data"]["pause"]["id"] == run["pause"]["id"]
    assert [each["status"] for each in notice["attempts"]] == [500, 204]


async def test_a_dead_notice_is_listed_and_sent_again_by_hand_under_its_id(
    town: Town, api: Api
) -> None:
    async with Receiver(Answer(status=410), port=town.approvers_port) as approvers:
        run = await api.started("told_letters")
        (notice,) = await all_told(api, run)
        assert notice["status"] == "dead"
        assert await api.deliveries(run, status="dead", channel="approvers") == [notice]
        approvers.answer_with(Answer())
        again = await api.ask("POST", f"/deliveries/{notice['id']}/retry")
        assert again.status_code == 200
        first, second = await approvers.wait_for(2)
        (notice,) = await all_told(api, run)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == notice["id"]
    assert [each["status"] for each in notice["attempts"]] == [410, 204]
    once_more = await api.ask("POST", f"/deliveries/{notice['id']}/retry")
    assert (once_more.status_code, once_more.json()["code"]) == (409, "delivery_not_dead")


async def test_a_decision_in_the_answer_is_taken_as_the_channels(town: Town, api: Api) -> None:
    taken = {"approved": True, "feedback": "by rule", "override_arguments": {"text": "better"}}
    async with Receiver(decides(taken), port=town.approvers_port):
        ended = await api.ended(await api.accepted("told_letters", "good"))
        _, decided = await all_told(api, ended)
    decision = ended["pauses"][0]["decision"]
    assert (decision["by"], decision["via"]) == ("channel:approvers", "webhook")
    assert town.effects.of(ended) == ["sent better"]
    # The second notice was answered with a decision too, which came too late and changed nothing.
    assert decided["status"] == "delivered"
    assert "pause_decided" in decided["last_error"]


async def test_a_wrong_decision_in_the_answer_is_kept_with_the_notice_and_decides_nothing(
    town: Town, api: Api
) -> None:
    async with Receiver(decides({"approved": "maybe"}), port=town.approvers_port) as approvers:
        run = await api.started("told_letters")
        (notice,) = await all_told(api, run)
        assert notice["status"] == "delivered"
        assert "invalid_decision" in notice["last_error"]
        assert await api.run(run) == run
        approvers.answer_with(Answer())
        assert (await api.decided(run["pause"]))["status"] == "completed"
        await all_told(api, run)


async def test_a_writers_own_channel_is_told_again_after_it_failed_and_may_decide(
    town: Town, api: Api
) -> None:
    run = await api.started("pigeon_letters")
    ended = await api.ended(run)
    opened, decided = await all_told(api, run)
    decision = ended["pauses"][0]["decision"]
    assert (decision["by"], decision["feedback"]) == ("channel:pigeons", "coo")
    assert town.effects.of(run) == ["sent work"]
    told = town.effects.path.with_name("pigeons").read_text().splitlines()
    assert [each for each in told if each.split()[1] in (opened["id"], decided["id"])] == [
        f"pause.opened {opened['id']}",
        f"pause.opened {opened['id']}",
        f"pause.decided {decided['id']}",
    ]


async def test_a_runs_own_callback_hears_all_of_it_signed_with_the_runs_secret(api: Api) -> None:
    async with Receiver() as mine, Receiver() as nameless:
        run = await api.started("letters", callback={"url": mine.url, "secret": RUN_SECRET})
        await api.decided(run["pause"])
        other = await api.started("waved_letters", callback={"url": nameless.url})
        await all_told(api, run)
        await all_told(api, other)
    heard = about(run, mine.received)
    assert [verified(each, RUN_SECRET)["type"] for each in heard] == [
        "pause.opened",
        "pause.decided",
        "run.completed",
    ]
    assert heard[-1].json["data"]["run"] == await api.run(run)
    last = about(other, nameless.received)[-1]
    assert verified(last, CALLBACK_SECRET)["type"] == "run.completed"
    assert not any(RUN_SECRET in answer for answer in api.heard)


async def test_an_address_that_hangs_delays_no_other(api: Api) -> None:
    async with Receiver(HANGS) as slow, Receiver() as quick:
        hung = await api.started("waved_letters", callback={"url": slow.url})
        await slow.wait_for(1)
        await api.started("waved_letters", callback={"url": quick.url})
        await quick.wait_for(1, within=5)
        assert {each["status"] for each in await api.deliveries(hung)} == {"pending"}


async def test_a_notice_that_was_written_before_a_kill_is_sent_after_it(own: Processes) -> None:
    async with Receiver(HANGS) as approvers:
        settings: dict[str, Any] = {
            "channels__approvers__url": approvers.url,
            "channels__approvers__secrets": orjson.dumps([CHANNEL_SECRET]).decode(),
        }
        doomed = await own.serve(**settings)
        async with doomed.api() as api:
            # The first four keep all hands that one address gets, so that the fifth is only written.
            runs = [await api.started("told_letters") for _ in range(5)]
            await approvers.wait_for(4)
            (unsent,) = (await api.get("/deliveries"))["items"][:1]
        doomed.kill()
        assert len(approvers.received) == 4
        assert (unsent["run_id"], unsent["attempts"]) == (runs[-1]["id"], 0)
        approvers.answer_with(decides({"approved": True}))
        following = await own.serve(**settings)
        async with following.api() as api:
            ended = await api.ended(runs[-1])
    (opened,) = about(runs[-1], approvers.received, "pause.opened")
    assert opened.headers["webhook-id"] == unsent["id"]
    assert verified(opened, CHANNEL_SECRET)["data"]["pause"]["id"] == runs[-1]["pause"]["id"]
    assert ended["output"] == "sent work"


async def test_a_notice_that_was_under_way_at_a_kill_is_sent_again_under_its_id(
    own: Processes,
) -> None:
    async with Receiver(HANGS) as approvers:
        settings: dict[str, Any] = {
            "channels__approvers__url": approvers.url,
            "channels__approvers__secrets": orjson.dumps([CHANNEL_SECRET]).decode(),
            "lease_seconds": 2,
        }
        doomed = await own.serve(**settings)
        async with doomed.api() as api:
            run = await api.started("told_letters")
        await approvers.wait_for(1)
        doomed.kill()
        approvers.answer_with(decides({"approved": True}))
        following = await own.serve(**settings)
        async with following.api() as api:
            ended = await api.ended(run)
    first, second = about(run, approvers.received, "pause.opened")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert verified(second, CHANNEL_SECRET)["data"]["pause"]["id"] == run["pause"]["id"]
    assert ended["output"] == "sent work"
