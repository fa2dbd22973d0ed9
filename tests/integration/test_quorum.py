"""Several have to agree: votes, who has one, and when they are enough."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.authoring import Approval
from app.channels import AutoApproveChannel, AutoRejectChannel
from app.domain.ids import PauseId, ThreadId, new_run_id
from app.domain.principal import Principal
from app.lifecycle.decide import DecideRequest
from app.lifecycle.decide import decide as take
from app.lifecycle.deciders import RequesterMayNotApprove
from app.lifecycle.site import Site
from app.lifecycle.start import StartRequest, start
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council, desk, reviewed

Json = dict[str, Any]


def two() -> Council:
    return Council(Approval(quorum=2))


def yes(by: str, **more: object) -> Json:
    return {"approved": True, "by": by, **more}


def no(by: str, **more: object) -> Json:
    return {"approved": False, "by": by, **more}


async def audited(site: Site, run: Json) -> list[tuple[str, str | None, str | None]]:
    """The audit of a run's thread: what, by whom, and the code of what was refused."""
    rows = await site.database.fetch(
        "select action, by, data->>'code' as code from audit where thread_id = $1 order by sequence",
        run["thread_id"],
    )
    return [(row["action"], row["by"], row["code"]) for row in rows]


async def events(site: Site, run: Json) -> list[str]:
    rows = await site.database.fetch(
        "select type from events where thread_id = $1 order by sequence", run["thread_id"]
    )
    return [row["type"] for row in rows]


async def refusal(served: Service, run: Json, decision: Json) -> tuple[int, str]:
    answer = await decide(served.client, run, decision)
    return answer.status_code, answer.json()["code"]


async def test_an_approval_that_is_not_enough_leaves_the_run_paused(database_url: str) -> None:
    council = two()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        before = await events(served.site, run)
        voted = await decide(served.client, run, yes("ann", feedback="fine"))
        assert voted.status_code == 200
        assert voted.json()["status"] == "paused"
        pause = voted.json()["pause"]
        (vote,) = pause["votes"]
        assert vote | {"at": None} == {
            "by": "ann",
            "approved": True,
            "feedback": "fine",
            "sent_by": None,
            "at": None,
        }
        assert pause | {"votes": []} == run["pause"]
        assert voted.json() | {"pause": None, "pauses": []} == run | {"pause": None, "pauses": []}
        assert await events(served.site, run) == before
        assert await audited(served.site, run) == [("voted", "ann", None)]
        assert council.done == []


async def test_the_vote_that_reaches_the_quorum_is_the_decision(database_url: str) -> None:
    council = two()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await decide(served.client, run, yes("ann"))
        done = (await decide(served.client, run, yes("bob", feedback="me too"))).json()
        assert (done["status"], done["output"]) == ("completed", "built the wall")
        (pause,) = done["pauses"]
        assert [vote["by"] for vote in pause["votes"]] == ["ann", "bob"]
        assert (pause["decision"]["by"], pause["decision"]["feedback"]) == ("bob", "me too")
        assert await audited(served.site, run) == [
            ("voted", "ann", None),
            ("decided", "bob", None),
        ]
        assert council.done == ["the wall"]


async def test_one_rejection_ends_it(database_url: str) -> None:
    council = two()
    async with service(database_url, [council.workflow]) as served:
        for voters in (["bob"], ["ann", "bob"]):
            run = await paused(served.client, "council")
            for voter in voters[:-1]:
                await decide(served.client, run, yes(voter))
            done = (await decide(served.client, run, no("bob", feedback="ugly"))).json()
            assert done["output"] == "Tool error: the call was rejected by bob: ugly"
            (pause,) = done["pauses"]
            assert [vote["by"] for vote in pause["votes"]] == voters
            assert pause["votes"][-1]["approved"] is False
            assert await refusal(served, run, yes("carl")) == (409, "pause_decided")
        assert council.done == []


async def test_nobody_votes_twice(database_url: str) -> None:
    council = Council(Approval(quorum=3))
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await decide(served.client, run, yes("ann"))
        assert await refusal(served, run, yes("ann")) == (409, "already_voted")
        assert await refusal(served, run, no("ann")) == (409, "already_voted")
        assert await refusal(served, run, yes("\nann ")) == (409, "already_voted")
        now = await served.client.get(f"/pauses/{run['pause']['id']}")
        assert [vote["by"] for vote in now.json()["votes"]] == ["ann"]
        refused = ("refused", "ann", "already_voted")
        assert await audited(served.site, run) == [("voted", "ann", None), *[refused] * 3]


async def test_what_is_voted_on_cannot_be_changed(database_url: str) -> None:
    async with service(database_url, [two().workflow, reviewed]) as served:
        for workflow, name, value in (
            ("council", "override_arguments", {"what": "a fence"}),
            ("reviewed", "override_output", "mine"),
            ("reviewed", "override_output", None),
        ):
            run = await paused(served.client, workflow)
            assert run["pause"]["allowed"] == ["verdict"]
            assert name not in run["pause"]["response_schema"]["properties"]
            refused = await decide(served.client, run, yes("ann", **{name: value}))
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_decision")
            assert [each["pointer"] for each in refused.json()["errors"]] == [f"/decision/{name}"]
            now = (await served.client.get(f"/pauses/{run['pause']['id']}")).json()
            assert now == run["pause"]


async def test_a_review_is_voted_on_too(database_url: str) -> None:
    async with service(database_url, [reviewed]) as served:
        run = await paused(served.client, "reviewed")
        assert (await decide(served.client, run, yes("ann"))).json()["status"] == "paused"
        done = (await decide(served.client, run, yes("bob"))).json()
        assert (done["status"], done["output"]) == ("completed", "draft of the wall")


async def test_a_vote_under_a_key_is_one_vote(database_url: str) -> None:
    council = two()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        key = {"headers": {"Idempotency-Key": "v-1"}}
        first = await decide(served.client, run, yes("ann"), **key)
        again = await decide(served.client, run, yes("ann"), **key)
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json() == first.json()
        other = await decide(served.client, run, yes("bob"), **key)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


async def test_of_many_votes_at_once_each_counts_and_nobodys_twice(database_url: str) -> None:
    council = Council(Approval(quorum=4))
    async with service(database_url, [council.workflow]) as served:
        for _ in range(5):
            run = await paused(served.client, "council")
            answers = await asyncio.gather(
                *(decide(served.client, run, yes(f"m{number % 6}")) for number in range(30))
            )
            assert sorted(each.status_code for each in answers) == [200] * 4 + [409] * 26
            codes = {each.json()["code"] for each in answers if each.status_code == 409}
            assert codes <= {"already_voted", "pause_decided"}
            pause = (await served.client.get(f"/pauses/{run['pause']['id']}")).json()
            assert len({vote["by"] for vote in pause["votes"]}) == len(pause["votes"]) == 4
            assert pause["votes"][-1]["by"] == pause["decision"]["by"]
        assert council.done == ["the wall"] * 5


async def test_a_channels_own_yes_is_not_enough_and_its_no_is(database_url: str) -> None:
    hasty = Council(Approval(quorum=2), channel=AutoApproveChannel("hasty"))
    strict = Council(Approval(quorum=2), channel=AutoRejectChannel("strict"))
    async with service(database_url, [hasty.workflow]) as served:
        assert (await paused(served.client, "council"))["pause"]["votes"] == []
    async with service(database_url, [strict.workflow]) as served:
        body = {"workflow": "council", "input": "it", "if_not_exists": "create"}
        ended = (await served.client.post("/threads/t/runs", json=body)).json()
        assert ended["output"] == "Tool error: the call was rejected by strict"
    assert hasty.done == strict.done == []


async def asked_by(site: Site, requester: str) -> DecideRequest:
    """An approval of a run that the requester asked for."""
    thread, run_id = ThreadId(f"of-{requester}"), new_run_id()
    request = StartRequest(
        thread_id=thread,
        workflow="council",
        input="it",
        metadata={},
        creates=True,
        requested_by=requester,
    )
    with site.waiters.expecting(run_id) as settled:
        await start(site, Principal(), request, run_id=run_id, key=None)
        await asyncio.wait_for(settled.wait(), 20)
    rows = await site.database.fetch("select id from pauses where run_id = $1", run_id)
    return DecideRequest(
        thread_id=thread,
        pause_id=PauseId(rows[0]["id"]),
        decision={"approved": True},
        via="api",
    )


async def status_of(site: Site, request: DecideRequest) -> str:
    rows = await site.database.fetch("select status from pauses where id = $1", request.pause_id)
    return rows[0]["status"]


async def test_who_asked_for_a_run_may_reject_it_and_not_approve_it(database_url: str) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served:
        site = served.site
        approval = await asked_by(site, "ann")
        with pytest.raises(RequesterMayNotApprove):
            await take(site, Principal(name="ann"), approval)
        assert await status_of(site, approval) == "open"
        await take(site, Principal(name="bob"), approval)
        assert await status_of(site, approval) == "decided"
        rejection = replace(await asked_by(site, "carl"), decision={"approved": False})
        await take(site, Principal(name="carl"), rejection)
        assert await status_of(site, rejection) == "decided"
        assert await audited(site, {"thread_id": "of-ann"}) == [
            ("refused", "ann", "requester_may_not_approve"),
            ("decided", "bob", None),
        ]


async def test_who_asked_for_a_run_may_approve_it_where_the_ask_says_so(database_url: str) -> None:
    council = Council(Approval(allow_requester=True))
    async with service(database_url, [council.workflow]) as served:
        approval = await asked_by(served.site, "ann")
        await take(served.site, Principal(name="ann"), approval)
        assert await status_of(served.site, approval) == "decided"


async def test_where_it_is_one_who_decides_there_are_no_votes(database_url: str) -> None:
    council = Council(Approval(), channel=desk)
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        done = (await decide(served.client, run, yes("ann"))).json()
        assert done["pauses"][0]["votes"] == []
