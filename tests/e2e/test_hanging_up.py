"""Clients that hang up while they wait."""

import httpx
import pytest

from tests.e2e.conftest import Town
from tests.service import Api, new_thread


async def test_a_client_that_hangs_up_while_a_run_works_changes_nothing(
    town: Town, api: Api
) -> None:
    thread = new_thread()
    api.client.timeout = httpx.Timeout(0.5)
    with pytest.raises(httpx.ReadTimeout):
        await api.start("jobs", thread, thread=thread, prefer="wait=60")
    api.client.timeout = httpx.Timeout(30)
    (run,) = (await api.get(f"/threads/{thread}/runs"))["items"]
    assert run["status"] == "running"
    town.effects.permit(thread)
    assert (await api.ended(run))["status"] == "completed"
    assert town.effects.of(run) == [f"began {thread}", f"ended {thread}"]


async def test_a_client_that_hangs_up_after_deciding_has_decided(town: Town, api: Api) -> None:
    task = new_thread()
    run = await api.started("gated_jobs", task)
    api.client.timeout = httpx.Timeout(0.5)
    with pytest.raises(httpx.ReadTimeout):
        await api.decide(run["pause"], prefer="wait=60")
    api.client.timeout = httpx.Timeout(30)
    town.effects.permit(task)
    ended = await api.ended(run)
    assert (ended["status"], ended["pauses"][0]["status"]) == ("completed", "decided")
    assert town.effects.of(run) == [f"began {task}", f"ended {task}"]
