"""The command line: a module a command, imported when it is called for.

To import the service takes seconds, so the list of commands stands here, and `signoff --help` and a shell
that completes a word import none of them.
"""

import importlib
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.errors import SignoffError

COMMANDS = {
    "serve": "Serves the HTTP API, and runs workflows unless told not to.",
    "worker": "Runs workflows without serving HTTP, over the same database.",
    "migrate": "Brings the database to the newest migration; safe to run by several at once.",
    "describe": "Shows what a workflow consists of, whom it asks, and where it may stop.",
    "chat": "Has a conversation with a workflow, and asks in the terminal what the workflow asks.",
    "pauses": "Lists what waits for a decision, the longest waiting first.",
    "decide": "Decides a pause; asks for the decision in the terminal where none is given.",
    "doctor": "Looks at database, migrations, channels, clock and model keys, and says what to do about them.",
    "check-receiver": "Tells a receiver of webhooks good notices and bad ones, and says what it did wrong.",
    "keys": "Makes keys, lists them, revokes them.",
    "encrypt": "Encrypts what is stored with the first of SIGNOFF_ENCRYPTION_KEYS, beside running services.",
    "audit": "Proves the chains of the audit, and writes them out.",
    "openapi": "Prints the OpenAPI document.",
}
"""Each with its line in the help. The module has the name of the command, and in it a `command`."""


def main() -> None:
    """What the `signoff` script runs: an error that has a name is one line and exit code 1."""
    try:
        app(prog_name="signoff")
    except SignoffError as error:
        typer.echo(error.message, err=True)
        sys.exit(getattr(error, "exit_code", 1))


class _Commands(TyperGroup):
    """Puts the command itself in the place of its line in the help, once it is called for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and command_of(str(name)), rest


def command_of(name: str) -> Any:
    """The command of that name, imported now."""
    module = importlib.import_module(f"app.cli.{name.replace('-', '_')}")
    return typer.main.get_command(module.command)


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False
)


def _say_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"signoff {version('signoff')}")
        raise typer.Exit


@app.callback()
def _signoff(
    _: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Says which it is."),
    ] = False,
) -> None:
    """Runs agent workflows and stops them, durably, wherever a person has to decide."""


def _listed() -> None:
    """Stands in the help for a command that is not imported."""


for _name, _line in COMMANDS.items():
    app.command(_name, help=_line)(_listed)
