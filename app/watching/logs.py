"""Log lines: one JSON object each, a fixed message and its fields, and the ids of what it belongs to.

The ids are bound once, to a request, to the advance of a run or to a delivery, and stand in every line that
is written below it, a library's too.
"""

import json
import logging
import traceback
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from structlog.contextvars import bind_contextvars, get_contextvars

from app.errors import SignoffError

MOST_FRAMES: Final = 20
"""Of a traceback, the innermost."""

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUIET: Final = ("httpx", "httpcore", "alembic", "uvicorn.error", "uvicorn.access", "opentelemetry")


def configure(level: str) -> None:
    """JSON lines on standard error, from `level` on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(quotes=level == "DEBUG"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in _QUIET:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def belongs_to(**ids: str | None) -> None:
    """Has every line that the current task writes from here on carry these ids; None is left out."""
    bind_contextvars(**{name: value for name, value in ids.items() if value is not None})


class JsonLines(logging.Formatter):
    """A record as one line of JSON, at a third of what a chain of processors costs.

    What an exception of others says may quote what it was about, so it is told by its kind and its place
    alone, unless `quotes`.
    """

    def __init__(self, *, quotes: bool = False) -> None:
        super().__init__()
        self._quotes = quotes

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **get_contextvars(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        line["logger"] = record.name
        if record.exc_info and (error := record.exc_info[1]):
            line["exception"] = [self._told(each) for each in _chain(error)]
        return _json(line)

    def _told(self, error: BaseException) -> dict[str, Any]:
        told: dict[str, Any] = {"type": type(error).__name__}
        if self._quotes or isinstance(error, SignoffError):
            told["message"] = str(error)
        return told | {"frames": _frames(error)}


def _json(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # half a surrogate pair, an integer without end
        text = json.dumps(line, default=str, ensure_ascii=False)
        return text.encode(errors="replace").decode()


def _chain(error: BaseException) -> Generator[BaseException]:
    """The error, then what it came from."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
    return [f"{_at(frame)} {frame.name}" for frame in frames]


def _at(frame: traceback.FrameSummary) -> str:
    path = Path(frame.filename)
    return f"{path.parent.name}/{path.name}:{frame.lineno}"
