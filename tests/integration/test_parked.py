"""What a process remembers of the runs it parked is what reading them would give, and never more than that."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.authoring import Workflow
from app.domain.ids import PauseId, ThreadId
from app.domain.pause import Answer
from app.domain.principal import Principal
from app.domain.run import Lease
from app.lifecycle.site import Site
from app.storage import pauses, runs
from app.storage.runs import Loaded
from tests.serving import decide, serving, site_over
from tests.workflows.letters import enquiries, letters, pairs, timed_letters, voted_letters

YES = Answer(approved=True, by="ann", via="api", shape="verdict")


async def begun(client: httpx.AsyncClient, workflow: Workflow, thread: str) -> dict[str, Any]:
    """A run of a workflow, which has stopped at its first pause."""
    answer = await client.post(
        f"/threads/{thread}/runs",
        json={"workflow": workflow.name, "input": "x", "if_not_exists": "create"},
    )
    run = answer.json()
    assert run["status"] == "paused", run
    return run


def remembered(site: Site, run: dict[str, Any]) -> pauses.PauseRow | None:
    thread_id, pause_id = ThreadId(run["thread_id"]), PauseId(run["pause"]["id"])
    return site.parked.pause(Principal().tenant, thread_id, pause_id)


def in_order(loaded: Loaded) -> Loaded:
    return replace(
        loaded,
        checkpoints=tuple(sorted(loaded.checkpoints, key=lambda row: (row.line, row.ns))),
        writes=tuple(
            sorted(loaded.writes, key=lambda row: (row.line, row.ns, row.task_id, row.idx))
        ),
    )


@pytest.mark.parametrize("workflow", [letters, pairs, enquiries], ids=lambda each: each.name)
async def test_what_is_remembered_is_what_reading_gives(
    database_url: str, workflow: Workflow
) -> None:
    async with site_over(database_url, [workflow]) as site, serving(site) as client:
        run = await begun(client, workflow, "one")
        known = remembered(site, run)
        assert known
        stored = await pauses.read(site.database, known.run.tenant, known.run.thread_id, known.id)
        assert stored
        assert replace(known, age=0) == replace(stored, age=0)
        loaded = await runs.load(site.database, known.run, history=0, has_budget=False)
        (interrupt,) = loaded.open
        lease = Lease(run=known.run, worker="w", fence=2)
        woken = site.parked.woken(known.id, YES, lease=lease, decisions=1)
        assert woken
        read = replace(loaded, decisions=1, answers={interrupt: YES}, open=frozenset())
        assert in_order(woken) == in_order(read)


async def test_a_second_pause_of_a_run_is_remembered_with_what_was_decided_before(
    database_url: str,
) -> None:
    async with site_over(database_url, [pairs]) as site, serving(site) as client:
        first = await begun(client, pairs, "one")
        second = (await decide(client, first, {"approved": False, "by": "ann"})).json()
        known = remembered(site, second)
        assert known
        loaded = await runs.load(site.database, known.run, history=0, has_budget=False)
        lease = Lease(run=known.run, worker="w", fence=3)
        woken = site.parked.woken(known.id, YES, lease=lease, decisions=2)
        assert woken
        assert {**woken.answers, **loaded.answers} == woken.answers
        assert in_order(woken).checkpoints == in_order(loaded).checkpoints


@pytest.mark.parametrize("workflow", [timed_letters, voted_letters], ids=lambda each: each.name)
async def test_a_pause_that_time_or_others_can_change_is_read(
    database_url: str, workflow: Workflow
) -> None:
    async with site_over(database_url, [workflow]) as site, serving(site) as client:
        assert remembered(site, await begun(client, workflow, "one")) is None


async def test_another_tenant_or_thread_finds_nothing(database_url: str) -> None:
    async with site_over(database_url, [letters]) as site, serving(site) as client:
        run = await begun(client, letters, "one")
        known = remembered(site, run)
        assert known
        assert site.parked.pause(known.run.tenant, ThreadId("two"), known.id) is None
        foreign = {"pause_id": known.id, "decision": {"approved": True, "by": "ann"}}
        await client.post("/threads", json={"id": "two"})
        assert (await client.post("/threads/two/resume", json=foreign)).status_code == 404
        assert (await decide(client, run, {"approved": True, "by": "ann"})).status_code == 200


@pytest.mark.parametrize("late", [{"approved": True, "by": "bob"}, {"approved": "maybe"}], ids=repr)
async def test_what_was_decided_elsewhere_is_said_to_be_decided(
    database_url: str, late: dict[str, Any]
) -> None:
    async with (
        site_over(database_url, [pairs]) as here,
        site_over(database_url, [pairs]) as there,
        serving(here) as client,
        serving(there) as other,
    ):
        run = await begun(client, pairs, "one")
        second = (await decide(other, run, {"approved": True, "by": "ann"})).json()
        assert remembered(here, run)
        refused = await decide(client, run, late)
        assert (refused.status_code, refused.json()["code"]) == (409, "pause_decided")
        assert remembered(here, run) is None
        ended = (await decide(client, second, {"approved": True, "by": "ann"})).json()
        assert ended["status"] == "completed"
        assert ended["usage"]["tool_calls"] == 2


async def test_a_run_that_others_had_in_between_is_not_gone_on_with_from_memory(
    database_url: str,
) -> None:
    async with site_over(database_url, [pairs]) as site, serving(site) as client:
        known = remembered(site, await begun(client, pairs, "one"))
        assert known
        later = Lease(run=known.run, worker="w", fence=3)
        assert site.parked.woken(known.id, YES, lease=later, decisions=1) is None
        assert remembered(site, {"thread_id": "one", "pause": {"id": known.id}}) is None
