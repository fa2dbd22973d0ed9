"""Reply tokens: who is told of a pause may decide it, once, and nothing else."""

import asyncio
from typing import Any, cast

import httpx
import orjson
import pytest

from app.api.schemas import NoticeData
from app.authoring import Approval
from app.channels.reply_token import Grant
from app.channels.signing import SigningSecret
from app.domain.ids import DEFAULT_TENANT, PauseId
from app.lifecycle.replies import Replies
from tests.keyring import bearer, holding, key
from tests.service import until
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council, Notebook

Json = dict[str, Any]

YES = {"approved": True}


async def reply(team: Notebook, run: Json) -> Json:
    """What a channel was told of how to decide a run's pause."""

    async def told() -> bool:
        return bool(team.about(run))

    await until(told)
    found = next(each for each in team.told if each.data["run_id"] == run["id"])
    given = found.data["reply"]
    assert isinstance(given, dict)
    return cast("Json", given)


async def begun(served: Service, *, by: str = "caller") -> Json:
    """A run that is paused, asked for by a key."""
    async with holding(served.client, await key(served.site.database, by)) as client:
        return await paused(client, "council")


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_token_decides_its_pause_once_as_the_channel(database_url: str) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow], is_open=False) as served:
        run = await begun(served)
        given = await reply(team, run)
        assert given["url"] == run["pause"]["resume_url"]
        assert given["expires_at"] is None
        assert team.told[0].data.keys() == NoticeData.model_fields.keys()
        NoticeData.model_validate_json(orjson.dumps(team.told[0].data))
        wrong = await decide(served.client, run, {"approved": "x"}, headers=bearer(given["token"]))
        assert code(wrong) == (422, "invalid_decision")
        taken = await decide(served.client, run, YES, headers=bearer(given["token"]))
        assert taken.status_code == 200, taken.text
        decision = taken.json()["pauses"][0]["decision"]
        assert (decision["by"], decision["via"]) == ("channel:team", "api")
        again = await decide(served.client, run, YES, headers=bearer(given["token"]))
        assert code(again) == (409, "pause_decided")
    assert council.done == ["the wall"]


async def test_a_token_is_good_for_nothing_else(database_url: str) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow], is_open=False) as served:
        mine, other = await begun(served), await begun(served)
        token = bearer((await reply(team, mine))["token"])
        foreign = await decide(served.client, other, YES, headers=token)
        assert code(foreign) == (403, "token_of_another_pause")
        elsewhere = {**mine, "thread_id": other["thread_id"]}
        assert code(await decide(served.client, elsewhere, YES, headers=token))[0] == 404
        thread, pause = mine["thread_id"], mine["pause"]["id"]
        for method, path in (
            ("GET", f"/threads/{thread}"),
            ("GET", f"/threads/{thread}/runs/{mine['id']}"),
            ("POST", f"/threads/{thread}/runs/{mine['id']}/cancel"),
            ("GET", f"/threads/{thread}/runs/{mine['id']}/events"),
            ("GET", f"/pauses/{pause}"),
            ("POST", f"/pauses/{pause}/extend"),
            ("GET", "/deliveries"),
            ("GET", "/audit"),
            ("GET", "/workflows"),
            ("POST", "/threads"),
        ):
            answer = await served.client.request(method, path, headers=token)
            assert answer.status_code == 403, (method, path)
        for_another = await decide(served.client, mine, {**YES, "by": "ann"}, headers=token)
        assert code(for_another) == (403, "may_not_act_as")
        assert (await decide(served.client, mine, YES, headers=token)).status_code == 200
    assert council.done == ["the wall"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_token_of_ones_own_making_is_none(database_url: str, is_open: bool) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow], is_open=is_open) as served:
        run = await begun(served)
        token: str = (await reply(team, run))["token"]
        said, _, sealed = token.rpartition(".")
        swapped = "A" if sealed[0] != "A" else "B"
        for forged in (f"{said}.{swapped}{sealed[1:]}", f"{said}.", "reply_", f"{token}x.y"):
            answer = await decide(served.client, run, YES, headers=bearer(forged))
            assert code(answer) == (401, "invalid_credential"), forged
    assert council.done == []


async def test_while_the_service_is_open_a_token_speaks_for_its_channel_too(
    database_url: str,
) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        token = (await reply(team, run))["token"]
        taken = await decide(served.client, run, YES, headers=bearer(token))
        assert taken.json()["pauses"][0]["decision"]["by"] == "channel:team"


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("terms", [{"quorum": 2}, {"approvers": ["ann", "bob"]}])
async def test_a_channel_that_is_not_named_gets_no_token_where_people_have_to_agree(
    database_url: str, is_open: bool, terms: dict[str, Any]
) -> None:
    team = Notebook("team")
    council = Council(Approval(**terms), channel=team)
    async with service(database_url, [council.workflow], is_open=is_open) as served:
        run = await begun(served)

        async def was_told() -> bool:
            return team.about(run) == ["pause.opened"]

        await until(was_told)
        assert team.told[0].data["reply"] is None
        # Nor does one that it might have had from elsewhere count.
        token = await served.site.replies.token(
            served.site.database, _grant(run["pause"]["id"], "team")
        )
        refused = await decide(served.client, run, YES, headers=bearer(token))
        assert code(refused) == (403, "not_an_approver")
    assert council.done == []


async def test_a_channel_that_is_named_has_one_vote(database_url: str) -> None:
    team = Notebook("team")
    terms = Approval(quorum=2, approvers=["ann", "channel:team"])
    council = Council(terms, channel=team)
    async with service(database_url, [council.workflow], is_open=False) as served:
        run = await begun(served)
        token = bearer((await reply(team, run))["token"])
        voted = await decide(served.client, run, YES, headers=token)
        assert voted.json()["status"] == "paused"
        assert code(await decide(served.client, run, YES, headers=token)) == (409, "already_voted")
        ann = bearer(await key(served.site.database, "ann"))
        assert (await decide(served.client, run, YES, headers=ann)).json()["status"] == "completed"
    assert council.done == ["the wall"]


async def test_every_attempt_carries_the_same_token_and_nobody_keeps_it(database_url: str) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow], is_open=False) as served:
        run = await begun(served)
        token: str = (await reply(team, run))["token"]
    async with service(database_url, [council.workflow], is_open=False) as served:
        await served.site.database.fetch(
            "update deliveries set status = 'pending', next_attempt_at = clock_timestamp()"
        )

        async def was_told_again() -> bool:
            return len(team.about(run)) == 2

        await until(was_told_again)
        replies = [each.data["reply"] for each in team.told]
        assert replies[0] == replies[1]
        tables = await served.site.database.fetch(
            "select table_name as name from information_schema.tables where table_schema = 'public'"
        )
        sealed = token.rpartition(".")[2]
        for table in tables:
            found = await served.site.database.fetch(
                f'select 1 from "{table["name"]}" t where t::text like $1', f"%{sealed}%"
            )
            assert not found, table["name"]


async def test_of_many_decisions_by_token_and_by_key_one_is_taken(database_url: str) -> None:
    team = Notebook("team")
    council = Council(Approval(), channel=team)
    async with service(database_url, [council.workflow], is_open=False) as served:
        run = await begun(served)
        token = bearer((await reply(team, run))["token"])
        people = [bearer(await key(served.site.database, f"clerk {n}")) for n in range(5)]
        answers = await asyncio.gather(
            *(decide(served.client, run, YES, headers=each) for each in [token, *people] * 8)
        )
        assert sorted(each.status_code for each in answers) == [200, *[409] * 47]
    assert council.done == ["the wall"]


async def test_processes_without_a_setting_share_one_secret(database_url: str) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served:
        grant = _grant("pau_1", "team")
        tokens = await asyncio.gather(
            *(Replies().token(served.site.database, grant) for _ in range(10))
        )
        assert len(set(tokens)) == 1
        given = Replies([SigningSecret(key=b"x" * 32)])
        assert await given.token(served.site.database, grant) not in tokens


def _grant(pause_id: str, channel: str) -> Grant:
    return Grant(tenant=DEFAULT_TENANT, channel=channel, pause_id=PauseId(pause_id))
