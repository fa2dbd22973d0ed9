"""`signoff audit`: proves the chains of the audit, and writes them out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.cli.process import run
from app.errors import SignoffError
from app.lifecycle.audit import Chain, Head, Verified, ends_of, exported
from app.lifecycle.audit import verify as verify_chains
from app.main import configure_logging, connected
from app.settings import Settings

command = typer.Typer(add_completion=False, no_args_is_help=True)

_Tenant = Annotated[str | None, typer.Option(help="Only what belongs to this tenant.")]
_Thread = Annotated[str | None, typer.Option(help="Only what belongs to this thread.")]


class NoExport(SignoffError):
    """The file cannot be read as an export of the audit."""

    code = "no_export"


@command.callback()
def audit() -> None:
    """Proves the chains of the audit, and writes them out."""


@command.command()
def verify(
    tenant: _Tenant = None,
    thread: _Thread = None,
    against: Annotated[
        Path | None, typer.Option(help="An earlier export that must still be true.")
    ] = None,
) -> None:
    """Works every hash out again; ends with exit code 1 where a row was changed, moved, removed or added."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    earlier = _read(against) if against else None
    found = run(_verify(settings, tenant, thread, earlier))
    for fault in found.faults:
        typer.echo(f"{fault.tenant}: {fault.thread_id or 'what is of no thread'}: {fault.what}")
    if found.faults:
        typer.echo(f"The audit is not whole: {len(found.faults)} faults.", err=True)
        raise typer.Exit(1)
    typer.echo(f"The audit is whole: {found.rows} rows in {found.chains} chains.")


@command.command()
def export(tenant: _Tenant = None, thread: _Thread = None) -> None:
    """Prints every row as a line of JSON, in the order of its chain."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    run(_export(settings, tenant, thread))


async def _verify(
    settings: Settings,
    tenant: str | None,
    thread_id: str | None,
    earlier: Mapping[Chain, Head] | None,
) -> Verified:
    async with connected(settings) as database:
        return await verify_chains(database, tenant=tenant, thread_id=thread_id, earlier=earlier)


async def _export(settings: Settings, tenant: str | None, thread_id: str | None) -> None:
    async with connected(settings) as database:
        async for line in exported(database, tenant=tenant, thread_id=thread_id):
            typer.echo(line)


def _read(path: Path) -> dict[Chain, Head]:
    try:
        with path.open(encoding="utf-8") as lines:
            return ends_of(lines)
    except (OSError, ValueError) as error:
        raise NoExport(f"{path} cannot be read as an export: {error}.") from error
