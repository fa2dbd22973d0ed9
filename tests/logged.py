"""What the service writes to its log while a test listens, line by line as it is written."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import orjson

from app.watching.logs import JsonLines


class Lines(logging.Handler):
    """Keeps each line as text, but for what clients say of their requests, the test's own among them."""

    def __init__(self, *, quotes: bool) -> None:
        super().__init__()
        self.setFormatter(JsonLines(quotes=quotes))
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or not record.name.startswith("http"):
            self.texts.append(self.format(record))

    @property
    def told(self) -> list[dict[str, Any]]:
        """The lines, read again."""
        return [orjson.loads(each) for each in self.texts]


@contextmanager
def logged(level: int = logging.INFO, *, quotes: bool = False) -> Generator[Lines]:
    """The lines of everything in this process from `level` on; `quotes` as at the level DEBUG."""
    root, lines = logging.getLogger(), Lines(quotes=quotes)
    before = root.level
    root.addHandler(lines)
    root.setLevel(level)
    try:
        yield lines
    finally:
        root.setLevel(before)
        root.removeHandler(lines)
