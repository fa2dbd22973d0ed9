"""`signoff doctor`: looks at all that a service needs, and says what to do where something is amiss."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from app.cli.client import Key, client_of
from app.cli.exits import CommandFailed, ExitCode
from app.cli.findings import (
    Finding,
    State,
    fine,
    look_at_channels,
    look_at_database,
    look_at_models,
    read_workflows,
    wrong,
)
from app.cli.process import run
from app.cli.screen import progress, screen, show_json, shown
from app.settings import Settings, WrongSetting

command = typer.Typer(add_completion=False)


@command.command()
def doctor(
    url: Annotated[
        str | None, typer.Option(envvar="SIGNOFF_URL", help="Look at a service that runs, too.")
    ] = None,
    key: Key = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Looks at database, migrations, channels, clock and model keys, and says what to do about them."""
    with progress("Looking"):
        findings = run(_look())
        if url:
            findings.append(_look_at_service(url, key))
    if as_json:
        show_json([asdict(each) for each in findings])
    else:
        screen().print(_table(findings))
    if any(each.state is State.WRONG for each in findings):
        raise typer.Exit(ExitCode.FAILED)


async def _look() -> list[Finding]:
    try:
        settings = Settings.read()
    except WrongSetting as error:
        return [wrong("settings", error.message, "correct it; docs/operating.md has them all")]
    workflows, findings = read_workflows(settings)
    return [
        fine("settings", "can be read"),
        *await look_at_database(settings),
        *findings,
        *[each async for each in look_at_channels(settings, workflows)],
        *look_at_models(workflows),
    ]


def _look_at_service(url: str, key: str | None) -> Finding:
    try:
        with client_of(url, key) as client:
            client.get("/readyz")
    except CommandFailed as error:
        return wrong("service", error.message, "look at its log")
    return fine("service", f"ready at {url}")


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    last = None
    for each in findings:
        sign, style = _SIGNS[each.state]
        about = each.about if each.about != last else ""
        table.add_row(shown(sign, style), shown(about, "bold"), shown(each.so))
        if each.do:
            table.add_row("", "", shown(f"→ {each.do}", style))
        last = each.about
    return table


_SIGNS = {State.FINE: ("✓", "green"), State.DOUBTFUL: ("!", "yellow"), State.WRONG: ("✗", "red")}
