"""Steps that stop for people, over HTTP: a pipeline driven to every end, branches decided in any order."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from app.authoring import AskError, Confirm, Loop, Parallel, Step, StepContext, Workflow
from app.channels import InboxChannel
from examples.publishing import publishing
from tests.service import Api, approval, rejection, until
from tests.serving import service, serving, site_over
from tests.step_trees import gathers

Json = dict[str, Any]

desk = InboxChannel("desk")
NOW = {"prefer": "respond-async"}


@asynccontextmanager
async def publisher(database_url: str) -> AsyncGenerator[Api]:
    async with service(database_url, [publishing]) as served:
        yield Api(served.client)


def value(given: object, **more: object) -> Json:
    return {"value": given, "by": "alice", **more}


def action(name: str) -> Json:
    return {"action": name, "by": "alice"}


TONE = value({"tone": "plain"})
NO = rejection()
YES = approval()


async def driven(api: Api, topic: str, *decisions: Json) -> Json:
    """A run after decisions about the first of its open pauses, one after the other."""
    run = await api.started("publishing", {"topic": topic})
    for decision in decisions:
        assert run["status"] == "paused", run
        run = await api.decided(run["pause"], decision)
    return run


def kinds(run: Json) -> list[tuple[str, str]]:
    return [(each["step"]["path"], each["kind"]) for each in run["pauses"]]


# ── A pipeline, driven to every end ──────────────────────────────────────────────────────────────


async def test_a_piece_is_published_when_everybody_agrees(database_url: str) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "Acme Inc", YES, TONE, YES, YES, value(["newsletter", "blog"]), YES)
        assert run["status"] == "completed"
        assert run["output"] == {
            "sales": "sales knows about A plain piece",
            "press": "press knows about A plain piece",
        }
        assert kinds(run) == [
            ("publishing/research", "confirmation"),
            ("publishing/draft", "input"),
            ("publishing/draft", "review"),
            ("publishing/legal check/check names", "review"),
            ("publishing/outlet", "route"),
            ("publishing/announce/press", "confirmation"),
        ]
        assert {each["status"] for each in run["pauses"]} == {"decided"}
        assert [each["decision"]["by"] for each in run["pauses"]] == ["alice"] * 6
        steps = {each["path"]: each for each in run["steps"]}
        assert steps["publishing/outlet"]["output"]["outlets"] == ["newsletter", "blog"]
        assert steps["publishing/polish[0]/edit"]["output"]["text"] == "facts about Acme Inc."
        assert {each["status"] for each in run["steps"]} == {"completed"}
        assert await api.run(run) == run


async def test_a_piece_that_names_nobody_needs_no_lawyer(database_url: str) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "cats", YES, TONE, YES, value(["blog"]), NO)
        assert run["status"] == "completed"
        assert run["output"] == {"sales": "sales knows about A plain piece"}
        assert ("publishing/legal check/check names", "review") not in kinds(run)
        press = next(each for each in run["steps"] if each["name"] == "press")
        assert press["status"] == "skipped"


@pytest.mark.parametrize(
    ("topic", "before"),
    [
        ("cats", ()),
        ("cats", (YES,)),
        ("cats", (YES, TONE, YES)),
        ("Acme Inc", (YES, TONE, YES)),
    ],
    ids=["topic", "tone", "outlet", "names"],
)
async def test_a_rejection_ends_the_run_and_nothing_after_it_runs(
    topic: str, before: tuple[Json, ...], database_url: str
) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, topic, *before, rejection(feedback="no"))
        assert run["status"] == "cancelled"
        assert run["stop_reason"] == "rejected by alice: no"
        assert run["output"] is None
        assert run["pause"] is None
        assert "publishing/announce" not in {each["path"] for each in run["steps"]}
        assert "running" not in {each["status"] for each in run["steps"]}


async def test_a_rejected_draft_is_written_again_and_the_third_rejection_ends_it(
    database_url: str,
) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "cats", YES, TONE, rejection(feedback="more about dogs"))
        assert run["pause"]["output"]["text"] == "facts about cats (more about dogs)"
        assert run["pause"]["step"]["path"] == "publishing/draft~1"
        run = await api.decided(run["pause"], NO)
        run = await api.decided(run["pause"], NO)
        assert (run["status"], run["stop_reason"]) == ("cancelled", "rejected by alice")
        assert [kind for _, kind in kinds(run)].count("review") == 3
        draft = next(each for each in run["steps"] if each["name"] == "draft")
        assert draft["attempts"] == 3


async def test_an_overridden_draft_is_what_is_published(database_url: str) -> None:
    mine: Json = {"title": "Mine", "text": "Short.", "outlets": []}
    async with publisher(database_url) as api:
        run = await driven(api, "cats", YES, TONE)
        wrong = await api.decide(run["pause"], approval(override_output={"title": 3}))
        assert wrong.status_code == 422
        assert [each["pointer"] for each in wrong.json()["errors"]] == [
            "/decision/override_output/title",
            "/decision/override_output/text",
        ]
        run = await api.decided(run["pause"], approval(override_output=mine))
        run = await api.decided(run["pause"], value(["blog"]))
        run = await api.decided(run["pause"], YES)
        assert run["output"]["press"] == "press knows about Mine"
        shown = next(each for each in run["pauses"] if each["kind"] == "review")
        assert shown["output"]["title"] == "A plain piece", "what was reviewed stays"
        assert shown["decision"]["override_output"] == mine


async def test_a_long_piece_is_polished_until_somebody_is_content(database_url: str) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "cats" * 30, YES, TONE, YES)
        assert (run["pause"]["kind"], run["pause"]["step"]["path"]) == (
            "review",
            "publishing/polish[0]",
        )
        run = await api.decided(run["pause"], NO)
        assert run["pause"]["output"]["text"].endswith("..")
        run = await api.decided(run["pause"], YES)
        assert run["pause"]["kind"] == "route"
        steps = {each["path"] for each in run["steps"]}
        assert {"publishing/polish[0]/edit", "publishing/polish[1]/edit"} <= steps


async def test_a_long_piece_that_is_never_good_enough_is_given_up(database_url: str) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "cats" * 30, YES, TONE, YES, NO, NO, NO)
        assert (run["status"], run["stop_reason"]) == ("cancelled", "rejected by alice")


async def test_names_that_nobody_allowed_in_time_are_not_named(database_url: str) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "Acme Inc", YES, TONE, YES)
        pause = run["pause"]
        assert pause["channel"] == "lawyers"
        assert pause["expires_at"] > pause["opened_at"]
        await _let_expire(database_url, pause)
        ended = await api.ended(run)
        assert (ended["status"], ended["stop_reason"]) == (
            "cancelled",
            "rejected by system:deadline",
        )
        closed = next(each for each in ended["pauses"] if each["id"] == pause["id"])
        assert (closed["status"], closed["decision"]["by"]) == ("expired", "system:deadline")
        late = await api.decide(pause, YES)
        assert (late.status_code, late.json()["code"]) == (409, "pause_expired")


async def _let_expire(database_url: str, pause: Json) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "update pauses set expires_at = clock_timestamp() where id = $1", pause["id"]
        )
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("before", "wrong", "pointers"),
    [
        ((), {"approved": "yes", "by": "a"}, ["/approved"]),
        ((), {"value": True, "by": "a"}, ["/value"]),
        ((YES,), value({"tone": "loud", "max_words": "few"}), ["/value/tone", "/value/max_words"]),
        ((YES,), value({"tone": "plain", "colour": 1}), ["/value/colour"]),
        ((YES,), {"approved": True, "by": "a"}, ["/value"]),
        ((YES, TONE), {"action": "retry", "by": "a"}, ["/action"]),
        ((YES, TONE), rejection(override_output={}), ["/override_output"]),
        ((YES, TONE, YES), value("blog"), ["/value"]),
        ((YES, TONE, YES), value(["press"]), ["/value"]),
        ((YES, TONE, YES), value([]), ["/value"]),
    ],
)
async def test_a_decision_that_does_not_fit_is_refused_and_the_pause_stays_open(
    before: tuple[Json, ...], wrong: Json, pointers: list[str], database_url: str
) -> None:
    async with publisher(database_url) as api:
        run = await driven(api, "cats", *before)
        refused = await api.decide(run["pause"], wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_decision")
        assert [each["pointer"] for each in refused.json()["errors"]] == [
            f"/decision{pointer}" for pointer in pointers
        ]
        assert (await api.run(run))["pause"] == run["pause"]


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────


class Hall:
    """Where the steps of a test meet: who was there, and doors that the test opens."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}
        self.entered: dict[str, asyncio.Event] = {}

    def step(self, name: str) -> Step:
        """Notes that it ran."""

        async def note(context: StepContext, text: str) -> str:
            self.ran.append(name)
            self.entered.setdefault(name, asyncio.Event()).set()
            return f"{text}>{name}"

        return Step(name, note, before=[Confirm(f"{name}?", channel=desk, on_reject="skip")])

    def door(self, name: str) -> Step:
        """Waits until the test lets it go on."""
        self.doors[name] = asyncio.Event()

        async def wait(context: StepContext, text: str) -> str:
            self.ran.append(f"{name} began")
            await self.doors[name].wait()
            self.ran.append(name)
            return f"{text}>{name}"

        return Step(name, wait)

    async def has_seen(self, name: str) -> None:
        async with asyncio.timeout(15):
            await self.entered.setdefault(name, asyncio.Event()).wait()


def hall_of(*branches: Step, name: str = "halls", version: str = "1") -> Workflow:
    steps = [Parallel("fork", list(branches)), gathers([])]
    return Workflow(name, version=version, input=str, steps=steps, channels=[desk])


def pauses_by_step(run: Json) -> dict[str, Json]:
    return {each["step"]["name"]: each for each in run["pauses"] if each["status"] == "open"}


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
async def test_pauses_of_branches_are_all_open_and_decided_in_any_order(
    order: str, database_url: str
) -> None:
    hall = Hall()
    served = hall_of(*(hall.step(name) for name in "abc"))
    async with service(database_url, [served]) as here:
        api = Api(here.client)
        run = await api.started("halls", "x")
        assert sorted(pauses_by_step(run)) == ["a", "b", "c"]
        for name in order:
            assert run["status"] == "paused"
            decision = NO if name == "b" else YES
            run = await api.decided(pauses_by_step(run)[name], decision)
        assert (run["status"], run["output"]) == ("completed", "(a=x>a|c=x>c)>last")
        assert hall.ran == [name for name in order if name != "b"]


async def test_decisions_of_branches_that_come_at_once_are_all_taken(database_url: str) -> None:
    hall = Hall()
    names = [f"s{number}" for number in range(12)]
    async with service(database_url, [hall_of(*(hall.step(name) for name in names))]) as here:
        api = Api(here.client)
        run = await api.started("halls", "x")
        answers = await asyncio.gather(
            *(api.decide(pause, YES) for pause in pauses_by_step(run).values())
        )
        assert {answer.status_code for answer in answers} <= {200, 202}
        ended = await api.ended(run)
        assert ended["output"] == "(" + "|".join(f"{name}=x>{name}" for name in names) + ")>last"
        assert sorted(hall.ran) == sorted(names)


async def test_a_pause_is_listed_and_decided_while_a_sibling_works(database_url: str) -> None:
    hall = Hall()
    served = hall_of(hall.step("a"), hall.door("slow"), hall.step("b"))
    async with service(database_url, [served]) as here:
        api = Api(here.client)
        run = await api.accepted("halls", "x")

        async def both_open() -> Json | None:
            listed = await api.get("/pauses", run_id=run["id"], status="open")
            found = {each["step"]["name"]: each for each in listed["items"]}
            return found if len(found) == 2 else None

        pauses = await until(both_open)
        assert (await api.run(run))["status"] == "running"
        answer = await api.decide(pauses["a"], YES, **NOW)
        assert answer.status_code in (200, 202)
        await hall.has_seen("a")
        assert "slow" not in hall.ran
        assert (await api.run(run))["status"] == "running"
        hall.doors["slow"].set()
        paused = await until(lambda: _when(api, run, "paused"))
        assert list(pauses_by_step(paused)) == ["b"]
        run = await api.decided(paused["pause"], YES)
        assert run["output"] == "(a=x>a|slow=x>slow|b=x>b)>last"


async def _when(api: Api, run: Json, status: str) -> Json | None:
    now = await api.run(run)
    return now if now["status"] == status else None


async def test_a_decision_taken_by_another_process_wakes_a_branch_at_once(
    database_url: str,
) -> None:
    hall = Hall()
    served = hall_of(hall.step("a"), hall.door("slow"))
    async with (
        service(database_url, [served]) as here,
        site_over(database_url, [served], works=False) as other,
        serving(other) as client,
    ):
        api, elsewhere = Api(here.client), Api(client)
        run = await api.accepted("halls", "x")

        async def is_open() -> Json | None:
            listed = await elsewhere.get("/pauses", run_id=run["id"], status="open")
            return next(iter(listed["items"]), None)

        pause = await until(is_open)
        await elsewhere.decide(pause, YES, **NOW)
        await hall.has_seen("a")
        assert "slow" not in hall.ran
        hall.doors["slow"].set()
        assert (await api.ended(run))["output"] == "(a=x>a|slow=x>slow)>last"


async def test_a_failing_branch_cancels_the_pauses_of_the_others(database_url: str) -> None:
    hall = Hall()

    async def broken(context: StepContext, text: str) -> str:
        raise RuntimeError("broken")

    fails = Step("fails", broken, on_error=AskError("What now?", channel=desk))
    served = hall_of(hall.step("a"), fails)
    async with service(database_url, [served]) as here:
        api = Api(here.client)
        run = await api.started("halls", "x")
        error = pauses_by_step(run)["fails"]
        assert (error["kind"], error["error"]["message"]) == ("error", "broken")
        run = await api.decided(error, action("fail"))
        assert (run["status"], run["error"]["code"]) == ("failed", "step_failed")
        assert run["error"]["step"] == "halls/fork/fails"
        assert {each["step"]["name"]: each["status"] for each in run["pauses"]} == {
            "a": "cancelled",
            "fails": "decided",
        }
        late = await api.decide(pauses_by_step_of(run, "a"), YES)
        assert (late.status_code, late.json()["code"]) == (409, "pause_cancelled")
        assert hall.ran == []


def pauses_by_step_of(run: Json, name: str) -> Json:
    return next(each for each in run["pauses"] if each["step"]["name"] == name)


async def test_a_run_that_ends_leaves_no_step_running(database_url: str) -> None:
    hall = Hall()
    async with service(database_url, [hall_of(hall.step("a"), hall.step("b"))]) as here:
        api = Api(here.client)
        run = await api.started("halls", "x")
        assert {each["path"]: each["status"] for each in run["steps"]} == {
            "halls/fork": "running",
            "halls/fork/a": "running",
            "halls/fork/b": "running",
        }
        await api.cancel(run)
        ended = await api.run(run)
        assert {each["status"] for each in ended["steps"]} == {"cancelled"}


async def test_a_step_that_fails_takes_the_steps_around_it_with_it(database_url: str) -> None:
    hall = Hall()

    async def broken(context: StepContext, text: str) -> str:
        raise RuntimeError("broken")

    loop = Loop("loop", steps=[hall.step("a"), Step("fails", broken)], max_iterations=2)
    served = hall_of(
        Step("outer", Workflow("inner", version="1", input=str, steps=[loop], channels=[desk]))
    )
    async with service(database_url, [served]) as here:
        api = Api(here.client)
        run = await api.started("halls", "x")
        ended = await api.decided(run["pause"], YES)
        assert {each["path"]: each["status"] for each in ended["steps"]} == {
            "halls/fork": "failed",
            "halls/fork/outer": "failed",
            "halls/fork/outer/loop": "failed",
            "halls/fork/outer/loop[0]/a": "completed",
            "halls/fork/outer/loop[0]/fails": "failed",
        }


# ── Finding pauses ───────────────────────────────────────────────────────────────────────────────


async def test_pauses_are_found_by_kind_level_status_workflow_and_channel(
    database_url: str,
) -> None:
    hall = Hall()
    async with service(database_url, [publishing, hall_of(hall.step("a"))]) as here:
        api = Api(here.client)
        first = await driven(api, "cats", YES)
        second = await driven(api, "Acme Inc", YES, TONE, YES)
        third = await api.started("halls", "x")

        async def found(**filters: str) -> list[str]:
            listed = await api.get("/pauses", **filters)
            return [each["id"] for each in listed["items"]]

        opened = {name: run["pause"]["id"] for name, run in _named(first, second, third).items()}
        assert await found(status="open") == list(opened.values())
        assert await found(status="open", kind="input") == [opened["first"]]
        assert await found(status="open", kind="review") == [opened["second"]]
        assert await found(status="open", channel="lawyers") == [opened["second"]]
        assert await found(status="open", workflow="halls") == [opened["third"]]
        assert await found(status="open", thread_id=first["thread_id"]) == [opened["first"]]
        assert await found(run_id=first["id"]) == [each["id"] for each in first["pauses"]]
        assert len(await found(level="step")) == 2 + 4 + 1
        assert await found(level="executor") == []
        assert len(await found(kind="confirmation", status="decided")) == 2


def _named(first: Json, second: Json, third: Json) -> Mapping[str, Json]:
    return {"first": first, "second": second, "third": third}


# ── Other shapes and versions ────────────────────────────────────────────────────────────────────


def shaped(*names: str, version: str) -> Workflow:
    hall = Hall()
    steps = [hall.step(name) for name in names]
    return Workflow("shapes", version=version, input=str, steps=steps, channels=[desk])


async def test_a_run_of_another_shape_waits_until_its_version_is_served_again(
    database_url: str,
) -> None:
    old, new = shaped("a", "b", version="1"), shaped("a", "c", version="2")
    async with service(database_url, [old]) as here:
        api = Api(here.client)
        run = await api.started("shapes", "x")
        run = await api.decided(run["pause"], YES)
    async with service(database_url, [new]) as here:
        api = Api(here.client)
        refused = await api.decide(run["pause"], YES)
        assert (refused.status_code, refused.json()["code"]) == (409, "workflow_incompatible")
        assert refused.json()["fingerprint"] == old.fingerprint
        assert refused.json()["served"] == new.fingerprint
        now = await api.run(run)
        assert (now["status"], now["pause"]["id"]) == ("paused", run["pause"]["id"])
    async with service(database_url, [old, new]) as here:
        api = Api(here.client)
        ended = await api.decided(run["pause"], YES)
        assert (ended["status"], ended["output"]) == ("completed", "x>a>b")
        assert ended["workflow"] == {"name": "shapes", "version": "1"}
        started = await api.started("shapes", "x")
        assert started["workflow"] == {"name": "shapes", "version": "2"}
        assert started["pause"]["step"]["path"] == "shapes/a"


async def test_a_worker_of_another_shape_leaves_a_decided_run_to_one_that_serves_it(
    database_url: str,
) -> None:
    old, new = shaped("a", version="1"), shaped("a", "b", version="2")
    async with (
        site_over(database_url, [old], works=False) as first,
        serving(first) as client,
        service(database_url, [new]),
    ):
        api = Api(client)
        run = await api.accepted("shapes", "x")
        await asyncio.sleep(1)
        assert (await api.run(run))["status"] == "queued"
        async with service(database_url, [old, new]):
            paused = await until(lambda: _when(api, run, "paused"))
            await api.decide(paused["pause"], YES, **NOW)
            assert (await api.ended(run))["output"] == "x>a"


async def test_other_words_are_no_other_shape(database_url: str) -> None:
    old, new = shaped("a", version="1"), shaped("a", version="1")
    async with service(database_url, [old]) as here:
        run = await Api(here.client).started("shapes", "x")
    async with service(database_url, [new]) as here:
        ended = await Api(here.client).decided(run["pause"], YES)
        assert ended["output"] == "x>a"


async def test_a_run_that_waits_at_steps_goes_on_in_another_process(database_url: str) -> None:
    decisions = [YES, TONE, NO, YES, YES, value(["blog"]), YES]
    async with service(database_url, [publishing]) as here:
        run = await Api(here.client).started("publishing", {"topic": "Acme Inc"})
    for decision in decisions:
        async with service(database_url, [publishing]) as here:
            run = await Api(here.client).decided(run["pause"], decision)
    assert run["status"] == "completed"
    assert run["output"]["press"] == "press knows about A plain piece"
    assert len(run["pauses"]) == len(decisions)
