"""`signoff chat`: a conversation with a workflow in the terminal, which asks there what it asks."""

import shlex
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

import httpx
import typer
from rich.text import Text

from app.cli.client import HERE, Client, Key, client_of
from app.cli.conversation import Conversation, Unfinished, only_workflow
from app.cli.exits import CommandFailed, ExitCode
from app.cli.own_service import ADDRESS, own_service
from app.cli.prompt import Left
from app.cli.screen import progress, screen, shown
from app.main import AsksForKeys, configure_logging
from app.settings import Settings
from app.storage.embedded import DataFolderInUse

command = typer.Typer(add_completion=False)


@command.command()
def chat(
    workflow: Annotated[
        str | None, typer.Argument(help="One that is served, or module:attribute.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option(help="The conversation to go on with; made if there is none.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(envvar="SIGNOFF_URL", help="A service that runs, instead of one of its own."),
    ] = None,
    key: Key = None,
) -> None:
    """Has a conversation with a workflow, and asks in the terminal what the workflow asks."""
    try:
        with client_of(url, key) if url else _own(workflow) as client:
            is_reference = workflow is not None and ":" in workflow
            described = only_workflow(client, None if is_reference else workflow)
            name = f"{described['name']} {described['version']}"
            screen().print(shown(f"{name} · Ctrl-D leaves", "dim"))
            conversation = Conversation(client=client, workflow=described, thread=thread)
            ended = _talk(conversation, _Ways(workflow=workflow or described["name"], url=url))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(ended)


@contextmanager
def _own(workflow: str | None) -> Generator[Client]:
    """A client of a service of this command's own, over the database and workflows of the settings."""
    settings = Settings.read()
    if workflow and ":" in workflow:
        settings = settings.model_copy(update={"workflows": [workflow]})
    configure_logging("ERROR")
    with ExitStack() as ending:
        with progress("Starting"):
            transport = ending.enter_context(_started(settings))
        client = ending.enter_context(client_of(ADDRESS, None, transport=transport))
        client.get("/readyz")
        yield client


@contextmanager
def _started(settings: Settings) -> Generator[httpx.BaseTransport]:
    try:
        with own_service(settings) as transport:
            yield transport
    except AsksForKeys as error:
        raise CommandFailed(error.message, exit_code=ExitCode.REFUSED) from error
    except DataFolderInUse as error:
        talk = f"talk to that service instead: --url {HERE}"
        raise CommandFailed(f"{error.message.rstrip('.')}; or {talk}") from error


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """How to go on with a conversation."""

    workflow: str
    url: str | None

    def back(self, thread: str) -> str:
        """The command that goes on with it."""
        return self._command("chat", self.workflow, "--thread", thread)

    def decision(self, pause_id: str) -> str:
        """The command that decides what it was left at."""
        return self._command("decide", pause_id)

    @property
    def needs(self) -> str:
        """What has to be there for a decision from elsewhere."""
        return "" if self.url else "  (while `signoff serve` runs)"

    def _command(self, *words: str) -> str:
        return shlex.join(["signoff", *words, *(("--url", self.url) if self.url else ())])


def _talk(conversation: Conversation, ways: _Ways) -> ExitCode:
    """The conversation up to its end, and how to go on with it."""
    try:
        conversation.talk()
    except (Left, KeyboardInterrupt) as left:
        if conversation.thread:
            screen().print(shown(f"\nGo on with: {ways.back(conversation.thread)}", "dim"))
        is_end = isinstance(left, Left) and not left.interrupted
        return ExitCode.DONE if is_end else ExitCode.INTERRUPTED
    except Unfinished as left:
        screen().print(*_left_at(left, ways), sep="\n")
        return ExitCode.INTERRUPTED if left.interrupted else ExitCode.STILL_OPEN


def _left_at(left: Unfinished, ways: _Ways) -> Generator[Text]:
    back = ways.back(left.run["thread_id"])
    if left.pause is None:
        yield shown("\nThe run is not at its end; a service goes on with it. Look again with:")
        yield shown(f"  {back}")
        return
    yield shown("\nNothing is decided: the run stays paused until somebody decides. Go on with:")
    yield shown(f"  {back}")
    yield shown("or decide it with:")
    yield shown(f"  {ways.decision(left.pause['id'])}{ways.needs}")
