"""What a writer got wrong, and where: collected first, raised as one report."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from app.errors import AuthoringError


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake: `place` says where, as in `agent 'assistant', tool 'send_email'`."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"

    def within(self, place: str) -> "Mistake":
        """The same mistake, seen from outside `place`."""
        return Mistake(place=f"{place}, {self.place}", message=self.message)


class WorkflowMistakes(AuthoringError):
    """A workflow that cannot be built; `mistakes` has every one of its mistakes."""

    def __init__(self, workflow: str, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))
        lines = "\n".join(f"  - {mistake}" for mistake in self.mistakes)
        count = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) > 1 else ''}"
        super().__init__(f"The workflow {workflow!r} has {count}:\n{lines}", workflow=workflow)


_PUBLIC = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SPOKEN = re.compile(r"\w[\w -]{0,63}(?<! )")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")


def public_name(name: object) -> str | None:
    """What is wrong with a name that stands in addresses, settings and providers' requests."""
    if isinstance(name, str) and _PUBLIC.fullmatch(name):
        return None
    return f"{name!r} is not a name: a letter, then at most 63 letters, digits, '_' or '-'"


def channel_name(name: object) -> str | None:
    """What is wrong with the name of a channel, under which settings name its address."""
    if isinstance(name, str) and "__" in name:
        return f"{name!r} is not a name of a channel: '__' divides the parts of a setting's name"
    return public_name(name)


def spoken_name(name: object) -> str | None:
    """What is wrong with the name of a step or an agent, which stands in paths."""
    if isinstance(name, str) and _SPOKEN.fullmatch(name):
        return None
    return f"{name!r} is not a name: at most 64 letters, digits, spaces, '_' or '-'"


def version_number(version: object) -> str | None:
    """What is wrong with a version."""
    if isinstance(version, str) and _VERSION.fullmatch(version):
        return None
    return f"version {version!r} must be text as '1.0.0': letters, digits, '.', '+', '_' or '-'"


def as_list(found: object) -> list[object] | None:
    """What stands where a list is expected; None where it is not one."""
    return list(cast("list[object]", found)) if isinstance(found, list | tuple) else None


def wrong_text(name: str, text: object) -> Iterator[str]:
    """What is wrong with a text, which may be empty."""
    if not isinstance(text, str):
        yield f"{name}= must be a text"


def wrong_count(name: str, count: object, least: int = 0) -> Iterator[str]:
    """What is wrong with a whole number."""
    if type(count) is not int or count < least:
        yield f"{name}={count!r} must be a whole number from {least}"


def wrong_duration(name: str, duration: object, *, optional: bool = True) -> Iterator[str]:
    """What is wrong with a duration; an `optional` one may be None."""
    if optional and duration is None:
        return
    if not isinstance(duration, timedelta):
        yield f"{name}= must be a timedelta, not {type(duration).__name__}"
    elif duration <= timedelta(0):
        yield f"{name}= must be longer than nothing"


def wrong_choice(name: str, choice: object, choices: Sequence[str]) -> Iterator[str]:
    """What is wrong with one of several words."""
    if choice not in choices:
        yield f"{name}={choice!r} is unknown here: it is one of {', '.join(choices)}"


def repeated(names: Iterable[object]) -> Iterator[object]:
    """Each name that stands there more than once; a writer may have put anything there."""
    seen: list[object] = []
    told: list[object] = []
    for name in names:
        if name in seen and name not in told:
            told.append(name)
            yield name
        seen.append(name)
