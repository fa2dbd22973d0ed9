"""JSON answers, written by orjson from what the use cases give."""

from collections.abc import Mapping
from typing import ClassVar

import orjson
from starlette.responses import Response

from app.domain.json import Json

REPLAYED = "Idempotency-Replayed"


class JsonResponse(Response):
    """An answer that nobody may keep: it can be another one a moment later."""

    media_type: ClassVar[str] = "application/json"

    def __init__(
        self, value: Json, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            orjson.dumps(value), status, headers={"cache-control": "no-store", **(headers or {})}
        )


def replayed(is_replay: bool) -> dict[str, str]:
    """The header that marks the answer to a request that was made before."""
    return {REPLAYED: "true"} if is_replay else {}
