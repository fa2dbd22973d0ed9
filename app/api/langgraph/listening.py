"""A run as a stream of the parts that LangGraph's clients listen to, until it waits or has ended.

    metadata ─► values (what it was given) ─► updates, messages, custom … ─► values | error ─► end

A part's id is that of the event it comes of, so that whoever lost the line goes on after it. Where the process
takes leave, `end` does not come, and the client goes on elsewhere. What is told is the state as it is by then.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from app.api.events import told
from app.api.langgraph.interrupts import interrupt_of, open_pauses
from app.api.langgraph.shapes import error_of, given_to, result_of, updates_of
from app.api.stream import frame
from app.domain.event import EventType
from app.domain.json import Json
from app.domain.principal import Principal
from app.domain.run import RunRef, RunStatus
from app.lifecycle import read
from app.lifecycle.follow import Delta, Heard, Recorded, Stream, Writing, left_of
from app.lifecycle.read import View
from app.lifecycle.site import Site

TEXTS: Final = "messages-tuple"
"""The mode in which what models write is heard."""


@dataclass(kw_only=True)
class Listening:
    """Who listens to what of a run, and how far they have come."""

    site: Site
    caller: Principal
    run: RunRef
    modes: Sequence[str]
    after: int = 0
    texts: "Texts" = field(init=False)

    def __post_init__(self) -> None:
        self.texts = Texts(self.run)

    async def frames(self, stream: Stream | None, *, is_new: bool) -> AsyncGenerator[bytes]:
        """Everything that is to be sent."""
        run = {"run_id": self.run.run_id, "thread_id": self.run.thread_id}
        yield frame("metadata", run)
        if is_new and "values" in self.modes:
            yield frame("values", given_to(await self._view()))
        if not await self._is_settled():
            if stream is None:
                return
            async with aclosing(stream) as heard:
                async for several in heard:
                    yield b"".join(await self._parts(several))
                    if isinstance(several[-1], Recorded) and await self._is_settled():
                        break
                else:
                    return
        for part in self._ending(await self._view()):
            yield part

    async def _is_settled(self) -> bool:
        """Whether the run waits or has ended, and everything up to that was told."""
        left = await left_of(self.site, self.run, after=self.after)
        return left.is_settled and not left.has_more

    async def _view(self) -> View:
        return await read.run(self.site, self.caller, self.run.thread_id, self.run.run_id)

    async def _parts(self, several: Sequence[Heard]) -> list[bytes]:
        is_shown = "updates" in self.modes and any(_updates(each) for each in several)
        view = await self._view() if is_shown else None
        return [part for each in several for part in self._parts_of(each, view)]

    def _parts_of(self, heard: Heard, view: View | None) -> Iterator[bytes]:
        match heard:
            case Writing(delta=delta):
                if TEXTS in self.modes and (piece := self.texts.piece(delta)):
                    yield frame("messages", piece)
            case Recorded():
                self.after = heard.sequence
                update = _update(heard, view) if view else None
                told_of = told(heard) if "custom" in self.modes else None
                parts = [("updates", update), ("custom", told_of)]
                named = [(name, data) for name, data in parts if data is not None]
                for index, (name, data) in enumerate(named, 1):
                    yield frame(name, data, id=str(self.after) if index == len(named) else None)
            case _:
                pass

    def _ending(self, view: View) -> Iterator[bytes]:
        if view["status"] == RunStatus.FAILED:
            yield frame("error", error_of(view), id=str(self.after))
        elif "values" in self.modes:
            yield frame("values", result_of(view), id=str(self.after))
        yield frame("end", None)


def _updates(heard: Heard) -> bool:
    return isinstance(heard, Recorded) and heard.type in (
        EventType.STEP_COMPLETED,
        EventType.PAUSE_OPENED,
    )


def _update(event: Recorded, view: View) -> Json:
    """What a step wrote, or what is asked, if it is still open."""
    if event.type == EventType.STEP_COMPLETED:
        path = event.data["path"]
        return next((updates_of(step) for step in view["steps"] if step["path"] == path), None)
    if event.type == EventType.PAUSE_OPENED:
        asked = [each for each in open_pauses(view) if each["id"] == event.data["pause_id"]]
        return {"__interrupt__": [interrupt_of(each) for each in asked]} if asked else None
    return None


class Texts:
    """What models of a run are writing, as chunks of messages. A text that begins anew is another message."""

    def __init__(self, run: RunRef) -> None:
        self._run = run
        self._begun: dict[tuple[str, int], int] = {}
        self._length: dict[tuple[str, int], int] = {}

    def piece(self, delta: Delta) -> Json | None:
        """The next chunk, with what it belongs to; None where something before it was not heard."""
        key = delta.path, delta.turn
        if delta.offset == 0:
            self._begun[key] = self._begun.get(key, 0) + 1
            self._length[key] = 0
        if delta.offset != self._length.get(key):
            return None
        self._length[key] += len(delta.text)
        id = f"{self._run.run_id}:{delta.path}:{delta.turn}:{self._begun[key]}"
        chunk = {"type": "AIMessageChunk", "id": id, "name": delta.agent, "content": delta.text}
        where = {"langgraph_node": delta.agent, "langgraph_step": delta.turn, "path": delta.path}
        return [chunk, {**where, "run_id": self._run.run_id, "thread_id": self._run.thread_id}]
