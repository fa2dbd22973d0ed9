"""What a request is about where it is refused before it is routed: the route that it would have come to."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.routing import compile_path

from app.api.ids import is_id


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A route as it is declared, none where nothing is at that path, and the ids in the path."""

    route: str | None
    ids: dict[str, str]


class Aims:
    """Knows the paths of all routes."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = [(path, compile_path(path)[0]) for path in dict.fromkeys(paths)]

    def of(self, path: str) -> Aim:
        """Where a request to a path would have come to."""
        for route, pattern in self._paths:
            if match := re.fullmatch(pattern, path):
                return Aim(route=route, ids=ids_in(match.groupdict()))
        return Aim(route=None, ids={})


def ids_in(path_params: dict[str, Any]) -> dict[str, str]:
    """The ids in a path; anything else that stands there is the caller's own words."""
    return {
        name: value for name, value in path_params.items() if name.endswith("_id") and is_id(value)
    }
