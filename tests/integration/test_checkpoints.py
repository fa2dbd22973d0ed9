"""What any LangGraph saver must do, asked of the one over Postgres, and of the rows themselves."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import ProgressCallbacks

from app.domain.ids import RunId, ThreadId
from app.storage.checkpoints import CheckpointRow, PostgresCheckpointer, RunCheckpointer
from app.storage.database import Database
from tests.pooler import IS_POOLED

THREAD = ThreadId("thr_1")
RUN = RunId("run_1")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.connect(database_url, prepared_statements=not IS_POOLED)
    yield database
    await database.close()


async def test_it_passes_the_whole_conformance_suite(database: Database) -> None:
    @checkpointer_test(name="PostgresCheckpointer")
    async def saver() -> AsyncGenerator[PostgresCheckpointer]:
        yield PostgresCheckpointer(database, THREAD)

    report = await validate(saver, progress=ProgressCallbacks.quiet())
    assert {
        name: result.failures for name, result in report.results.items() if result.failures
    } == {}
    assert [name for name, result in report.results.items() if not result.passed] == []
    assert len(report.results) == 8


async def test_threads_do_not_see_each_other(database: Database) -> None:
    one = PostgresCheckpointer(database, THREAD)
    other = PostgresCheckpointer(database, ThreadId("thr_2"))
    config = await one.aput(_config("run_1/root"), _checkpoint(value=1), {}, {})
    assert await one.aget_tuple(config) is not None
    assert await other.aget_tuple(config) is None
    assert [each async for each in other.alist(None)] == []


async def test_a_line_is_what_follows_the_first_slash(database: Database) -> None:
    saver = PostgresCheckpointer(database, THREAD)
    for thread_id in ("run_1", "run_1/root", "run_1/a/b[2]"):
        await saver.aput(_config(thread_id), _checkpoint(value=thread_id), {}, {})
    rows = await database.fetch("select run_id, line from checkpoints order by line")
    assert [tuple(row) for row in rows] == [("run_1", ""), ("run_1", "a/b[2]"), ("run_1", "root")]
    for thread_id in ("run_1", "run_1/root", "run_1/a/b[2]"):
        found = await saver.aget_tuple(_config(thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": thread_id}
        assert found.config.get("configurable", {})["thread_id"] == thread_id


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
async def test_a_forged_row_runs_no_code(code: int, database: Database, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    command = f"touch {proof}"
    argument: Any = (
        [command] if code == 1 else {"command": command} if code in (2, 4, 5) else command
    )
    forged = ormsgpack.Ext(code, ormsgpack.packb(["os", "system", argument, "__call__"]))
    body = b"msgpack:" + ormsgpack.packb(
        {**empty_checkpoint(), "channel_values": {"value": forged}}
    )

    await _load_forged(database, body)
    assert not proof.exists()


@pytest.mark.parametrize("tag", ["json", "pickle", "msgpack+aes", "", "nothing we know"])
async def test_a_row_that_claims_an_unwritten_type_is_refused(tag: str, database: Database) -> None:
    with pytest.raises(ValueError, match="never written here"):
        await _load_forged(database, tag.encode() + b":{}")


def test_a_graph_cannot_widen_what_may_be_restored() -> None:
    saver = RunCheckpointer(THREAD, RUN)
    assert saver.with_allowlist({("os", "system")}) is saver


def test_synchronous_use_is_refused_with_a_reason() -> None:
    with pytest.raises(NotImplementedError, match="asynchronous only"):
        RunCheckpointer(THREAD, RUN).get_tuple(_config("run_1/root"))


async def _load_forged(database: Database, body: bytes) -> None:
    """Loads `body` both ways."""
    await database.fetch(
        "insert into checkpoints (thread_id, run_id, line, ns, id, body, metadata)"
        " values ($1, $2, 'root', '', '1', $3, '{}')",
        THREAD,
        RUN,
        body,
    )
    row = CheckpointRow(line="root", ns="", id="1", parent_id=None, body=body, metadata="{}")
    await RunCheckpointer(THREAD, RUN, checkpoints=[row]).aget_tuple(_config("run_1/root"))
    await PostgresCheckpointer(database, THREAD).aget_tuple(_config("run_1/root"))


def _config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def _checkpoint(**values: Any) -> Checkpoint:
    return {**empty_checkpoint(), "channel_values": values}
