"""`signoff migrate`: brings the database up to date."""

import typer

from app.cli.process import run
from app.main import configure_logging, database_of
from app.settings import Settings
from app.storage.migrate import migrate as bring_up_to_date

command = typer.Typer(add_completion=False)


@command.command()
def migrate() -> None:
    """Brings the database to the newest migration; safe to run by several at once."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    run(_migrate(settings))
    typer.echo("The database is up to date.")


async def _migrate(settings: Settings) -> None:
    async with database_of(settings) as url:
        await bring_up_to_date(url)
