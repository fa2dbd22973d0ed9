"""Deadlines: what is told before them, what happens at them, and how they are moved."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from app.authoring import Approval
from app.lifecycle.site import Site
from tests.service import until
from tests.serving import Service, decide, paused, service, serving, site_over
from tests.workflows.councils import Council, Notebook, attic, desk

Json = dict[str, Any]

YES = {"approved": True, "by": "ann"}
HOUR = timedelta(hours=1)


def slow(**terms: Any) -> Council:
    """It has an hour."""
    return Council(Approval(expires_after=HOUR, **terms))


def told(**terms: Any) -> tuple[Council, Notebook, Notebook]:
    """One with an hour, a reminder and an escalation, and the two channels that are told."""
    team, bosses = Notebook("team"), Notebook("bosses")
    terms = {"remind_before": HOUR / 2, "escalate_to": bosses, **terms}
    approval = Approval(expires_after=HOUR, **terms)
    return Council(approval, channel=team, further=(bosses,)), team, bosses


async def audited(site: Site, run: Json) -> list[tuple[str, str | None, str | None]]:
    rows = await site.database.fetch(
        "select action, by, data->>'code' as code from audit where thread_id = $1 order by sequence",
        run["thread_id"],
    )
    return [(row["action"], row["by"], row["code"]) for row in rows]


async def events(site: Site, run: Json, kind: str = "pause.") -> list[str]:
    rows = await site.database.fetch(
        "select type from events where thread_id = $1 order by sequence", run["thread_id"]
    )
    return [row["type"] for row in rows if row["type"].startswith(kind)]


async def come(site: Site, run: Json, *columns: str) -> None:
    """Has a moment of a run's pauses come."""
    moved = ", ".join(f"{column} = clock_timestamp()" for column in columns)
    await site.database.fetch(f"update pauses set {moved} where run_id = $1", run["id"])


async def now(client: httpx.AsyncClient, run: Json) -> Json:
    """The run's pause as it is by now."""
    return (await client.get(f"/pauses/{run['pause']['id']}")).json()


async def closed(client: httpx.AsyncClient, run: Json) -> Json:
    """The run's pause once it is not open any more."""

    async def look() -> Json | None:
        pause = await now(client, run)
        return None if pause["status"] == "open" else pause

    return await until(look)


async def ended(client: httpx.AsyncClient, run: Json) -> Json:
    path = f"/threads/{run['thread_id']}/runs/{run['id']}"

    async def look() -> Json | None:
        found = (await client.get(path)).json()
        return found if found["finished_at"] else None

    return await until(look)


@asynccontextmanager
async def crowd(database_url: str, council: Council) -> AsyncGenerator[Service]:
    """A service, and two more workers beside it."""
    workflows = [council.workflow]
    async with (
        service(database_url, workflows) as served,
        site_over(database_url, workflows),
        site_over(database_url, workflows),
    ):
        yield served


# ── Expiry ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_pause_expires_once_however_many_workers_there_are(database_url: str) -> None:
    council = Council(
        Approval(expires_after=timedelta(seconds=0.2), on_expire="approve"), channel=desk
    )
    async with crowd(database_url, council) as served:
        runs = [await paused(served.client, "council") for _ in range(10)]
        for run in runs:
            assert (await ended(served.client, run))["output"] == "built the wall"
            pause = await now(served.client, run)
            decision = pause["decision"]
            assert (pause["status"], decision["by"]) == ("expired", "system:deadline")
            assert decision["decided_at"] >= pause["expires_at"]
            assert await events(served.site, run) == ["pause.opened", "pause.expired"]
            assert await audited(served.site, run) == [("expired", "system:deadline", None)]
    assert council.done == ["the wall"] * 10


async def test_a_late_approval_is_refused_and_nothing_runs(database_url: str) -> None:
    council = slow()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await come(served.site, run, "expires_at")
        late = await decide(served.client, run, YES)
        assert (late.status_code, late.json()["code"]) == (409, "pause_expired")
        over = await ended(served.client, run)
        assert over["output"] == "Tool error: the call was rejected by system:deadline"
        assert sorted(await audited(served.site, run)) == [
            ("expired", "system:deadline", None),
            ("refused", "ann", "pause_expired"),
        ]
    assert council.done == []


async def test_a_late_approval_is_refused_also_before_any_worker_looks(database_url: str) -> None:
    council = slow()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
    async with (
        site_over(database_url, [council.workflow], works=False) as site,
        serving(site) as client,
    ):
        await come(site, run, "expires_at")
        late = await decide(client, run, YES)
        assert (late.status_code, late.json()["code"]) == (409, "pause_expired")
        assert (await now(client, run))["status"] == "open"
    async with service(database_url, [council.workflow]) as served:
        assert (await closed(served.client, run))["status"] == "expired"
    assert council.done == []


async def test_a_decision_in_time_wins_over_the_timer(database_url: str) -> None:
    council = Council(Approval(expires_after=timedelta(seconds=0.4)))
    async with crowd(database_url, council) as served:
        runs = [await paused(served.client, "council") for _ in range(20)]
        taken = 0
        for run in runs:
            answer = await decide(served.client, run, YES)
            pause = await closed(served.client, run)
            decision = pause["decision"]
            if answer.status_code == 200:
                taken += 1
                assert (pause["status"], decision["by"]) == ("decided", "ann")
                assert decision["decided_at"] < pause["expires_at"]
            else:
                assert answer.json()["code"] == "pause_expired"
                assert (pause["status"], decision["by"]) == ("expired", "system:deadline")
                assert decision["decided_at"] >= pause["expires_at"]
    assert council.done == ["the wall"] * taken


async def test_a_pause_that_nobody_serves_keeps_no_other_from_expiring(database_url: str) -> None:
    old, new = slow(), Council(Approval(expires_after=HOUR), channel=attic)
    async with service(database_url, [old.workflow]) as served:
        forgotten = await paused(served.client, "council")
    async with service(database_url, [new.workflow]) as served:
        run = await paused(served.client, "council")
        for each in (forgotten, run):
            await come(served.site, each, "expires_at")
        assert (await closed(served.client, run))["status"] == "expired"


async def test_votes_do_not_hold_the_deadline_up(database_url: str) -> None:
    council = slow(quorum=2)
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await decide(served.client, run, YES)
        await come(served.site, run, "expires_at")
        pause = await closed(served.client, run)
        assert (pause["status"], [vote["by"] for vote in pause["votes"]]) == ("expired", ["ann"])
    assert council.done == []


# ── Reminders and escalations ────────────────────────────────────────────────────────────────────────


async def test_a_reminder_is_told_once_to_who_was_asked(database_url: str) -> None:
    council, team, bosses = told()
    async with crowd(database_url, council) as served:
        run = await paused(served.client, "council")
        assert await events(served.site, run) == ["pause.opened"]
        await come(served.site, run, "remind_at")
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.reminder"]))
        await decide(served.client, run, YES)
        await until(lambda: _are(team.about(run)[-1:], ["pause.decided"]))
        assert await events(served.site, run) == [
            "pause.opened",
            "pause.reminder",
            "pause.decided",
        ]
        assert len(team.about(run)) == 3
        assert bosses.about(run) == []


async def test_an_escalation_is_told_once_to_who_else_is_asked(database_url: str) -> None:
    council, team, bosses = told()
    async with crowd(database_url, council) as served:
        run = await paused(served.client, "council")
        assert run["pause"]["escalated_to"] is None
        await come(served.site, run, "escalate_at")
        await until(lambda: _are(bosses.about(run), ["pause.escalated"]))
        assert (await now(served.client, run))["escalated_to"] == "bosses"
        for channel in ("team", "bosses"):
            listed = await served.client.get(f"/pauses?channel={channel}&status=open")
            assert [each["id"] for each in listed.json()["items"]] == [run["pause"]["id"]]
        await decide(served.client, run, YES)
        await until(lambda: _are(bosses.about(run), ["pause.escalated", "pause.decided"]))
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.decided"]))
        assert await events(served.site, run) == [
            "pause.opened",
            "pause.escalated",
            "pause.decided",
        ]


async def test_who_else_was_asked_hears_also_of_a_cancelled_run(database_url: str) -> None:
    council, team, bosses = told()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await come(served.site, run, "escalate_at")
        await until(lambda: _are(bosses.about(run), ["pause.escalated"]))
        await served.client.post(f"/threads/{run['thread_id']}/runs/{run['id']}/cancel")
        await until(lambda: _are(bosses.about(run), ["pause.escalated", "pause.cancelled"]))
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.cancelled"]))


async def test_what_came_due_while_no_worker_was_there_is_told_by_the_next(
    database_url: str,
) -> None:
    council, team, bosses = told()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
    async with site_over(database_url, [council.workflow], works=False) as site:
        await come(site, run, "remind_at", "escalate_at")
    async with service(database_url, [council.workflow]) as served:
        await until(lambda: _are(bosses.about(run), ["pause.escalated"]))
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.reminder"]))


async def test_after_the_deadline_nobody_is_reminded_of_it(database_url: str) -> None:
    council, team, bosses = told()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
    async with site_over(database_url, [council.workflow], works=False) as site:
        await come(site, run, "remind_at", "escalate_at", "expires_at")
    async with service(database_url, [council.workflow]) as served:
        await ended(served.client, run)
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.expired"]))
        assert await events(served.site, run) == ["pause.opened", "pause.expired"]
        assert bosses.told == []


async def test_the_moments_before_a_deadline_count_back_from_it(database_url: str) -> None:
    council, _, _ = told(remind_before=timedelta(minutes=20))
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        moments = await _moments(served.site, run)
        assert moments == pytest.approx((20 * 60, 15 * 60), abs=1)


async def _are(found: list[str], expected: list[str]) -> bool:
    return found == expected


async def _moments(site: Site, run: Json) -> tuple[float | None, float | None]:
    """How many seconds before its deadline somebody is reminded, and somebody else asked; None: never."""
    (row,) = await site.database.fetch(
        "select extract(epoch from expires_at - remind_at)::float8 as remind, "
        "extract(epoch from expires_at - escalate_at)::float8 as escalate from pauses where run_id = $1",
        run["id"],
    )
    return row["remind"], row["escalate"]


# ── Extension ────────────────────────────────────────────────────────────────────────────────────────


async def extend(
    client: httpx.AsyncClient, run: Json, expires_at: object, **headers: str
) -> httpx.Response:
    body = {"expires_at": expires_at}
    return await client.post(f"/pauses/{run['pause']['id']}/extend", json=body, headers=headers)


def later(run: Json, **by: float) -> str:
    """A moment so much after the run's deadline."""
    return (datetime.fromisoformat(run["pause"]["expires_at"]) + timedelta(**by)).isoformat()


async def test_a_deadline_is_moved_with_what_is_told_before_it(database_url: str) -> None:
    council, _, _ = told()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        moved = await extend(served.client, run, later(run, hours=4))
        assert moved.status_code == 200, moved.text
        new = moved.json()["expires_at"]
        assert datetime.fromisoformat(new).isoformat() == later(run, hours=4)
        assert moved.json() == await now(served.client, run)
        assert moved.json() | {"expires_at": None} == run["pause"] | {"expires_at": None}
        assert await _moments(served.site, run) == (30 * 60, 15 * 60)
        assert await audited(served.site, run) == [("extended", None, None)]
        assert (await decide(served.client, run, YES)).json()["status"] == "completed"


async def test_a_moved_deadline_is_the_one_that_holds(database_url: str) -> None:
    council = slow()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        (row,) = await served.site.database.fetch(
            "select clock_timestamp() + interval '2 s' as soon"
        )
        assert (await extend(served.client, run, row["soon"].isoformat())).status_code == 200
        assert (await closed(served.client, run))["status"] == "expired"


async def test_what_was_told_is_told_again_only_where_there_is_time(database_url: str) -> None:
    council, team, bosses = told()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        await come(served.site, run, "remind_at", "escalate_at")
        await until(lambda: _are(bosses.about(run), ["pause.escalated"]))
        await until(lambda: _are(team.about(run), ["pause.opened", "pause.reminder"]))
        await extend(served.client, run, later(run, minutes=-40))
        assert await _moments(served.site, run) == (None, 15 * 60)
        await extend(served.client, run, later(run, hours=1))
        assert await _moments(served.site, run) == (30 * 60, 15 * 60)


async def test_a_deadline_cannot_be_moved_into_the_past(database_url: str) -> None:
    council = slow()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        for wrong in (
            run["pause"]["opened_at"],
            "0001-01-01T00:00:00+10:00",
            "9999-12-31T23:59:59-10:00",
            "9999-12-31T23:59:59.999999+00:00",  # the store would take it for "never"
            later(run, hours=1)[:19],  # nobody knows where
            "tomorrow",
            4102444800,
            None,
        ):
            refused = await extend(served.client, run, wrong)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), wrong
            assert [each["pointer"] for each in refused.json()["errors"]] == ["/expires_at"]
        assert await now(served.client, run) == run["pause"]
        assert await audited(served.site, run) == []


async def test_only_an_open_pause_with_a_deadline_is_given_more_time(database_url: str) -> None:
    timeless, council = Council(Approval()), slow()
    async with service(database_url, [timeless.workflow]) as served:
        run = await paused(served.client, "council")
        refused = await extend(served.client, run, "2999-01-01T00:00:00Z")
        assert (refused.status_code, refused.json()["code"]) == (409, "no_deadline")
    async with service(database_url, [council.workflow]) as served:
        decided, cancelled, late, superseded = [
            await paused(served.client, "council") for _ in range(4)
        ]
        await decide(served.client, decided, YES)
        path = f"/threads/{cancelled['thread_id']}/runs/{cancelled['id']}/cancel"
        await served.client.post(path)
        await come(served.site, late, "expires_at")
        body = {"workflow": "council", "input": "it", "if_paused": "supersede"}
        await served.client.post(f"/threads/{superseded['thread_id']}/runs", json=body)
        for run, code in (
            (decided, "pause_decided"),
            (cancelled, "pause_cancelled"),
            (late, "pause_expired"),
            (superseded, "pause_superseded"),
        ):
            refused = await extend(served.client, run, later(run, hours=1))
            assert (refused.status_code, refused.json()["code"]) == (409, code)
        unknown = {"pause": {"id": "pau_00000000000000000000000000000000"}}
        missing = await extend(served.client, unknown, "2999-01-01T00:00:00Z")
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_a_deadline_is_moved_once_under_a_key(database_url: str) -> None:
    council = slow()
    async with service(database_url, [council.workflow]) as served:
        run = await paused(served.client, "council")
        first = await extend(served.client, run, later(run, hours=1), **KEY)
        other = await extend(served.client, run, later(run, hours=2))
        again = await extend(served.client, run, later(run, hours=1), **KEY)
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json() == other.json()
        mismatch = await extend(served.client, run, later(run, hours=3), **KEY)
        assert mismatch.json()["code"] == "idempotency_mismatch"
        at_once = await asyncio.gather(
            *(extend(served.client, run, later(run, hours=4), **OTHER_KEY) for _ in range(5))
        )
        assert [each.status_code for each in at_once] == [200] * 5
        assert await audited(served.site, run) == [("extended", None, None)] * 3


KEY = {"Idempotency-Key": "k-1"}
OTHER_KEY = {"Idempotency-Key": "k-2"}
