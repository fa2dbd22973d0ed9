"""Runs and threads through the client: started, waited for, ended, listed."""

import asyncio
import time
from collections.abc import Callable

import pytest

from client.tests.conftest import Served
from examples.errands import Errand
from signoff_client import (
    AsyncSignoffClient,
    InvalidRequest,
    NotFound,
    Problem,
    SignoffClient,
    ThreadBusy,
    ThreadExists,
    ThreadPaused,
    Unreachable,
    WaitTimedOut,
)
from tests.service import free_port, new_thread


def test_a_run_goes_from_its_start_over_a_decision_to_its_end(client: SignoffClient) -> None:
    run = client.start_run("errands", Errand(text="a day off"), metadata={"from": "ann"})
    run = client.wait_for_run(run)
    assert run.pause
    assert run.pause.call
    assert run.pause.call.arguments["smtp_password"] == "***"
    assert (run.status, run.is_settled, run.has_ended) == ("paused", True, False)

    run = client.wait_for_run(client.approve(run.pause))

    assert (run.status, run.is_settled, run.has_ended) == ("completed", True, True)
    assert "boss@example.com" in run.output["text"]
    assert run.metadata == {"from": "ann"}


async def test_both_clients_wait_for_what_takes_its_time(
    client: SignoffClient, async_client: AsyncSignoffClient
) -> None:
    begun = [
        client.start_run("lingers", 0.3, wait=0),
        await async_client.start_run("lingers", 0.3, wait=0),
    ]
    assert not any(each.is_settled for each in begun)

    ended = [client.wait_for_run(begun[0]), await async_client.wait_for_run(begun[1], timeout=20)]
    assert [each.output for each in ended] == ["lingered for 0.3"] * 2


def test_who_does_not_want_to_wait_longer_is_told_how_it_stands(client: SignoffClient) -> None:
    run = client.start_run("lingers", 60, wait=0)
    begun = time.monotonic()

    with pytest.raises(WaitTimedOut) as late:
        client.wait_for_run(run, timeout=0.2)

    assert isinstance(late.value, TimeoutError)
    assert late.value.run.status == "running"
    assert time.monotonic() - begun < 20
    assert client.cancel_run(run).status == "cancelled"


def test_a_thread_is_made_where_none_is_named_and_used_where_one_is(client: SignoffClient) -> None:
    first = client.start_run("lingers", 0, wait=30)
    second = client.start_run("lingers", 0, thread_id=first.thread_id, wait=30)
    named = client.start_run("lingers", 0, thread_id=new_thread(), if_not_exists="create", wait=30)

    assert [each.id for each in client.list_runs(first.thread_id)] == [second.id, first.id]
    assert named.thread_id != first.thread_id
    with pytest.raises(NotFound):
        client.start_run("lingers", 0, thread_id=new_thread())


def test_a_thread_with_an_unfinished_run_says_which_pauses_it_waits_for(
    client: SignoffClient,
) -> None:
    run = client.start_run("confirmations", "ann", wait=30)
    assert run.pause

    with pytest.raises(ThreadPaused) as refused:
        client.start_run("confirmations", "ann", thread_id=run.thread_id)
    assert refused.value.pause_ids == [run.pause.id]

    newer = client.start_run(
        "confirmations", "ann", thread_id=run.thread_id, if_paused="supersede", wait=30
    )
    assert client.get_run(run.thread_id, run.id).stop_reason == "superseded"
    client.cancel_run(newer)


def test_a_busy_thread_stays_and_an_idle_one_goes(client: SignoffClient) -> None:
    run = client.start_run("lingers", 60, wait=0)
    with pytest.raises(ThreadBusy):
        client.delete_thread(run.thread_id)
    client.cancel_run(run)

    client.delete_thread(run.thread_id)

    with pytest.raises(NotFound):
        client.get_thread(run.thread_id)


async def test_a_list_goes_on_over_its_pages(
    client: SignoffClient, async_client: AsyncSignoffClient
) -> None:
    made = await asyncio.gather(*[async_client.create_thread() for _ in range(101)])
    threads = {each.id for each in made}

    listed = [each.id async for each in async_client.list_threads()]

    assert threads == set(listed[:101])
    assert listed == [each.id for each in client.list_threads()]


def test_pauses_are_found_by_what_they_are(client: SignoffClient) -> None:
    run = client.start_run("ways", "ann", wait=30)
    found = list(client.list_pauses(status="open", kind="route", thread_id=run.thread_id))
    assert found == [run.pause]
    assert not list(client.list_pauses(status="decided", thread_id=run.thread_id))


def test_what_is_served_is_described(client: SignoffClient) -> None:
    names = {each.name for each in client.list_workflows()}
    described = {name: client.get_workflow(name) for name in names}
    assert {"errands", "ways", "lingers"} <= names
    assert described["errands"].agents[0].tools[0].name == "send_email"
    choices = described["ways"].steps[0].choices
    assert choices
    assert [each.name for each in choices] == ["left", "right"]


def test_who_decided_what_can_be_read(client: SignoffClient) -> None:
    run = client.start_run("confirmations", "ann", wait=30)
    assert run.pause
    client.approve(run.pause, wait=30)

    (row,) = client.list_audit(thread_id=run.thread_id, action="decided")
    assert (row.by, row.pause_id) == ("maria", run.pause.id)
    assert not list(client.list_deliveries(thread_id=run.thread_id))
    assert client.get_session().is_open


Mistake = Callable[[SignoffClient], object]
MISTAKES: dict[str, tuple[Mistake, type[Problem]]] = {
    "a workflow that is not served": (lambda client: client.start_run("nope", 1), NotFound),
    "an id with a slash": (lambda client: client.get_pause("a/../b"), NotFound),
    "a delivery that never was": (lambda client: client.retry_delivery("dlv_1"), NotFound),
    "an input that does not fit": (lambda client: client.start_run("lingers", {}), InvalidRequest),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_as_what_it_is(client: SignoffClient, mistake: str) -> None:
    make, expected = MISTAKES[mistake]
    with pytest.raises(expected) as refused:
        make(client)
    assert refused.value.code in str(refused.value)


def test_an_id_is_taken_once(client: SignoffClient) -> None:
    taken = client.create_thread(id=new_thread()).id
    with pytest.raises(ThreadExists):
        client.create_thread(id=taken)


def test_a_service_behind_a_prefix_is_asked_there(served: Served) -> None:
    with SignoffClient(f"{served.url}/nowhere/", retries=0) as client, pytest.raises(NotFound):
        client.get_session()


def test_nobody_there_is_told_in_words() -> None:
    with (
        SignoffClient(f"http://127.0.0.1:{free_port()}", retries=1) as client,
        pytest.raises(Unreachable, match="cannot be reached"),
    ):
        client.get_session()
