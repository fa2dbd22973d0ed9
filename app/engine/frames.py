"""What a line remembers of the steps it is in, and how that names every place.

A frame is made when a step is entered and gone when it is left, so a line's state grows with the depth of
its workflow and not with its length. A place is a step's path with everything written out that tells one
pass from another: `wf/polish[1]/edit`, the second iteration of a loop; `wf/draft~2`, the third attempt.
"""

import re
from collections.abc import Mapping
from typing import Any, TypedDict, cast

from app.domain.json import Json


class Frame(TypedDict, total=False):
    """One step that was entered and not yet left."""

    given: Json
    iteration: int
    attempt: int
    reviews: int  # how often its output was rejected
    errors: int  # how often it was tried again after an error
    inputs: list[Json]
    feedback: str | None
    previous: Json
    was_rejected: bool
    was_turned_down: bool  # a condition, whose other branch is taken however often it is run
    routes: list[str]


Frames = Mapping[str, Frame]


def frame_of(frames: Frames, path: str) -> Frame:
    """The frame of a step that was entered."""
    return frames.get(path, Frame())


def changed(frames: Frames, path: str, **changes: Any) -> dict[str, Frame]:
    """The frames with one of them changed."""
    return {**frames, path: cast("Frame", {**frame_of(frames, path), **changes})}


def left(frames: Frames, path: str) -> dict[str, Frame]:
    """The frames without those of a step and of the steps in it."""
    inside = f"{path}/"
    return {key: each for key, each in frames.items() if key != path and not key.startswith(inside)}


def remarked(frames: Frames) -> dict[str, Frame]:
    """What a branch has to know of the steps around it: what was said about them."""
    names = ("was_rejected", "feedback", "previous")
    return {
        path: cast("Frame", {name: frame.get(name) for name in names})
        for path, frame in frames.items()
        if frame.get("was_rejected")
    }


def place_of(path: str, frames: Frames, root: str, base: str) -> str:
    """The place of a step now. `root` is the path its line begins at, `base` the place of that."""
    return row_of(path, frames, root, base) + _marks(frame_of(frames, path))


def row_of(path: str, frames: Frames, root: str, base: str) -> str:
    """The place of a step whatever its own iteration and attempt: the same over all of them."""
    if path == root:
        return base
    above, _, name = path.rpartition("/")
    return f"{place_of(above, frames, root, base)}/{name}"


def _marks(frame: Frame) -> str:
    iteration, attempt = frame.get("iteration"), frame.get("attempt", 0)
    return (f"[{iteration}]" if iteration is not None else "") + (f"~{attempt}" if attempt else "")


def row_and_attempts(place: str) -> tuple[str, int]:
    """The row of a step that stands at a place, and how many attempts there have been by then."""
    above, slash, last = place.rpartition("/")
    attempt = _ATTEMPT.search(last)
    return f"{above}{slash}{path_of(last)}", int(attempt[1]) + 1 if attempt else 1


def path_of(place: str) -> str:
    """The path that a place is an instance of."""
    return _MARKS.sub("", place)


_ATTEMPT = re.compile(r"~(\d+)$")
_MARKS = re.compile(r"\[\d+\]|~\d+")
