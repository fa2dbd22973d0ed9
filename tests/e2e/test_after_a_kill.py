"""A service is killed while its runs wait, work and were just taken; the next one goes on with them."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.postgres import Cluster
from tests.service import Api, Json, Served, processes
from tests.workflows.effects import VARIABLE, Effects
from tests.workflows.letters import SERVED

LEASE = 1.0
TAKEN_OVER_WITHIN = 2.0


@dataclass(frozen=True, kw_only=True)
class Left:
    """The runs that a killed service has left, and the service that has them now."""

    service: Served
    effects: Effects
    killed_at: float
    paused: Json
    just_accepted: Json
    cancelled: Json
    working: Json
    started_unanswered: Json
    decided_unanswered: Json


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[{}, {"SIGNOFF_ENCRYPTION_KEYS": '["MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]'}],
    ids=["plain", "encrypted"],
)
async def left(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Left]:
    folder = tmp_path_factory.mktemp("after-a-kill")
    effects = Effects(folder / "effects")
    environment = {
        VARIABLE: str(effects.path),
        "SIGNOFF_LEASE_SECONDS": str(LEASE),
        **request.param,
    }
    async with cluster.migrated_database() as url:
        with processes(
            folder, workflows=SERVED, database_url=url, environment=environment
        ) as begun:
            doomed, following = begun.begin_serving(), begun.begin_serving()
            await doomed.ready()
            await following.ready()
            async with doomed.api() as api:
                yield await _leave(api, doomed, following, effects)


async def _leave(api: Api, doomed: Served, following: Served, effects: Effects) -> Left:
    paused = await api.started("letters")
    asked = await api.started("gated_jobs", "decided")
    working = await api.accepted("jobs", "long")
    unwanted = await api.accepted("jobs", "unwanted")
    unanswered = [
        asyncio.create_task(request)
        for request in (
            api.start("jobs", "keyed", thread="keyed", idempotency_key="s", prefer="wait=60"),
            api.decide(asked["pause"], idempotency_key="d", prefer="wait=60"),
        )
    ]
    for task in ("keyed", "decided", "long", "unwanted"):
        await effects.wait_for(f"began {task}")
    just_accepted = await api.accepted("jobs", "accepted")
    killed_at = doomed.kill()
    async with following.api() as next_api:
        cancelled = await next_api.cancel(unwanted)
    broken = await asyncio.gather(*unanswered, return_exceptions=True)
    assert all(isinstance(each, httpx.TransportError) for each in broken), broken
    return Left(
        service=following,
        effects=effects,
        killed_at=killed_at,
        paused=paused,
        just_accepted=just_accepted,
        cancelled=cancelled.json(),
        working=working,
        started_unanswered={"id": effects.run_of("began keyed"), "thread_id": "keyed"},
        decided_unanswered=asked,
    )


@pytest.fixture
async def api(left: Left) -> AsyncGenerator[Api]:
    async with left.service.api() as api:
        yield api


async def test_a_paused_run_is_listed_and_decided_in_the_next_process(left: Left, api: Api) -> None:
    listed = await api.get("/pauses", status="open", run_id=left.paused["id"])
    assert [each["id"] for each in listed["items"]] == [left.paused["pause"]["id"]]
    ended = await api.decided(left.paused["pause"])
    assert ended["status"] == "completed"
    assert left.effects.of(left.paused) == ["sent work"]


async def test_a_run_that_was_just_accepted_runs_in_the_next_process(left: Left, api: Api) -> None:
    left.effects.permit("accepted")
    ended = await api.ended(left.just_accepted)
    assert ended["output"] == "done accepted"
    assert left.effects.of(left.just_accepted).count("ended accepted") == 1


async def test_a_working_run_is_taken_over_soon_after_its_lease_with_the_same_call_id(
    left: Left, api: Api
) -> None:
    await left.effects.wait_for("began long", times=2)
    left.effects.permit("long")
    assert (await api.ended(left.working))["output"] == "done long"
    first, second, ended = left.effects.lines_of(left.working)
    assert [first["what"], second["what"], ended["what"]] == ["began long"] * 2 + ["ended long"]
    assert first["call"] == second["call"] == ended["call"]
    assert second["at"] <= left.killed_at + LEASE + TAKEN_OVER_WITHIN


async def test_a_run_whose_worker_is_dead_is_cancelled_at_once(left: Left, api: Api) -> None:
    assert left.cancelled["status"] == "cancelled"
    left.effects.permit("unwanted")
    following = await api.started("waved_letters", thread=left.cancelled["thread_id"])
    assert following["status"] == "completed"
    assert await api.run(left.cancelled) == left.cancelled
    assert left.effects.of(left.cancelled) == ["began unwanted"]


async def test_a_start_whose_answer_was_lost_is_found_by_its_key(left: Left, api: Api) -> None:
    left.effects.permit("keyed")
    again = await api.start("jobs", "keyed", thread="keyed", idempotency_key="s", prefer="wait=30")
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["id"] == left.started_unanswered["id"]
    assert again.json()["output"] == "done keyed"
    assert len((await api.get("/threads/keyed/runs"))["items"]) == 1
    assert left.effects.of(left.started_unanswered).count("ended keyed") == 1


async def test_a_decision_whose_answer_was_lost_was_taken(left: Left, api: Api) -> None:
    pause = left.decided_unanswered["pause"]
    left.effects.permit("decided")
    again = await api.decide(pause, idempotency_key="d")
    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["output"] == "done decided"
    once_more = await api.decide(pause)
    assert once_more.status_code == 409
    assert once_more.json()["code"] == "pause_decided"
    assert left.effects.of(left.decided_unanswered).count("ended decided") == 1
