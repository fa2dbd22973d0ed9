"""`signoff worker`: a process that runs workflows and serves nobody."""

import asyncio

import typer

from app.cli.process import on_stop, run, settle
from app.main import Role, configure_logging, running
from app.settings import Settings

command = typer.Typer(add_completion=False)


@command.command()
def worker() -> None:
    """Runs workflows without serving HTTP, over the same database."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    run(_work(settings))


async def _work(settings: Settings) -> None:
    stopping = asyncio.Event()
    on_stop(stopping.set)
    async with running(settings, Role(), stopping) as site:
        settle()
        typer.echo(f"Working as {site.hands.worker}.")
        await stopping.wait()
