"""What processes pass on to each other, over hints, for those who follow something: only where somebody does.

A process says now and then what is followed in it. Whoever works on that passes on, for a while, that
something was written and what models are writing. All of it may be lost: what is written is found by looking,
and of what a model writes a piece says where it belongs. A process hears what it says itself, too, and takes
no notice of it.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Final

import orjson

from app.domain.ids import RunId
from app.engine.audience import Delta

FOLLOW_FOR: Final = 15.0
"""Seconds for which it holds that something is followed elsewhere."""

ASK_EVERY: Final = 5.0
"""Seconds after which a process says again what is followed in it."""

PASS_ON_EVERY: Final = 0.1
"""Seconds for which pieces of an answer are gathered."""

MOST_TEXT: Final = 1500
"""Characters of a piece that is passed on: a notification takes 8000 bytes."""

MOST_WAITING: Final = 32
"""Pieces of a run that may wait to be passed on; further ones are dropped."""

TOPICS_AT_ONCE: Final = 100

FOLLOWED: Final = "followed"
HAPPENED: Final = "happened"
WRITING: Final = "writing"


class Relay:
    """One process's end of it."""

    def __init__(self, tell_others: Callable[[str], None]) -> None:
        self._name = secrets.token_hex(4)
        self._tell_others = tell_others
        self._wanted: dict[str, float] = {}
        self._waiting: dict[RunId, list[Delta]] = {}

    def follow(self, topics: Iterable[str]) -> None:
        """Says to the others what is followed here."""
        listed = list(topics)
        for start in range(0, len(listed), TOPICS_AT_ONCE):
            several = "\n".join(listed[start : start + TOPICS_AT_ONCE])
            self._say(FOLLOWED, several)

    def followed(self, said: str) -> None:
        """Takes what another process says is followed in it."""
        now = _now()
        self._wanted = {topic: until for topic, until in self._wanted.items() if until > now}
        for topic in said.split("\n"):
            self._wanted[topic] = now + FOLLOW_FOR

    def is_wanted(self, topic: str) -> bool:
        """Whether another process follows it."""
        return self._wanted.get(topic, 0.0) > _now()

    def happened(self, topic: str, run_id: RunId | None = None) -> None:
        """Passes on that something was written, after what a model of the run wrote before."""
        if self.is_wanted(topic):
            if run_id:
                self._pass_on(run_id)
            self._say(HAPPENED, topic)

    def writes(self, run_id: RunId, delta: Delta) -> None:
        """Passes on a piece that a model has written, with those that come soon."""
        waiting = self._waiting.get(run_id)
        if waiting is None:
            waiting = self._waiting[run_id] = []
            asyncio.get_running_loop().call_later(PASS_ON_EVERY, self._pass_on, run_id)
        if waiting and (joined := joined_with(waiting[-1], delta)):
            waiting[-1] = joined
        elif len(waiting) < MOST_WAITING:
            waiting.append(delta)

    def _pass_on(self, run_id: RunId) -> None:
        for delta in self._waiting.pop(run_id, ()):
            for piece in _pieces(delta):
                self._say(WRITING, f"{run_id}:{orjson.dumps(asdict(piece)).decode()}")

    def _say(self, kind: str, said: str) -> None:
        self._tell_others(f"{kind}:{self._name} {said}")

    def of_others(self, hint: str) -> str | None:
        """What a process says, without its name; None where it was this one."""
        name, _, said = hint.partition(" ")
        return None if name == self._name else said


def read(said: str) -> tuple[RunId, Delta]:
    """The run and the piece in what another process passes on."""
    run_id, _, piece = said.partition(":")
    return RunId(run_id), Delta(**orjson.loads(piece))


def joined_with(last: Delta, delta: Delta) -> Delta | None:
    """Both as one piece, if the later one goes on where the earlier one ends and is not long already."""
    same = (last.path, last.agent, last.turn) == (delta.path, delta.agent, delta.turn)
    if same and last.offset + len(last.text) == delta.offset and len(last.text) < MOST_TEXT:
        return replace(last, text=last.text + delta.text)
    return None


def _pieces(delta: Delta) -> Iterator[Delta]:
    for start in range(0, len(delta.text), MOST_TEXT):
        text = delta.text[start : start + MOST_TEXT]
        yield replace(delta, offset=delta.offset + start, text=text)


def _now() -> float:
    return asyncio.get_running_loop().time()
