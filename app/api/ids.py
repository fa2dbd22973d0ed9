"""Ids as they come in a path: one that cannot exist is as unknown as one that does not."""

import re
from typing import Annotated, Final

from fastapi import Path
from pydantic import AfterValidator

from app.domain.credentials import looks_secret
from app.domain.ids import DeliveryId, PauseId, RunId, ThreadId
from app.errors import NotFound

ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
"""The form of every id, those that callers choose for threads among them."""

_ID: Final = re.compile(ID_PATTERN.strip("^$"))


def is_id(text: str) -> bool:
    """Whether a text has the form of an id, so that it may be looked for, and kept, and told to the log."""
    return _ID.fullmatch(text) is not None and not looks_secret(text)


def _may_exist(text: str) -> str:
    if not is_id(text):
        raise NotFound("There is nothing of that id.")
    return text


ThreadPath = Annotated[
    ThreadId,
    AfterValidator(_may_exist),
    Path(description="The thread.", examples=["thr_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"]),
]
RunPath = Annotated[
    RunId,
    AfterValidator(_may_exist),
    Path(description="The run.", examples=["run_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"]),
]
PausePath = Annotated[
    PauseId,
    AfterValidator(_may_exist),
    Path(description="The pause.", examples=["pau_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"]),
]
DeliveryPath = Annotated[
    DeliveryId,
    AfterValidator(_may_exist),
    Path(description="The delivery.", examples=["dlv_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"]),
]
AssistantPath = Annotated[
    str,
    AfterValidator(_may_exist),
    Path(description="The name of the workflow, or its id as an assistant.", examples=["errands"]),
]
CheckpointPath = Annotated[
    RunId,
    AfterValidator(_may_exist),
    Path(
        description="The run whose state it is.", examples=["run_0192f3c1b7a87e0f9a3c5d7e9b1f3a5c"]
    ),
]
WorkflowPath = Annotated[
    str,
    AfterValidator(_may_exist),
    Path(description="The name of the workflow.", examples=["errands"]),
]
