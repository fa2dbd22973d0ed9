"""Decisions over HTTP: what is taken, what is refused, and where the answer points."""

import asyncio
from typing import Any

from jsonschema import Draft202012Validator

from examples.errands import errands
from tests.serving import decide, paused, service
from tests.workflows.papers import enquiries

Json = dict[str, Any]


async def test_an_approval_is_answered_with_the_ended_run(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        done = await decide(served.client, run, {"approved": True, "by": "maria"})
        assert done.status_code == 200
        assert done.json()["status"] == "completed"
        (pause,) = done.json()["pauses"]
        assert (pause["status"], pause["you_may_decide"]) == ("decided", False)
        decision = pause["decision"]
        assert decision | {"decided_at": None} == {
            "approved": True,
            "by": "maria",
            "via": "api",
            "decided_at": None,
        }
        assert (await served.client.get(f"/pauses/{pause['id']}")).json() == pause


async def test_an_answer_takes_the_shape_that_the_pause_allows(database_url: str) -> None:
    async with service(database_url, [enquiries]) as served:
        run = await paused(served.client, "enquiries")
        assert run["pause"]["options"] == ["red", "blue"]
        told = Draft202012Validator(run["pause"]["response_schema"])
        nobodys = await decide(served.client, run, {"value": "red"})
        assert (nobodys.status_code, nobodys.json()["errors"][0]["pointer"]) == (
            422,
            "/decision/by",
        )
        assert not told.is_valid({"value": "red"})
        assert told.is_valid({"value": "red", "by": "maria"})
        wrong = await decide(served.client, run, {"value": "green", "by": "maria"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_decision")
        assert [each["pointer"] for each in wrong.json()["errors"]] == ["/decision/value"]
        done = await decide(served.client, run, {"value": "red", "by": "maria"})
        assert (done.status_code, done.json()["output"]) == (200, "red")


WRONG: list[tuple[object, str]] = [
    ({"approved": 1, "by": "m"}, "/decision/approved"),
    ({"approved": "true", "by": "m"}, "/decision/approved"),
    ({"approved": None, "by": "m"}, "/decision/approved"),
    ({"by": "m"}, "/decision/approved"),
    ({"approved": True}, "/decision/by"),
    ({"approved": True, "by": ""}, "/decision/by"),
    ({"approved": True, "by": 7}, "/decision/by"),
    ({"approved": True, "by": "system:deadline"}, "/decision/by"),
    ({"approved": True, "by": "m", "feedback": []}, "/decision/feedback"),
    ({"approved": True, "by": "m", "more": 1}, "/decision/more"),
    ({"approved": True, "by": "m", "a/b~c": 1}, "/decision/a~1b~0c"),
    ({"approved": False, "by": "m", "override_arguments": {}}, "/decision/override_arguments"),
    ({"approved": True, "by": "m", "override_arguments": 1}, "/decision/override_arguments"),
    (
        {"approved": True, "by": "m", "override_arguments": {"to": 1, "body": ""}},
        "/decision/override_arguments/to",
    ),
    ({"approved": True, "by": "m", "override_output": "x"}, "/decision/override_output"),
    ({"value": 1, "by": "m"}, "/decision/value"),
    ({"action": "retry", "by": "m"}, "/decision/action"),
    ([], "/decision"),
    ("approved", "/decision"),
    (None, "/decision"),
    (True, "/decision"),
]


async def test_a_wrong_decision_is_pointed_at_and_leaves_the_pause_open(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        for decision, pointer in WRONG:
            refused = await decide(served.client, run, decision)
            assert refused.status_code == 422, (decision, refused.text)
            problem = refused.json()
            assert problem["code"] == "invalid_decision"
            assert pointer in [each["pointer"] for each in problem["errors"]], (decision, problem)
        now = await served.client.get(f"/threads/{run['thread_id']}/runs/{run['id']}")
        assert now.json() == run


async def test_a_decision_about_something_else_is_refused(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        yes = {"approved": True, "by": "maria"}
        other = await decide(served.client, run, yes, headers={"If-Match": f'"{"0" * 64}"'})
        assert (other.status_code, other.json()["code"]) == (412, "digest_mismatch")
        for garbage in ("0", '"', 'W/"x"', '"a", "b"', "", '"' + "a" * 300 + '"'):
            refused = await decide(served.client, run, yes, headers={"If-Match": garbage})
            assert refused.status_code == 422, garbage
            assert refused.json()["errors"][0]["pointer"] == "/header/if-match"
        done = await decide(
            served.client, run, yes, headers={"If-Match": f'"{run["pause"]["digest"]}"'}
        )
        assert done.status_code == 200


async def test_a_closed_pause_is_refused_by_what_closed_it(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        yes = {"approved": True, "by": "maria"}
        run = await paused(served.client)
        await decide(served.client, run, yes)
        again = await decide(served.client, run, {"approved": False, "by": "peter"})
        assert (again.status_code, again.json()["code"]) == (409, "pause_decided")
        other = await paused(served.client)
        await served.client.post(f"/threads/{other['thread_id']}/runs/{other['id']}/cancel")
        late = await decide(served.client, other, yes)
        assert (late.status_code, late.json()["code"]) == (409, "pause_cancelled")


async def test_a_pause_is_found_in_its_own_thread_only(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run, other = await paused(served.client), await paused(served.client)
        body = {"pause_id": run["pause"]["id"], "decision": {"approved": True, "by": "m"}}
        wrong = await served.client.post(f"/threads/{other['thread_id']}/resume", json=body)
        assert (wrong.status_code, wrong.json()["code"]) == (404, "not_found")
        for unknown in ("pau_00000000000000000000000000000000", "nope", "../x", "ä", "a" * 200):
            body["pause_id"] = unknown
            missing = await served.client.post(f"/threads/{run['thread_id']}/resume", json=body)
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_of_many_decisions_at_once_one_is_taken(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        answers = await asyncio.gather(
            *(
                decide(served.client, run, {"approved": at % 2 == 0, "by": f"m{at}"})
                for at in range(20)
            )
        )
        assert sorted(each.status_code for each in answers) == [200] + [409] * 19


async def test_a_decision_can_be_left_to_itself(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        run = await paused(served.client)
        taken = await decide(
            served.client,
            run,
            {"approved": True, "by": "maria"},
            headers={"Prefer": "respond-async"},
        )
        assert taken.status_code in (200, 202)
        ended = await served.client.get(
            f"/threads/{run['thread_id']}/runs/{run['id']}", headers={"Prefer": "wait=10"}
        )
        assert ended.json()["status"] == "completed"


async def test_looking_never_decides(database_url: str) -> None:
    async with service(database_url, [errands]) as served:
        client, run = served.client, await paused(served.client)
        pause = f"/pauses/{run['pause']['id']}"
        for path in (pause, "/pauses", f"/threads/{run['thread_id']}/resume"):
            for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH"):
                query = {"pause_id": run["pause"]["id"], "decision": '{"approved":true,"by":"m"}'}
                looked = await client.request(method, path, params={} if path != pause else query)
                assert looked.status_code in (200, 405), (method, path)
        assert (await client.get(pause)).json()["status"] == "open"
