"""Where things are in the API of LangGraph: paths as its clients read them, from their base URL on."""

from collections.abc import Sequence
from urllib.parse import urlencode

from app.lifecycle.read import View


def run_at(view: View) -> str:
    """The path of a run, from which a client reads its id."""
    return f"/threads/{view['thread_id']}/runs/{view['id']}"


def named(view: View) -> dict[str, str]:
    """The header that says which run an answer is about."""
    return {"Content-Location": run_at(view)}


def joined_at(view: View) -> dict[str, str]:
    """Where a client that lost its connection goes on to wait."""
    return named(view) | {"Location": f"{run_at(view)}/join"}


def streamed_at(view: View, modes: Sequence[str]) -> dict[str, str]:
    """Where a client that lost its connection goes on to listen, to the same."""
    query = urlencode([("stream_mode", mode) for mode in modes])
    return named(view) | {"Location": f"{run_at(view)}/stream?{query}"}
