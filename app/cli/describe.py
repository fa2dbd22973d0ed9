"""`signoff describe`: what a workflow consists of, and where, whom and what it asks."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.client import Key, client_of
from app.cli.exits import CommandFailed
from app.cli.outline import outline
from app.cli.screen import screen, show_json
from app.main import load_workflows
from app.settings import Settings

command = typer.Typer(add_completion=False)

Json = dict[str, Any]


@command.command()
def describe(
    workflow: Annotated[
        str | None,
        typer.Argument(
            help="One that is served, or module:attribute. Without it: all that are served."
        ),
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="As a Mermaid flowchart.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Ask the service there, instead of loading workflows here.")
    ] = None,
    key: Key = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="As GET /workflows/{name} has it.")
    ] = False,
) -> None:
    """Shows what a workflow consists of, whom it asks, and where it may stop."""
    found = _served(url, key, workflow) if url else _loaded(workflow)
    if as_json:
        show_json(found[0] if workflow and len(found) == 1 else found)
    elif graph:
        typer.echo("\n".join(each["graph"] for each in found))
    else:
        screen().print(*(outline(each) for each in found), sep="\n")


def _served(url: str, key: str | None, workflow: str | None) -> list[Json]:
    """Those of a running service, in the version that new runs take."""
    with client_of(url, key) as client:
        served = client.get("/workflows")["items"]
        names = [workflow] if workflow else [each["name"] for each in served]
        return [client.get(f"/workflows/{quote(name, safe='')}") for name in names]


def _loaded(workflow: str | None) -> list[Json]:
    """Those asked for, every version of them. Needs neither a service nor a database."""
    is_reference = workflow is not None and ":" in workflow
    if is_reference and workflow:
        return [each.description() for each in load_workflows([workflow], named_by="")]
    loaded = [each.description() for each in load_workflows(Settings.read().workflows)]
    if workflow is None:
        return loaded
    found = [each for each in loaded if each["name"] == workflow]
    if not found:
        served = ", ".join(dict.fromkeys(each["name"] for each in loaded))
        raise CommandFailed(f"There is no workflow {workflow!r} here; there is: {served}.")
    return found
