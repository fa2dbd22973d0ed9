"""Every kind of pause, decided in the words of the client, against a real service."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from client.tests.conftest import Served
from signoff_client import (
    AlreadyVoted,
    AsyncSignoffClient,
    DigestMismatch,
    InvalidDecision,
    Pause,
    PauseDecided,
    Run,
    SignoffClient,
    decisions,
)
from tests.workflows.desk import Stay


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to decide a kind of pause, and what the run then says."""

    workflow: str
    kind: str
    decide: Callable[[SignoffClient, Pause], Run]
    status: str = "completed"
    says: str

    def __str__(self) -> str:
        return f"{self.kind} {self.workflow} {self.says}"


STAY = Stay(nights=3, price=70, with_breakfast=False, room="street")
WAYS = [
    Way(
        workflow="parcels",
        kind="approval",
        decide=lambda client, pause: client.approve(pause),
        says="parcel 9007199254740993 to ann and 4 digits",
    ),
    Way(
        workflow="parcels",
        kind="approval",
        decide=lambda client, pause: client.edit(pause, {**arguments_of(pause), "number": 5}),
        says="parcel 5 to ann and 4 digits",
    ),
    Way(
        workflow="parcels",
        kind="approval",
        decide=lambda client, pause: client.reject(pause, feedback="too heavy"),
        says="the call was rejected by maria: too heavy",
    ),
    Way(
        workflow="colours",
        kind="interactive",
        decide=lambda client, pause: client.answer(pause, "red", by="eve"),
        says="'red'",
    ),
    Way(
        workflow="truths",
        kind="interactive",
        decide=lambda client, pause: client.answer(pause, False),
        says="False",
    ),
    Way(
        workflow="safes",
        kind="input",
        decide=lambda client, pause: client.fill(pause, {"code": "0000"}),
        says="the safe of room 7 is open with 0000",
    ),
    Way(
        workflow="stays",
        kind="input",
        decide=lambda client, pause: client.fill(pause, STAY),
        says='"nights":3',
    ),
    Way(
        workflow="calls",
        kind="external_result",
        decide=lambda client, pause: client.report(pause, "she comes at nine"),
        says="she comes at nine",
    ),
    Way(
        workflow="confirmations",
        kind="confirmation",
        decide=lambda client, pause: client.approve(pause),
        says="ann",
    ),
    Way(
        workflow="confirmations",
        kind="confirmation",
        decide=lambda client, pause: client.reject(pause),
        status="cancelled",
        says="rejected by maria",
    ),
    Way(
        workflow="ways",
        kind="route",
        decide=lambda client, pause: client.choose(pause, "right", "left"),
        says="ann",
    ),
    Way(
        workflow="drafts",
        kind="review",
        decide=lambda client, pause: client.edit(pause, "dear ann"),
        says="dear ann",
    ),
    Way(
        workflow="drafts",
        kind="review",
        decide=lambda client, pause: client.reject(pause, feedback="warmer"),
        status="paused",
        says="review",
    ),
    Way(
        workflow="errors",
        kind="error",
        decide=lambda client, pause: client.act(pause, "skip"),
        says="ann",
    ),
    Way(
        workflow="errors",
        kind="error",
        decide=lambda client, pause: client.act(pause, "fail"),
        status="failed",
        says="stumbled over ann",
    ),
]


def arguments_of(pause: Pause) -> dict[str, object]:
    assert pause.call
    return pause.call.arguments


def said_by(run: Run) -> str:
    match run.status:
        case "completed":
            return str(run.output)
        case "failed":
            return run.error.message if run.error else ""
        case "cancelled":
            return run.stop_reason or ""
        case _:
            return paused_at(run).kind


def paused_at(run: Run) -> Pause:
    assert run.pause, run
    return run.pause


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_pause_is_decided_in_its_own_words(client: SignoffClient, way: Way) -> None:
    pause = paused_at(client.start_run(way.workflow, "ann", wait=30))
    assert (pause.kind, pause.is_open) == (way.kind, True)

    run = client.wait_for_run(way.decide(client, pause))

    assert run.status == way.status, run
    assert way.says in said_by(run)
    decided = client.get_pause(pause.id)
    assert decided.status == "decided"
    assert decided.decision
    assert decided.decision.by == ("eve" if way.workflow == "colours" else "maria")


async def test_a_call_in_doubt_is_settled_by_what_came_of_it(
    async_client: AsyncSignoffClient, served: Served
) -> None:
    run = await async_client.start_run("charges", "ann", wait=30)
    run = await async_client.approve(paused_at(run), wait=0)
    async for event in async_client.run_events(run):
        if event.type == "tool.started":
            break
    await take_the_lease_away(served, run)
    run = await async_client.wait_for_run(run, timeout=30)

    pause = paused_at(run)
    assert pause.kind == "unknown_outcome"
    run = await async_client.use_value(pause, "charged, says the bank", wait=30)

    assert (run.status, run.output) == ("completed", "charged, says the bank")


async def take_the_lease_away(served: Served, run: Run) -> None:
    """As if the worker had slept, and had to be given up."""
    connection = await asyncpg.connect(served.database_url)
    try:
        await connection.execute(
            "update threads set lease_until = clock_timestamp() - interval '1 second', fence = fence + 1"
            " where id = $1",
            run.thread_id,
        )
    finally:
        await connection.close()


async def test_both_clients_decide_alike(async_client: AsyncSignoffClient) -> None:
    run = await async_client.start_run("ways", "ann", wait=30)
    run = await async_client.choose(paused_at(run), "left", wait=30)
    assert (run.status, run.output) == ("completed", "ann")


def test_a_decision_holds_for_what_was_shown_and_for_nothing_else(client: SignoffClient) -> None:
    pause = paused_at(client.start_run("parcels", "ann", wait=30))
    other = pause.model_copy(update={"digest": "0" * 64})

    with pytest.raises(DigestMismatch):
        client.approve(other)

    assert client.get_pause(pause.id).is_open


def test_a_second_decision_says_that_there_was_a_first(client: SignoffClient) -> None:
    pause = paused_at(client.start_run("confirmations", "ann", wait=30))
    client.approve(pause)

    with pytest.raises(PauseDecided) as refused:
        client.reject(pause)

    assert refused.value.status == 409
    assert refused.value.values["pause_id"] == pause.id


def test_the_same_decision_sent_again_under_its_name_is_no_second_one(
    client: SignoffClient,
) -> None:
    pause = paused_at(client.start_run("confirmations", "ann", wait=30))
    runs = [client.approve(pause, idempotency_key=f"press-{pause.id}", wait=30) for _ in range(2)]
    assert [each.status for each in runs] == ["completed", "completed"]


def test_a_decision_that_does_not_fit_says_where_and_leaves_the_pause_open(
    client: SignoffClient,
) -> None:
    pause = paused_at(client.start_run("numbers", "ann", wait=30))

    with pytest.raises(InvalidDecision) as refused:
        client.answer(pause, "many")

    assert [each.pointer for each in refused.value.errors] == ["/decision/value"]
    assert client.get_pause(pause.id).is_open


def test_nothing_of_a_question_can_be_edited(client: SignoffClient) -> None:
    pause = paused_at(client.start_run("numbers", "ann", wait=30))
    with pytest.raises(ValueError, match="'interactive'"):
        decisions.edit(pause, 7)


def test_several_have_to_agree_and_each_has_one_vote(client: SignoffClient) -> None:
    pause = paused_at(client.start_run("councils", "ann", wait=30))
    run = client.approve(pause, feedback="fine")
    assert [each.by for each in paused_at(run).votes] == ["maria"]

    with pytest.raises(AlreadyVoted):
        client.approve(pause)
    run = client.wait_for_run(client.approve(pause, by="noah"))

    assert (run.status, run.open_pauses) == ("completed", [])


def test_a_deadline_is_moved(client: SignoffClient) -> None:
    pause = paused_at(client.start_run("hurries", "ann", wait=30))
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)  # noqa: TID251 - sent to the service

    assert client.extend_pause(pause, later).expires_at == later
    client.cancel_run(client.get_run(pause.thread_id, pause.run_id))


async def test_many_decide_at_once_and_one_is_first(async_client: AsyncSignoffClient) -> None:
    pause = paused_at(await async_client.start_run("confirmations", "ann", wait=30))
    came = await asyncio.gather(
        *[async_client.approve(pause, by=f"approver {number}") for number in range(5)],
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in came) == ["PauseDecided"] * 4 + ["Run"]
