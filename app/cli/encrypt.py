"""`signoff encrypt`: seals all stored true values with the first key."""

import typer

from app.cli.process import run
from app.main import configure_logging, connected
from app.settings import Settings
from app.storage.encryption import seal_anew

command = typer.Typer(add_completion=False)


@command.command()
def encrypt() -> None:
    """Encrypts what is stored with the first of SIGNOFF_ENCRYPTION_KEYS, beside running services."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    values = run(_encrypt(settings))
    typer.echo(f"{values} values were encrypted anew; no other key than the first is needed now.")


async def _encrypt(settings: Settings) -> int:
    async with connected(settings, reads_true_values=True) as database:
        return await seal_anew(database, _told)


def _told(threads: int) -> None:
    typer.echo(f"{threads} threads looked through", err=True)
