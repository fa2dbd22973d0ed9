"""`signoff pauses`: what waits for a decision in a running service."""

from typing import Annotated, Any

import typer
from rich.text import Text

from app.cli.client import HERE, Client, Key, Url, client_of, open_pauses, path_of
from app.cli.options import how_to_decide
from app.cli.pause_view import listing, outcome, question
from app.cli.screen import screen, show_json
from app.domain.pause import PauseKind, PauseStatus

command = typer.Typer(add_completion=False)

Json = dict[str, Any]
_MOST_AT_ONCE = 100


@command.command()
def pauses(
    pause_id: Annotated[
        str | None, typer.Argument(help="One of them, in full.", autocompletion=open_pauses)
    ] = None,
    status: Annotated[PauseStatus, typer.Option(help="How far they are.")] = PauseStatus.OPEN,
    kind: Annotated[PauseKind | None, typer.Option(help="What is asked.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Of this workflow.")] = None,
    channel: Annotated[str | None, typer.Option(help="Asked of this channel.")] = None,
    thread: Annotated[str | None, typer.Option(help="Of this thread.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    url: Url = HERE,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="As the API has it.")] = False,
) -> None:
    """Lists what waits for a decision, the longest waiting first."""
    with client_of(url, key) as client:
        if pause_id:
            _show_one(client.get(path_of(pause_id)), as_json=as_json)
            return
        filters = {"kind": kind, "workflow": workflow, "channel": channel, "thread_id": thread}
        found, are_more = _list(client, limit, status=status, **filters)
    if as_json:
        show_json(found)
    elif not found:
        screen(stderr=True).print("There is none.")
    else:
        screen().print(listing(found))
    if are_more:
        screen(stderr=True).print(f"There are more than {limit}: --limit {limit * 2}")


def _list(client: Client, limit: int, **filters: object) -> tuple[list[Json], bool]:
    """The first pauses, and whether there are more."""
    found: list[Json] = []
    cursor = None
    while len(found) <= limit:
        page = client.get("/pauses", limit=_MOST_AT_ONCE, cursor=cursor, **filters)
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    return found[:limit], len(found) > limit


def _show_one(pause: Json, *, as_json: bool) -> None:
    if as_json:
        show_json(pause)
        return
    screen().print(question(pause), Text(), outcome(pause), sep="\n")
    if pause["status"] == "open":
        screen().print(how_to_decide(pause))
