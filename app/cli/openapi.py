"""`signoff openapi`: the API as a document."""

import typer

from app.api import document

command = typer.Typer(add_completion=False)


@command.command()
def openapi() -> None:
    """Prints the OpenAPI document."""
    typer.echo(document(), nl=False)
