"""Existing graphs over HTTP: their pauses are listed and decided like any other."""

from app.authoring import Workflow
from tests.serving import decide, service
from tests.workflows.movers import REPEATS, agent, asks_for, desk, several

TO_ANN = ("send", {"to": "ann", "text": "hi"})
TO_BOB = ("send", {"to": "bob", "text": "ho"})


async def test_pauses_of_an_existing_graph_are_listed_and_decided_each_once(
    database_url: str,
) -> None:
    graph = agent(asks_for(TO_ANN, TO_BOB), REPEATS, send=True)
    moved = Workflow.from_graph("moved", graph, version="1", channels=[desk])
    asking = Workflow.from_graph("asking", several(), version="1", channels=[desk])
    async with service(database_url, [moved, asking]) as served:
        client = served.client
        given = {"messages": [{"role": "user", "content": "Write to both."}]}
        body = {"workflow": "moved", "input": given, "if_not_exists": "create"}
        run = (await client.post("/threads/letters/runs", json=body)).json()
        assert [pause["call"]["arguments"]["to"] for pause in run["pauses"]] == ["ann", "bob"]
        assert [pause["position"] for pause in run["pauses"]] == [
            {"index": 0, "of": 2},
            {"index": 1, "of": 2},
        ]
        first = await decide(client, run, {"approved": True, "by": "maria"})
        assert first.json()["status"] == "paused", first.text
        again = await decide(client, run, {"approved": True, "by": "maria"})
        assert (again.status_code, again.json()["code"]) == (409, "pause_decided")
        last = await decide(client, first.json(), {"approved": False, "by": "maria"})
        assert last.json()["status"] == "completed", last.text
        assert "sent hi to ann" in last.json()["output"]["messages"][-1]["content"]

        body = {"workflow": "asking", "input": {"names": ["ann", "bob"]}}
        run = (await client.post("/threads/letters/runs", json=body)).json()
        listed = (await client.get("/pauses", params={"status": "open"})).json()["items"]
        assert [pause["kind"] for pause in listed] == ["interactive", "interactive"]
        for number in range(2):
            answer = {"value": {"street": "Elm", "number": number}, "by": "maria"}
            run = (await decide(client, run, answer)).json()
        assert run["status"] == "completed", run
        assert sorted(each.partition(":")[0] for each in run["output"]["sent"]) == ["ann", "bob"]
