"""What a log line looks like, and what it never says."""

import asyncio
import logging
import sys
from typing import Any

import orjson
import pytest
from structlog.contextvars import bound_contextvars, clear_contextvars

from app.engine.models import ModelError
from app.watching import logs
from app.watching.logs import JsonLines


def line(message: str, *, quotes: bool = False, failed: bool = False, **fields: Any) -> Any:
    """A line as it is written, read again."""
    record = logging.makeLogRecord(
        {"name": "app.test", "levelname": "WARNING", "msg": message, **fields}
    )
    if failed:
        record.exc_info = sys.exc_info()
    return orjson.loads(JsonLines(quotes=quotes).format(record))


def test_a_line_is_one_object_of_a_message_its_fields_and_the_ids_it_belongs_to() -> None:
    with bound_contextvars(request_id="req_1", run_id="run_1"):
        told = line("run failed", code="model_error", limit=None)
    assert told.pop("timestamp").endswith("+00:00")
    assert told == {
        "level": "warning",
        "event": "run failed",
        "logger": "app.test",
        "request_id": "req_1",
        "run_id": "run_1",
        "code": "model_error",
        "limit": None,
    }


async def test_ids_stay_with_the_task_that_bound_them() -> None:
    async def advance(run_id: str) -> str:
        logs.belongs_to(run_id=run_id, pause_id=None)
        await asyncio.sleep(0)
        assert "pause_id" not in line("said")
        return line("said")["run_id"]

    clear_contextvars()
    assert await asyncio.gather(*(advance(f"run_{n}") for n in range(5))) == [
        f"run_{n}" for n in range(5)
    ]
    assert "run_id" not in line("said")


def broken(password: str) -> None:
    try:
        raise ValueError(f"{password} does not fit")
    except ValueError as error:
        raise ModelError("openai:gpt", "answered 401") from error


def test_an_exception_is_told_by_kind_and_place_and_its_words_only_if_they_are_our_own() -> None:
    with pytest.raises(ModelError) as raised:
        broken("hunter2")
    try:
        raise raised.value
    except ModelError:
        told, quoted = line("run broke", failed=True), line("run broke", failed=True, quotes=True)
    ours, theirs = told["exception"]
    assert (ours["type"], ours["message"]) == ("ModelError", "The model openai:gpt answered 401.")
    assert theirs.keys() == {"type", "frames"}
    assert theirs["frames"][-1].startswith("unit/test_log_lines.py:")
    assert theirs["frames"][-1].endswith(" broken")
    assert "hunter2" not in str(told)
    assert "hunter2" in str(quoted)


def test_what_json_cannot_hold_is_written_all_the_same() -> None:
    told = line("odd", half="\ud800", endless=1 << 80, error=ValueError("x"), many={1: 2})
    assert (told["event"], told["half"], told["error"], told["many"]) == ("odd", "?", "x", {"1": 2})
    assert str(told["endless"]) == f"{float(1 << 80)}"
