"""Listens to a run: shows what happens in it, and what its models write while they write it."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from httpx_sse import EventSource
from rich.status import Status
from rich.text import Text

from app.cli.client import Client
from app.cli.prompt import Reading, interruptible
from app.cli.screen import screen, shown

Json = dict[str, Any]

_TURNING_POINTS: Final = {
    "pause.opened",
    "run.paused",
    "run.completed",
    "run.failed",
    "run.cancelled",
}
_DELTA: Final = "model.delta"
_AGAIN_AFTER: Final = 0.3  # seconds: a service that is being stopped lets its listeners go
_EVENTS: Final = 200  # and 204 where there are no more
_PATIENCE: Final = httpx.Timeout(10, read=60)  # the service sends a comment every 15 s


@dataclass(kw_only=True)
class Listener:
    """Hears one run, from its beginning, each event once."""

    client: Client
    run: Json
    shows_steps: bool
    speaker: str | None
    """Whose words are those of a model; None: each agent's own."""
    last: str | None = None

    def __post_init__(self) -> None:
        self.text = _Text(self.speaker)

    def listen(self) -> None:
        """Returns when the run may have something to ask or is over, and when nothing can be heard.

        Raises `KeyboardInterrupt`.
        """
        heard = False
        with interruptible() as reading, _waiting(reading) as waiting:
            for name, data in self._events():
                heard = True
                with reading.held_up():
                    self._tell(name, data, waiting)
                if name in _TURNING_POINTS:
                    break
            if not heard:
                time.sleep(_AGAIN_AFTER)
        self.text.close()

    def _events(self) -> Generator[tuple[str, Json]]:
        path = f"/threads/{self.run['thread_id']}/runs/{self.run['id']}/events"
        headers = {} if self.last is None else {"last-event-id": self.last}
        try:
            with self.client.http.stream("GET", path, headers=headers, timeout=_PATIENCE) as answer:
                if answer.status_code == _EVENTS:
                    yield from self._read(EventSource(answer))
        except httpx.HTTPError:
            return  # whoever looks at the run next hears why

    def _read(self, source: EventSource) -> Generator[tuple[str, Json]]:
        for event in source.iter_sse():
            self.last = event.id or self.last
            yield event.event, event.json()["data"]

    def _tell(self, name: str, data: Json, waiting: Status) -> None:
        if name == _DELTA or self._said(name, data):
            waiting.stop()
        self._show(name, data)
        if name not in _TURNING_POINTS and not self.text.is_open:
            waiting.start()

    def _show(self, name: str, data: Json) -> None:
        if name == _DELTA:
            self.text.hear(data)
            return
        self.text.close()
        if said := self._said(name, data):
            screen().print(shown(f"· {said}", "dim"))

    def _said(self, name: str, data: Json) -> str | None:
        match name:
            case "step.started" if self.shows_steps:
                return data["name"]
            case "step.failed":
                return f"{data['name']} failed"
            case "tool.started":
                return data["tool"]
            case "tool.finished" if data.get("failed"):
                return f"{data['tool']} failed"
            case _:
                return None


@contextmanager
def _waiting(reading: Reading) -> Generator[Status]:
    """A sign that something is waited for; Ctrl-C does not find it half drawn."""
    status = screen().status(Text("…", "dim"))
    try:
        with reading.held_up():
            status.start()
        yield status
    finally:
        with reading.held_up():
            status.stop()


class _Text:
    """What a model is writing, as far as it is on the screen."""

    def __init__(self, speaker: str | None) -> None:
        self.is_open = False
        self.last = ""
        """The last text that was shown, with "…" for what was not heard of it."""
        self._speaker = speaker
        self._turn: tuple[str, int] | None = None
        self._length = 0

    def hear(self, delta: Json) -> None:
        turn = (delta["path"], delta["turn"])
        if not self.is_open or turn != self._turn or not delta["offset"]:
            self._begin(turn, self._speaker or delta["agent"])
        missing = "" if delta["offset"] == self._length else "…"
        self._length = delta["offset"] + len(delta["text"])
        self._add(missing + delta["text"])

    def _begin(self, turn: tuple[str, int], speaker: str) -> None:
        self.close()
        self.is_open, self._turn, self._length, self.last = True, turn, 0, ""
        screen().print(shown(f"{speaker}: ", "bold green"), end="")

    def _add(self, text: str) -> None:
        self.last += text
        screen().print(shown(text), end="", soft_wrap=True)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            screen().print()
