"""Sensitive values reach the tool, and no answer, notice, log line, span or row that people read."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from app.storage.tables import metadata
from tests.e2e.conftest import Town
from tests.receivers import Receiver
from tests.service import Api, Json, approval, path_of, until

ENGINE_ONLY = {
    "runs": {"input", "output", "callback"},
    "pauses": {"secret", "answer"},
    "steps": {"output"},
    "step_results": {"value"},
    "history": {"messages"},
    "checkpoints": {"body"},
    "checkpoint_writes": {"body"},
}
"""The columns that hold true values."""


def canaries(count: int) -> list[str]:
    return [f"canary{secrets.token_hex(8)}" for _ in range(count)]


def vault(main: str, others: Sequence[str], pins: Sequence[str]) -> Json:
    return {
        "owner": "bob",
        "main": {"name": "bob", "password": main},
        "others": [{"name": f"bob {n}", "password": each} for n, each in enumerate(others)],
        "pins": list(pins),
    }


async def test_sensitive_values_are_seen_by_the_tool_and_by_nobody_else(
    town: Town, api: Api
) -> None:
    main, other, pin, edited, wrong = values = canaries(5)
    async with Receiver(port=town.approvers_port) as approvers:
        misfit = {**vault(wrong, [wrong], [wrong]), "owner": 1}
        assert (await api.start("safes", misfit)).status_code == 422
        run = await api.started("safes", vault(main, [other], [pin]))
        for decision in (
            approval(override_arguments=misfit),
            approval(override_arguments=vault(wrong, [], []) | {"pins": wrong}),
            {"approved": wrong, "by": "alice"},
        ):
            assert (await api.decide(run["pause"], decision)).status_code == 422
        override = vault(edited, ["***"], []) | {"pins": "***"}
        ended = await api.decided(run["pause"], approval(override_arguments=override))
        again = await api.started("safes", vault(main, [other], [pin]), thread=run["thread_id"])
        await api.decided(again["pause"])
        await look_everywhere(api, ended)
        await approvers.wait_for(4)
    assert town.effects.of(run) == [f"opened with {edited} and 1 more", f"broke with {main}"]
    await assert_traced(town, again, "invoke_workflow safes", "decide approval")
    tokens = [
        reply["token"] for each in approvers.received if (reply := each.json["data"]["reply"])
    ]
    assert tokens
    assert not [line for line in town.log_lines for token in tokens if token in line]
    assert run["pause"]["call"]["arguments"] == vault("***", ["***"], []) | {"pins": "***"}
    assert ended["output"] is not None
    await assert_hidden(values, town, [*api.heard, *bodies(approvers)])
    found = await columns_with(values, town.database_url)
    assert {"runs.input", "pauses.answer", "history.messages"} <= set(found)


async def test_what_people_fill_in_answer_report_and_correct_is_seen_by_nobody_else(
    town: Town, api: Api
) -> None:
    form, corrected, filled, answered, reported, wrong = values = canaries(6)
    async with Receiver(port=town.approvers_port) as approvers:
        run = await api.started("deposits", "it")
        for decision in (
            {"value": login(form)},
            approval(override_output=login(corrected)),
            {"action": "skip"},
            {"value": {"login": login(filled)}},
            {"value": login(reported)},
            {"value": login(answered)},
        ):
            for misfit in misfits(decision, wrong):
                assert (await api.decide(run["pause"], misfit)).status_code == 422, misfit
            run = await api.decided(run["pause"], {**decision, "by": "alice"})
        assert run["status"] == "completed", run
        await look_everywhere(api, run)
        await approvers.wait_for(12)
    assert town.effects.of(run) == [f"kept {filled}", f"heard {answered}"]
    assert [pause["kind"] for pause in run["pauses"]] == [
        "input",
        "review",
        "error",
        "input",
        "external_result",
        "interactive",
    ]
    await assert_traced(town, run, "invoke_workflow deposits", "decide input")
    await assert_hidden(values, town, [*api.heard, *bodies(approvers)])
    found = set(await columns_with(values, town.database_url))
    assert {"pauses.answer", "steps.output"} <= found


def login(password: str) -> Json:
    return {"name": "bob", "password": password}


def misfits(decision: Json, wrong: str) -> list[Json]:
    """Decisions like this one that cannot be taken, and say a secret."""
    bad = {"name": 1, "password": wrong}
    match decision:
        case {"value": {"login": _}}:
            return [{"value": {"login": bad}, "by": "x"}, {"value": {"login": wrong}, "by": "x"}]
        case {"value": _}:
            return [{"value": bad, "by": "x"}, {"value": [wrong], "by": "x"}]
        case {"override_output": _}:
            return [approval(override_output=bad), {"approved": wrong, "by": "x"}]
        case _:
            return [{"action": wrong, "by": "x"}]


async def test_the_examples_password_is_masked_too(town: Town, api: Api) -> None:
    async with Receiver(port=town.approvers_port) as approvers:
        run = await api.started("errands", {"text": "ask for a day off"})
        assert run["pause"]["call"]["arguments"]["smtp_password"] == "***"
        await api.decided(run["pause"])
        await look_everywhere(api, run)
        await approvers.wait_for(2)
    await assert_hidden(["hunter2"], town, [*api.heard, *bodies(approvers)])


def bodies(receiver: Receiver) -> list[str]:
    return [each.body.decode() for each in receiver.received]


async def look_everywhere(api: Api, run: Json) -> None:
    """Reads a run by every route that shows something of it."""
    thread = f"/threads/{run['thread_id']}"
    await api.get(path_of(run))
    await api.get(f"{thread}/runs")
    await api.get(thread)
    await api.get("/threads")
    await api.get("/pauses", run_id=run["id"])
    await api.get(f"/pauses/{run['pauses'][0]['id']}")
    await api.deliveries(run)
    await api.get(f"/workflows/{run['workflow']['name']}")
    await api.get("/audit", thread_id=run["thread_id"], limit="100")
    await api.ask("GET", "/metrics")
    await look_as_langgraph_does(api, run)
    await listen(api, run)


async def look_as_langgraph_does(api: Api, run: Json) -> None:
    where = f"/langgraph{path_of(run)}"
    thread = f"/langgraph/threads/{run['thread_id']}"
    for path in (where, f"{where}/join", thread, f"{thread}/state"):
        await api.get(path)
    await api.ask("POST", f"{thread}/history", {})
    await api.ask("POST", "/langgraph/threads/search", {})
    modes = "stream_mode=values&stream_mode=updates&stream_mode=messages-tuple&stream_mode=custom"
    await api.ask("GET", f"{where}/stream?{modes}")


async def listen(api: Api, run: Json) -> None:
    """Hears the events of a run that has ended, all of them; of one that has not, what has come so far."""
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(2),
            api.client.stream("GET", f"{path_of(run)}/events") as answer,
        ):
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                api.heard.append(line)


async def assert_traced(town: Town, run: Json, *names: str) -> None:
    """Returns once the spans of a run with these names were printed."""

    async def are_printed() -> bool:
        said = "\n".join(town.log_lines)
        spans = [each for each in said.split('"name": ') if run["id"] in each]
        return all(any(each.startswith(f'"{name}"') for each in spans) for name in names)

    await until(are_printed)


async def assert_hidden(values: Sequence[str], town: Town, texts: Sequence[str]) -> None:
    for value in values:
        assert not [text for text in texts if value in text]
        assert not [line for line in town.log_lines if value in line]
    engine_only = {f"{table}.{name}" for table, names in ENGINE_ONLY.items() for name in names}
    assert set(await columns_with(values, town.database_url)) <= engine_only


async def columns_with(values: Sequence[str], database_url: str) -> list[str]:
    """The columns of all tables in which one of the values stands somewhere."""
    connection = await asyncpg.connect(database_url)
    try:
        return [
            f"{table.name}.{column.name}"
            for table in metadata.tables.values()
            for column in table.columns
            if await connection.fetchval(
                f"select exists (select from {table.name}, unnest($1::text[]) as sought(value_) "
                f"where position(value_ in {_as_text(column.name)}) > 0)",
                list(values),
            )
        ]
    finally:
        await connection.close()


def _as_text(column: str) -> str:
    return f"encode({column}, 'escape')" if column == "body" else f'"{column}"::text'
