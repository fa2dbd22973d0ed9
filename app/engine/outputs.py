"""The outputs of earlier steps, as a function of a step sees them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

from pydantic import TypeAdapter

from app.authoring.shape import load
from app.domain.json import Json
from app.engine.frames import path_of


class Outputs(Mapping[str, Any]):
    """Outputs by the names of their steps, typed when they are read.

    A name that several steps have stands for the one that is closest to the reader, then for the outermost,
    then for the last in the workflow, then for the last iteration: for the same one whenever it is read. What
    the other branches of a fork that the reader is in have given is not there.

    Args:
        given: Outputs of completed steps, by place.
        types: What they are, by path, in the order of the workflow.
        reader: The place of the step that reads.
        branches: The places of the branches that it is in, from the outermost.
    """

    def __init__(
        self,
        given: Mapping[str, Json],
        types: Mapping[str, TypeAdapter[Any]],
        *,
        reader: str,
        branches: Sequence[str],
    ) -> None:
        self._given = given
        self._types = types
        self._around = reader.split("/")[:-1]
        self._branches = branches

    def __getitem__(self, name: str) -> Any:
        place = self._places[name]
        return load(self._types[path_of(place)], self._given[place])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def _places(self) -> dict[str, str]:
        """Places by name. A function that reads no outputs has nothing sorted for it."""
        order = {path: index for index, path in enumerate(self._types)}
        seen = [place for place in self._given if self._is_seen(place)]
        seen.sort(key=lambda place: (*self._closeness(place), order[path_of(place)], _marks(place)))
        return {place.rpartition("/")[2]: place for place in seen}

    def _is_seen(self, place: str) -> bool:
        return all(
            _is_of(place, branch) or not place.startswith(f"{branch.rpartition('/')[0]}/")
            for branch in self._branches
        )

    def _closeness(self, place: str) -> tuple[int, int]:
        """How many of the steps around it the reader is in too; and how deep it is, the deeper the less."""
        *around, _ = place.split("/")
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(around, self._around, strict=False))
        return len(list(shared)), -len(around)


def _is_of(place: str, branch: str) -> bool:
    return place == branch or place.startswith((f"{branch}/", f"{branch}[", f"{branch}~"))


def _marks(place: str) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(place)]


_NUMBERS = re.compile(r"(?<=[\[~])\d+")
