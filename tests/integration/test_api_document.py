"""The OpenAPI document: checked in, whole, and true of real answers."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path

from jsonschema import Draft202012Validator

from app.api import document
from app.authoring import Approval
from app.domain.event import EventType
from examples.errands import errands
from tests.described import DOCUMENT, is_described, operations
from tests.service import Api, path_of
from tests.serving import decide, paused, service
from tests.streams import events_of
from tests.workflows.councils import Council
from tests.workflows.papers import breaks, echoes, enquiries, waiting_for

CHECKED_IN = Path(__file__).parents[2] / "openapi" / "openapi.json"


def test_the_checked_in_document_is_the_one_of_this_code() -> None:
    assert CHECKED_IN.read_text() == document(), "run `make openapi`"


def test_every_operation_has_a_name_of_its_own_that_clients_can_use() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_every_answer_has_a_schema_and_every_error_is_a_problem() -> None:
    for method, path, operation in operations():
        for status, response in operation["responses"].items():
            if status == "204" or path == "/metrics":
                continue
            (media_type,) = response["content"]
            is_stream = path.endswith(("/events", "/stream"))
            told = "text/event-stream" if is_stream else "application/json"
            expected = told if status < "400" else "application/problem+json"
            assert media_type == expected, (method, path, status)
            schema = response["content"][media_type]["schema"]
            if media_type == "text/event-stream":
                schema = schema["contentSchema"]
            assert set(schema) == {"$ref"}
            assert schema["$ref"].startswith("#/components/schemas/"), (method, path, status)


def test_every_reference_leads_somewhere() -> None:
    for name in re.findall(r'"#/components/schemas/([^"]+)"', document()):
        assert name in DOCUMENT["components"]["schemas"]


def test_every_event_is_told_apart_by_its_type() -> None:
    event = DOCUMENT["components"]["schemas"]["Event"]
    assert set(event["discriminator"]["mapping"]) == {*EventType, "model.delta"}
    assert len(event["oneOf"]) == len(set(event["discriminator"]["mapping"].values()))


def test_the_three_shapes_of_a_decision_are_described() -> None:
    decision = DOCUMENT["components"]["schemas"]["Resume"]["properties"]["decision"]
    assert [each["$ref"].rsplit("/", 1)[1] for each in decision["anyOf"]] == [
        "Verdict",
        "Value",
        "Action",
    ]


async def test_real_answers_are_as_described(database_url: str) -> None:
    event = asyncio.Event()
    council = Council(Approval(quorum=2, expires_after=timedelta(hours=1))).workflow
    workflows = [errands, enquiries, echoes, breaks, waiting_for(event), council]
    async with service(database_url, workflows) as served:
        client = served.client
        run = await paused(client)
        thread = run["thread_id"]
        override = {"to": "a@example.com", "body": "b", "smtp_password": "***"}
        answers = [
            await client.post("/threads", json={"id": "t", "metadata": {"a": 1}}),
            await client.post("/threads", json={"id": "t"}),
            await client.get("/threads"),
            await client.get(f"/threads/{thread}"),
            await client.get(f"/threads/{thread}/runs"),
            await client.get(f"/threads/{thread}/runs/{run['id']}"),
            await client.post(f"/threads/{thread}/runs", json={"workflow": "echoes", "input": "x"}),
            await client.get(f"/pauses/{run['pause']['id']}"),
            await client.get("/pauses?status=open"),
            await decide(client, run, {"approved": 1}),
            await decide(
                client, run, {"approved": True, "by": "m", "override_arguments": override}
            ),
            await decide(client, run, {"approved": True, "by": "m"}),
            await client.get("/pauses"),
            await client.get("/deliveries"),
            await client.get("/deliveries/dlv_1"),
            await client.get("/workflows"),
            *[await client.get(f"/workflows/{each.name}") for each in workflows],
            await client.get("/workflows/nope"),
            await client.get("/livez"),
            await client.get("/readyz"),
            await client.get("/threads?limit=0"),
            await client.post("/threads", content=b"x"),
            await client.delete("/threads/nope"),
        ]
        question = await paused(client, "enquiries")
        answers += [
            await decide(client, question, {"value": "blue", "by": "m", "feedback": "nice"}),
            await client.get(f"/pauses/{question['pause']['id']}"),
        ]
        declined = await paused(client, "enquiries")
        answers.append(await decide(client, declined, {"approved": False, "by": "m"}))
        for workflow in ("breaks", "echoes"):
            body = {"workflow": workflow, "input": "x"}
            answers.append(await client.post("/threads/t/runs", json=body))
        body = {"workflow": "waits", "input": "x"}
        begun = await client.post("/threads/t/runs", json=body, headers={"Prefer": "respond-async"})
        answers += [
            begun,
            await client.get(begun.headers["location"], headers={"Prefer": "wait=1"}),
        ]
        answers.append(await client.post(f"{begun.headers['location']}/cancel"))
        vote = await paused(client, "council")
        extend = f"/pauses/{vote['pause']['id']}/extend"
        answers += [
            await decide(client, vote, {"approved": True, "by": "m", "feedback": "fine"}),
            await decide(client, vote, {"approved": True, "by": "m"}),
            await client.post(extend, json={"expires_at": "2999-01-01T00:00:00+02:00"}),
            await client.post(extend, json={"expires_at": "1999-01-01T00:00:00Z"}),
            await client.post(
                f"/pauses/{question['pause']['id']}/extend", json={"expires_at": "x"}
            ),
            await decide(client, vote, {"approved": True, "by": "n"}),
        ]
        assert all(is_described(each) for each in answers)
        assert {each.status_code for each in answers} == {200, 201, 202, 404, 409, 415, 422}


async def test_real_events_are_as_described(database_url: str) -> None:
    described = Draft202012Validator(
        {"$ref": "#/components/schemas/Event", "components": DOCUMENT["components"]}
    )
    async with service(database_url, [errands, enquiries, breaks]) as served:
        run = await paused(served.client)
        edited = {"to": "a@example.com", "body": "b"}
        decision = {"approved": True, "by": "m", "override_arguments": edited}
        await decide(served.client, run, decision)
        question = await paused(served.client, "enquiries")
        await served.client.post(f"{path_of(question)}/cancel")
        broken = await Api(served.client).started("breaks", "x")
        streams = [await served.client.get(events_of(each)) for each in (run, question, broken)]
    told = [
        json.loads(line.removeprefix("data: "))
        for stream in streams
        for line in stream.text.split("\n")
        if line.startswith("data: ")
    ]
    for each in told:
        described.validate(each)
    assert {each["type"].partition(".")[0] for each in told} >= {"run", "step", "tool", "pause"}


async def test_the_service_serves_its_document(database_url: str) -> None:
    async with service(database_url, [echoes]) as served:
        assert (await served.client.get("/openapi.json")).json() == DOCUMENT
