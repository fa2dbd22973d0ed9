"""Threads and assistants as LangGraph's own clients look for them, read them, change them, and delete them."""

import asyncio
from typing import Any

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from app.lifecycle.threads import MAX_METADATA_BYTES
from examples.errands import errands
from tests.langgraph_clients import APPROVE, BY, resume, sdk, waiting
from tests.serving import service
from tests.workflows.papers import breaks, echoes

ERRAND = {"text": "a day off"}


async def test_assistants_are_the_workflows_by_name_and_by_the_id_that_langgraph_gives_them(
    database_url: str,
) -> None:
    async with service(database_url, [errands, echoes, breaks]) as served, sdk(served) as client:
        found = await client.assistants.search(limit=2, response_format="object")
        names = [each["name"] for each in found["assistants"]]
        assert (names, found["next"]) == (["breaks", "echoes"], "2")
        rest = await client.assistants.search(offset=2, select=["name", "metadata"])
        assert [each["name"] for each in rest] == ["errands"]
        assert rest[0]["metadata"]["version"] == "1.0.0"
        assert await client.assistants.count(name="E") == 3
        (errand,) = await client.assistants.search(name="ERR", metadata={"version": "1.0.0"})
        assert errand == await client.assistants.get(errand["assistant_id"])
        assert errand == await client.assistants.get("errands")
        schemas = await client.assistants.get_schemas("errands")
        assert schemas["input_schema"]["required"] == ["text"]
        graph = await client.assistants.get_graph("errands")
        assert [each["id"] for each in graph["nodes"]] == ["__start__", "assistant", "__end__"]
        with pytest.raises(NotFoundError):
            await client.assistants.get("nope")


async def test_a_thread_is_made_once_looked_at_changed_and_deleted(database_url: str) -> None:
    async with service(database_url, [errands]) as served, sdk(served) as client:
        made = await client.threads.create(thread_id="one", metadata={"a": 1}, graph_id="errands")
        assert (made["status"], made["values"], made["interrupts"]) == ("idle", None, {})
        with pytest.raises(ConflictError):
            await client.threads.create(thread_id="one")
        again = await client.threads.create(thread_id="one", if_exists="do_nothing")
        assert again == made == await client.threads.get("one")
        state = await client.threads.get_state("one")
        assert (state["values"], state["next"], state["created_at"]) == ({}, [], None)
        changed = await client.threads.update("one", metadata={"a": 2, "b": 3})
        assert changed["metadata"] == {"a": 2, "b": 3, "graph_id": "errands"}
        assert await client.threads.update("one", metadata={"b": 4}, return_minimal=True) is None
        assert (await client.threads.get("one"))["metadata"]["b"] == 4
        with pytest.raises(UnprocessableEntityError):
            await client.threads.create(ttl=5)
        await client.threads.delete("one")
        for gone in (client.threads.get("one"), client.threads.update("one", metadata={})):
            with pytest.raises(NotFoundError):
                await gone


async def test_what_is_added_to_a_threads_metadata_at_once_is_all_kept_and_does_not_grow_for_ever(
    database_url: str,
) -> None:
    async with service(database_url, [errands]) as served, sdk(served) as client:
        await client.threads.create(thread_id="one")
        added = [{f"key {number}": number} for number in range(12)]
        await asyncio.gather(*(client.threads.update("one", metadata=each) for each in added))
        kept = (await client.threads.get("one"))["metadata"]
        assert kept == {name: value for each in added for name, value in each.items()}

        half = "x" * (MAX_METADATA_BYTES // 2)
        await client.threads.update("one", metadata={"first": half})
        with pytest.raises(UnprocessableEntityError, match="was not added to"):
            await client.threads.update("one", metadata={"second": half})
        await client.threads.update("one", metadata={"first": ""})
        changed = await client.threads.update("one", metadata={"second": half})
        assert changed["metadata"] == {**kept, "first": "", "second": half}


async def test_threads_are_found_by_what_they_wait_for_and_by_what_is_kept_with_them(
    database_url: str,
) -> None:
    async with service(database_url, [errands, breaks]) as served, sdk(served) as client:
        waits, (interrupt,) = await waiting(client, "errands", ERRAND)
        done, (other,) = await waiting(client, "errands", ERRAND)
        await client.runs.wait(done, "errands", command=resume({other["id"]: APPROVE}), metadata=BY)
        await client.threads.create(thread_id="new", metadata={"customer": {"name": "ann"}})
        await client.threads.create(thread_id="bad")
        await client.runs.join(
            "bad", (await client.runs.create("bad", "breaks", input="x"))["run_id"]
        )

        async def ids(**wanted: Any) -> list[str]:
            found = await client.threads.search(**wanted)
            assert await client.threads.count(**counted(wanted)) == len(found) or "limit" in wanted
            return [each["thread_id"] for each in found]

        assert await ids() == ["bad", "new", done, waits]
        assert await ids(sort_order="asc", limit=2, offset=1) == [done, "new"]
        assert await ids(status="interrupted") == [waits]
        assert await ids(status="idle") == ["new", done]
        assert await ids(status="error") == ["bad"]
        assert await ids(status="busy") == []
        assert await ids(metadata={"customer": {"name": "ann"}}) == ["new"]
        assert await ids(ids=[waits, "new"], limit=5) == ["new", waits]
        assert (await ids(sort_by="updated_at"))[0] == "bad"
        (found,) = await client.threads.search(status="interrupted", select=["interrupts"])
        assert found == {"interrupts": {interrupt["id"]: [interrupt]}}
        with pytest.raises(UnprocessableEntityError):
            await client.threads.search(values={"a": 1})


def counted(wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in wanted.items() if name in ("status", "metadata")}


async def test_a_threads_history_is_a_state_for_each_run_newest_first(database_url: str) -> None:
    async with service(database_url, [echoes, errands]) as served, sdk(served) as client:
        id = (await client.threads.create())["thread_id"]
        for text in ("one", "two", "three"):
            await client.runs.wait(id, "echoes", input=text)
        waits = await client.runs.wait(id, "errands", input=ERRAND)
        history = await client.threads.get_history(id)
        assert [each["values"] for each in history] == [
            ERRAND,
            {"output": "three"},
            {"output": "two"},
            {"output": "one"},
        ]
        assert history[0] == await client.threads.get_state(id)
        assert history[0]["interrupts"] == waits["__interrupt__"]
        before = history[1]["checkpoint"]
        rest = await client.threads.get_history(id, before=before, limit=1, select=["values"])
        assert rest == [{"values": {"output": "two"}}]
        checkpoint_id = history[2]["checkpoint"]["checkpoint_id"]
        assert await client.threads.get_state(id, checkpoint_id=checkpoint_id) == history[2]
        found = await client.threads.get_state(
            id, checkpoint=history[2]["checkpoint"], select=["values.output"]
        )
        assert found == {"values": {"output": "two"}}
        with pytest.raises(NotFoundError):
            await client.threads.get_history(id, before="nope")
        runs = await client.runs.list(id, limit=2, offset=1, select=["status", "run_id"])
        assert [each["run_id"] for each in runs] == [
            each["checkpoint"]["checkpoint_id"] for each in history[1:3]
        ]
        assert len(await client.runs.list(id, status="success")) == 3
        assert await client.runs.list(id, status="timeout") == []
