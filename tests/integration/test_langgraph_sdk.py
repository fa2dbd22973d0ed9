"""LangGraph's own clients, unchanged, against `/langgraph`: they start, see what is asked, answer by id, and read on."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    UnprocessableEntityError,
)

from app.api.limits import Limits
from app.authoring import Approval, Workflow
from app.domain.principal import Scope
from examples.errands import errands
from tests.keyring import key
from tests.langgraph_clients import APPROVE, BY, REJECT, edit, resume, sdk, url_of, waiting
from tests.service import until
from tests.serving import Service, service
from tests.workflows.clerks import desk as counter
from tests.workflows.councils import Council, reviewed
from tests.workflows.movers import REPEATS, agent, asks_for, desk, several
from tests.workflows.papers import breaks, echoes, enquiries, waiting_for

Json = dict[str, Any]
ERRAND = {"text": "a day off"}


async def test_a_client_starts_a_run_sees_the_interrupt_resumes_it_by_id_and_reads_the_state(
    database_url: str,
) -> None:
    async with service(database_url, [errands, echoes]) as served, sdk(served) as client:
        (assistant,) = await client.assistants.search(graph_id="errands")
        id = (await client.threads.create(metadata={"customer": "ann"}))["thread_id"]
        run = await client.runs.create(id, assistant["assistant_id"], input=ERRAND)
        waits = await client.runs.join(id, run["run_id"])
        state = await client.threads.get_state(id)
        (interrupt,) = state["interrupts"]
        assert state["tasks"][0]["interrupts"] == [interrupt] == waits["__interrupt__"]
        assert (state["next"], state["values"]) == (["assistant"], ERRAND)
        (request,) = interrupt["value"]["action_requests"]
        (config,) = interrupt["value"]["review_configs"]
        assert (request["name"], request["args"]["smtp_password"]) == ("send_email", "***")
        assert config["allowed_decisions"] == ["approve", "edit", "reject"]
        assert (await client.threads.get(id))["status"] == "interrupted"
        told: list[Any] = []
        done = await client.runs.wait(
            id,
            "errands",
            command=resume({interrupt["id"]: APPROVE}),
            metadata=BY,
            on_run_created=told.append,
        )
        assert told == [{"run_id": run["run_id"], "thread_id": id}]
        state = await client.threads.get_state(id)
        assert state["values"] == done
        assert "sent to boss@example.com" in str(done)
        assert state["next"] == state["tasks"] == state["interrupts"] == []
        (kept,) = await client.runs.list(id)
        assert (kept["run_id"], kept["status"]) == (run["run_id"], "success")
        decision = (await pause_of(served, interrupt))["decision"]
        assert (decision["by"], decision["approved"]) == ("maria", True)


async def pause_of(served: Service, interrupt: Any) -> Json:
    return (await served.client.get(f"/pauses/{interrupt['id']}")).json()


async def test_the_synchronous_client_does_the_same(database_url: str) -> None:
    def story(url: str) -> Any:
        client: Any
        with get_sync_client(url=url, api_key=None) as client:
            id = client.threads.create(if_exists="do_nothing", thread_id="one")["thread_id"]
            parts = list(client.runs.stream(id, "errands", input=ERRAND, stream_mode="values"))
            (interrupt,) = parts[-2].data["__interrupt__"]
            command = resume({interrupt["id"]: {"approved": True, "by": "maria"}})
            client.runs.wait(id, "errands", command=command)
            return client.threads.get_state(id)

    async with service(database_url, [errands]) as served:
        state = await asyncio.to_thread(story, url_of(served))
        assert "sent to boss@example.com" in str(state["values"])


async def test_an_agent_of_langchain_is_approved_edited_and_rejected_all_at_once(
    database_url: str,
) -> None:
    letters = [("send", {"to": name, "text": "hi"}) for name in ("ann", "bob", "cal")]
    graph = agent(asks_for(*letters), REPEATS, send=True)
    moved = Workflow.from_graph("moved", graph, version="1", channels=[desk])
    async with service(database_url, [moved]) as served, sdk(served) as client:
        given = {"messages": [{"role": "user", "content": "Write to them."}]}
        id, interrupts = await waiting(client, "moved", given)
        asked = [each["value"]["action_requests"][0]["args"]["to"] for each in interrupts]
        assert asked == ["ann", "bob", "cal"]
        answers = [APPROVE, edit("send", to="eve", text="ho"), REJECT]
        by_id = {each["id"]: answer for each, answer in zip(interrupts, answers, strict=True)}
        done = await client.runs.wait(id, "moved", command=resume(by_id), metadata=BY)
        said = done["messages"][-1]["content"]
        assert "sent hi to ann" in said
        assert "sent ho to eve" in said
        assert "not today" in said
        assert "bob" not in said


async def test_questions_of_a_graph_are_answered_with_values_and_its_own_objects_are_shown(
    database_url: str,
) -> None:
    asking = Workflow.from_graph("asking", several(), version="1", channels=[desk])
    async with service(database_url, [asking, enquiries]) as served, sdk(served) as client:
        id, interrupts = await waiting(client, "asking", {"names": ["ann", "bob"]})
        messages = {each["value"]["message"] for each in interrupts}
        assert messages == {"Where does ann live?", "Where does bob live?"}
        address = {"street": "Elm", "number": 1}
        by_id = {interrupts[0]["id"]: address, interrupts[1]["id"]: {"value": address, **BY}}
        done = await client.runs.wait(id, "asking", command=resume(by_id), metadata=BY)
        assert sorted(done["sent"]) == ["ann: Elm 1", "bob: Elm 1"]
        id, (question,) = await waiting(client, "enquiries", "the wall")
        assert question["value"]["options"] == ["red", "blue"]
        done = await client.runs.wait(
            id, "enquiries", command=resume({question["id"]: "blue"}), metadata=BY
        )
        assert done == {"output": "blue"}


async def test_what_steps_ask_is_agreed_to_in_the_same_form(database_url: str) -> None:
    async with service(database_url, [counter, reviewed]) as served, sdk(served) as client:
        id, (confirm,) = await waiting(client, "desk", {"guest": "ann", "seats": 2})
        assert confirm["value"]["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]

        async def answer(interrupt: Json, value: object) -> Json:
            command = resume({interrupt["id"]: value})
            waits = await client.runs.wait(id, "desk", command=command, metadata=BY)
            return waits["__interrupt__"][0] if "__interrupt__" in waits else waits

        tone = await answer(confirm, APPROVE)
        review = await answer(tone, {"mood": "kind", "loud": True})
        shown = review["value"]["action_requests"][0]["args"]["output"]
        assert shown == {"text": "dear ann, kind 300 True"}
        changed = {"output": {"text": "Dear Ann"}}
        broken = await answer(review, edit("greet", **changed))
        way = await answer(broken, {"action": "skip"})
        assert await answer(way, ["stamp"]) == {"text": "Dear Ann | stamped"}


BARE: list[Any] = [APPROVE, "yes", True, {}, {"approved": True}, [APPROVE], {"nope": APPROVE}]


async def test_a_bare_answer_is_refused_whatever_it_is(database_url: str) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "council", "a wall")
        for bare in [*BARE, {interrupt["id"]: APPROVE, "nope": APPROVE}]:
            with pytest.raises(UnprocessableEntityError) as refused:
                await client.runs.create(id, "council", command=resume(bare), metadata=BY)
            (wrong,) = body_of(refused.value)["errors"]
            assert wrong["pointer"] == "/command/resume"
            assert "ids of interrupts" in wrong["message"] or bare == {}
        assert (await pause_of(served, interrupt))["status"] == "open"
        assert council.done == []


def body_of(error: Any) -> Json:
    return error.body


async def test_an_interrupt_is_answered_once_and_what_comes_late_changes_nothing(
    database_url: str,
) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "council", "a wall")
        command = resume({interrupt["id"]: APPROVE})
        all_at_once = await asyncio.gather(
            *(client.runs.create(id, "council", command=command, metadata=BY) for _ in range(3)),
            return_exceptions=True,
        )
        refused = [each for each in all_at_once if isinstance(each, ConflictError)]
        assert (len(refused), {each.code for each in refused}) == (2, {"pause_decided"})
        (taken,) = [each for each in all_at_once if not isinstance(each, BaseException)]
        assert await client.runs.join(id, taken["run_id"]) == {"output": "built a wall"}
        with pytest.raises(ConflictError, match="decided before"):
            await client.runs.create(id, "council", command=command, metadata=BY)
        assert council.done == ["a wall"]
        rows = (await served.client.get("/audit", params={"pause_id": interrupt["id"]})).json()
        assert sorted(each["action"] for each in rows["items"]) == ["decided", *["refused"] * 3]
        with pytest.raises(NotFoundError):
            await client.runs.create(id, "council", command=resume({"pau_1": APPROVE}), metadata=BY)


async def test_of_several_answers_none_is_taken_where_one_cannot_be(database_url: str) -> None:
    graph = agent(
        asks_for(("send", {"to": "ann", "text": "hi"}), ("send", {"to": "bob", "text": "hi"})),
        REPEATS,
        send={"allowed_decisions": ["approve", "reject"]},
    )
    moved = Workflow.from_graph("moved", graph, version="1", channels=[desk])
    async with service(database_url, [moved]) as served, sdk(served) as client:
        given = {"messages": [{"role": "user", "content": "Write to them."}]}
        id, (one, two) = await waiting(client, "moved", given)
        answers = {one["id"]: APPROVE, two["id"]: edit("send", to="eve", text="hi")}
        with pytest.raises(UnprocessableEntityError) as refused:
            await client.runs.create(id, "moved", command=resume(answers), metadata=BY)
        told = body_of(refused.value)
        assert (told["code"], told["pause_id"], told["decided"]) == (
            "invalid_decision",
            two["id"],
            [],
        )
        assert told["errors"][0]["pointer"].startswith(f"/command/resume/{two['id']}/")
        for each in (one, two):
            assert (await pause_of(served, each))["status"] == "open"
        left = await client.runs.wait(id, "moved", command=resume({two["id"]: REJECT}), metadata=BY)
        assert [each["id"] for each in left["__interrupt__"]] == [one["id"]]


_BREAK_OFF = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where wait_event_type = 'Lock' and datname = current_database()"
)


async def test_a_repeat_goes_on_after_what_its_request_has_taken_before_it_broke_off(
    database_url: str,
) -> None:
    graph = agent(
        asks_for(("send", {"to": "ann", "text": "hi"}), ("send", {"to": "bob", "text": "hi"})),
        REPEATS,
        send={"allowed_decisions": ["approve", "reject"]},
    )
    moved = Workflow.from_graph("moved", graph, version="1", channels=[desk])
    async with service(database_url, [moved]) as served, sdk(served) as client:
        given = {"messages": [{"role": "user", "content": "Write to them."}]}
        id, (one, two) = await waiting(client, "moved", given)
        command = resume({one["id"]: APPROVE, two["id"]: REJECT})

        async def sent() -> httpx.Response:
            return await served.client.post(
                f"/langgraph/threads/{id}/runs",
                json={"assistant_id": "moved", "command": command, "metadata": BY},
                headers={"idempotency-key": "once"},
            )

        connection = await asyncpg.connect(database_url)
        async with connection.transaction():
            await connection.execute("select from pauses where id = $1 for update", two["id"])
            broken_off = asyncio.create_task(sent())
            await until(lambda: connection.fetch(_BREAK_OFF))
            assert (await broken_off).status_code == 503
        await connection.close()
        assert (await pause_of(served, one))["status"] == "decided"
        assert (await pause_of(served, two))["status"] == "open"

        repeats = await asyncio.gather(*(sent() for _ in range(3)))
        assert {each.status_code for each in repeats} == {200}
        assert len({each.json()["run_id"] for each in repeats}) == 1
        await client.runs.join(id, repeats[0].json()["run_id"])
        assert {(await pause_of(served, each))["status"] for each in (one, two)} == {"decided"}
        rows = (await served.client.get("/audit", params={"thread_id": id})).json()["items"]
        assert Counter(each["action"] for each in rows)["decided"] == 2


WRONG: list[tuple[Any, str]] = [
    ({"decisions": []}, "/decisions"),
    ({"decisions": [{"type": "approve"}, {"type": "approve"}]}, "/decisions"),
    ({"decisions": [{"type": "accept"}]}, "/decisions"),
    ({"decisions": [{"type": "respond", "message": "x"}]}, "/decisions/0/type"),
    ({"decisions": [{"type": "approve", "args": {}}]}, "/decisions/0"),
    (edit("demolish", what="x"), "/decisions/0/edited_action"),
    (edit("build", what=7), "/override_arguments/what"),
    ({"decisions": [{"type": "reject", "message": 7}]}, "/feedback"),
    ("yes", ""),
    ({"value": "yes"}, "/value"),
]


async def test_an_answer_that_does_not_fit_is_refused_at_its_place_and_recorded(
    database_url: str,
) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "council", "a wall")
        for answer, pointer in WRONG:
            command = resume({interrupt["id"]: answer})
            with pytest.raises(UnprocessableEntityError) as refused:
                await client.runs.create(id, "council", command=command, metadata=BY)
            wrong = body_of(refused.value)["errors"][0]["pointer"]
            assert wrong == f"/command/resume/{interrupt['id']}{pointer}", answer
        with pytest.raises(UnprocessableEntityError, match="who decides"):
            await client.runs.create(id, "council", command=resume({interrupt["id"]: APPROVE}))
        rows = (await served.client.get("/audit", params={"pause_id": interrupt["id"]})).json()
        assert [each["action"] for each in rows["items"]] == ["refused"] * (len(WRONG) + 1)
        assert {each["by"] for each in rows["items"]} == {"maria", None}
        assert council.done == []


async def test_a_run_is_cancelled_and_its_interrupt_with_it(database_url: str) -> None:
    event = asyncio.Event()
    async with (
        service(database_url, [errands, waiting_for(event)]) as served,
        sdk(served) as client,
    ):
        id, (interrupt,) = await waiting(client, "errands", ERRAND)
        (run,) = await client.runs.list(id, status="interrupted")
        await client.runs.cancel(id, run["run_id"], wait=True)
        run = await client.runs.get(id, run["run_id"])
        assert (run["status"], run.get("cancel_reason")) == ("interrupted", "cancelled by a caller")
        assert (await pause_of(served, interrupt))["status"] == "cancelled"
        assert await client.runs.join(id, run["run_id"]) == ERRAND
        with pytest.raises(ConflictError):
            await client.runs.create(id, "errands", command=resume({interrupt["id"]: APPROVE}))
        begun = await client.runs.create(id, "waits", input="x")
        joining = asyncio.create_task(client.runs.join(id, begun["run_id"]))
        with pytest.raises(ConflictError, match="still going on"):
            await client.runs.create(id, "waits", input="y")
        assert (await client.threads.get(id))["status"] == "busy"
        event.set()
        assert await joining == {"output": "waited with x"}


async def test_a_run_that_fails_is_an_error_with_its_code(database_url: str) -> None:
    async with service(database_url, [breaks]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        with pytest.raises(Exception, match=r"^step_failed: "):
            await client.runs.wait(id, "breaks", input="x")
        assert (await client.threads.get(id))["status"] == "error"
        (task,) = (await client.threads.get_state(id))["tasks"]
        assert str(task["error"]).startswith("step_failed: ")


async def test_a_paused_thread_takes_a_new_run_only_where_that_is_said(database_url: str) -> None:
    async with service(database_url, [errands]) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "errands", ERRAND)
        with pytest.raises(ConflictError, match="waits for a decision"):
            await client.runs.create(id, "errands", input=ERRAND)
        assert (await pause_of(served, interrupt))["status"] == "open"
        await client.runs.wait(id, "errands", input=ERRAND, multitask_strategy="interrupt")
        assert (await pause_of(served, interrupt))["status"] == "superseded"


REFUSED: list[tuple[str, Any]] = [
    ("config", {"recursion_limit": 3}),
    ("context", {"a": 1}),
    ("checkpoint_id", "run_1"),
    ("interrupt_before", ["x"]),
    ("interrupt_after", "*"),
    ("webhook", "https://example.com"),
    ("after_seconds", 5),
    ("multitask_strategy", "rollback"),
    ("multitask_strategy", "enqueue"),
    ("on_disconnect", "cancel"),
    ("if_not_exists", "maybe"),
    ("nonsense", 1),
]


async def test_what_cannot_be_done_is_refused_and_not_passed_over(database_url: str) -> None:
    async with service(database_url, [errands]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        for name, value in REFUSED:
            body = {"assistant_id": "errands", "input": ERRAND, name: value}
            with pytest.raises(UnprocessableEntityError) as refused:
                await client.http.post(f"/threads/{id}/runs", json=body)
            (wrong,) = body_of(refused.value)["errors"]
            assert wrong["pointer"] == f"/{name}"
        for more in ({"goto": "x"}, {"update": {"a": 1}}):
            command: Any = {"resume": {"pau_1": APPROVE}, **more}
            with pytest.raises(UnprocessableEntityError):
                await client.runs.create(id, "errands", command=command)
        assert await client.runs.list(id) == []


async def test_a_key_goes_in_as_langgraphs_clients_send_it_and_holds_what_it_holds(
    database_url: str,
) -> None:
    council = Council(Approval(approvers=["ann"]))
    async with service(database_url, [council.workflow], is_open=False) as served:
        database = served.site.database
        starter = await key(database, "sue", scopes=[Scope.RUNS_WRITE])
        ann = await key(database, "ann", scopes=[Scope.DECISIONS_WRITE])
        bob = await key(database, "bob", scopes=[Scope.DECISIONS_WRITE])
        other = await key(database, "ann", tenant="elsewhere")
        async with (
            sdk(served, starter) as sues,
            sdk(served, ann) as anns,
            sdk(served, bob) as bobs,
            sdk(served, other) as strangers,
        ):
            id, (interrupt,) = await waiting(sues, "council", "a wall")
            command = resume({interrupt["id"]: APPROVE})
            for client, error in (
                (sues, PermissionDeniedError),
                (bobs, PermissionDeniedError),
                (strangers, NotFoundError),
            ):
                with pytest.raises(error):
                    await client.runs.create(id, "council", command=command)
            with pytest.raises(PermissionDeniedError, match="runs:write"):
                await anns.runs.create(id, "council", input="x")
            with pytest.raises(PermissionDeniedError, match="act_as"):
                await anns.runs.create(id, "council", command=command, metadata={"by": "bob"})
            done = await anns.runs.wait(id, "council", command=command)
            assert done == {"output": "built a wall"}
        plain = await served.client.get("/threads", headers={"X-Api-Key": starter})
        assert plain.status_code == 401


async def test_decisions_are_not_counted_as_runs(database_url: str) -> None:
    limits = Limits(runs_per_hour=1)
    async with service(database_url, [errands], limits=limits) as served, sdk(served) as client:
        id, (interrupt,) = await waiting(client, "errands", ERRAND)
        await client.runs.wait(
            id, "errands", command=resume({interrupt["id"]: APPROVE}), metadata=BY
        )
        answer = await served.client.post(
            f"/langgraph/threads/{id}/runs", json={"assistant_id": "errands", "input": ERRAND}
        )
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
        assert 3500 < int(answer.headers["retry-after"]) <= 3600


async def test_the_same_request_under_one_key_starts_and_decides_once(database_url: str) -> None:
    council = Council(Approval())
    async with service(database_url, [council.workflow]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        once = {"Idempotency-Key": "start"}
        one, two = [
            await client.runs.create(id, "council", input="a wall", headers=once) for _ in range(2)
        ]
        assert one["run_id"] == two["run_id"]
        waits = await client.runs.join(id, one["run_id"])
        command = resume({waits["__interrupt__"][0]["id"]: APPROVE})
        once = {"Idempotency-Key": "decide"}
        for _ in range(2):
            done = await client.runs.wait(id, "council", command=command, metadata=BY, headers=once)
            assert done == {"output": "built a wall"}
        assert council.done == ["a wall"]


@pytest.mark.parametrize("door", ["", "/wait", "/stream"])
async def test_an_answer_is_told_what_became_of_it_whatever_runs_in_its_thread_by_now(
    database_url: str, door: str
) -> None:
    async with service(database_url, [enquiries, echoes]) as served, sdk(served) as client:
        id, (asked,) = await waiting(client, "enquiries", "the wall")

        async def answered(interrupt: Json, *, by: str, key: str) -> httpx.Response:
            command = resume({interrupt["id"]: "red"})
            body = {"assistant_id": by, "command": command, "metadata": BY}
            once = {"idempotency-key": key}
            path = f"/langgraph/threads/{id}/runs{door}"
            return await served.client.post(path, json=body, headers=once)

        wrong = await answered(asked, by="echoes", key="wrong")
        assert wrong.json()["errors"][0]["pointer"] == "/assistant_id"
        assert (await pause_of(served, asked))["status"] == "open"
        taken = await answered(asked, by="enquiries", key="once")
        assert taken.status_code == 200
        await client.runs.join(id, taken.headers["content-location"].rpartition("/")[2])

        waits = await client.runs.wait(id, "enquiries", input="the door")
        (left_open,) = waits["__interrupt__"]
        await client.runs.wait(id, "echoes", input="!", multitask_strategy="interrupt")
        repeat = await answered(asked, by="enquiries", key="once")
        assert (repeat.status_code, repeat.headers["idempotency-replayed"]) == (200, "true")
        assert repeat.headers["content-location"] == taken.headers["content-location"]
        late = await answered(left_open, by="enquiries", key="late")
        assert (late.status_code, late.json()["code"]) == (409, "pause_superseded")
