"""The terminal: standard output for what was asked for, standard error for what is said beside it.

Texts of models, callers and writers are shown with what is invisible in them spelled out: an escape
sequence could rewrite what an approver reads.
"""

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

import orjson
from rich.console import Console
from rich.text import Text

_NEVER_WRAPPED = 10_000


def screen(*, stderr: bool = False) -> Console:
    """Where to print. What goes to a pipe is not coloured and not wrapped."""
    file = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=_width(file))


def _width(file: IO[str]) -> int | None:
    return None if file.isatty() else _NEVER_WRAPPED


def show_json(value: object) -> None:
    """Prints JSON for another program to read."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


@contextmanager
def progress(doing: str) -> Generator[None]:
    """Shows what takes long while it lasts, if somebody looks."""
    console = screen(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(doing, "dim")):
        yield


def shown(text: object, style: str = "") -> Text:
    """A text from outside, safe to print."""
    return Text(visible(str(text)), style)


def visible(text: str) -> str:
    """The text, with the number of each character that does not show or that turns what follows it."""
    return _INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def joined(*parts: object, by: str = " · ") -> Text:
    """The parts that say something, in one line."""
    texts = [part if isinstance(part, Text) else shown(part) for part in parts if part]
    return Text(by).join(texts)


def value_text(value: Any) -> str:
    """A JSON value as a person reads it: a text as it is, anything else as JSON."""
    return (
        value
        if isinstance(value, str)
        else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    )
