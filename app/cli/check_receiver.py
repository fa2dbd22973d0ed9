"""`signoff check-receiver`: tells a receiver good notices and bad ones, and says what it did wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import httpx
import orjson
import typer

from app.channels.signing import SigningSecret, parse_secrets
from app.cli.process import run
from app.cli.receiver.checks import Finding, check_all
from app.cli.receiver.notices import Story
from app.cli.receiver.probe import LIMIT_SECONDS, Probe
from app.cli.receiver.resume_stand_in import standing_in
from app.domain.json import Json
from app.domain.pause import PauseKind
from app.errors import SignoffError

command = typer.Typer(add_completion=False)

LINGER_SECONDS = 1.0
"""How long to wait for decisions that a receiver makes by requests of its own."""


class CannotCheck(SignoffError):
    """What is needed for a check is wrong or missing."""

    code = "cannot_check"


@command.command()
def check_receiver(
    url: Annotated[str, typer.Argument(help="Where the receiver takes notices.")],
    secret: Annotated[
        list[str] | None,
        typer.Option(
            help="Its secret, whsec_…; several where it takes several.", envvar="WEBHOOK_SECRETS"
        ),
    ] = None,
    pause: Annotated[
        Path | None,
        typer.Option(help="A JSON file with what the pause shows, so that the receiver decides."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where later decisions are awaited; the receiver must reach it.")
    ] = "127.0.0.1",
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> None:
    """Tells a receiver of webhooks good notices and bad ones, and says what it did wrong."""
    if not secret:
        raise CannotCheck("Say the receiver's secret: --secret whsec_…, or set WEBHOOK_SECRETS.")
    findings = run(_check(url, parse_secrets(secret), _shown(pause), host))
    if as_json:
        typer.echo(orjson.dumps([each.as_json() for each in findings], option=orjson.OPT_INDENT_2))
    else:
        typer.echo("\n".join(_lines(findings)))
    if any(each.wrong for each in findings):
        raise typer.Exit(1)


async def _check(
    url: str, secrets: Sequence[SigningSecret], shown: Mapping[str, Json], host: str
) -> list[Finding]:
    async with standing_in(host) as stand_in, _client() as client:
        return await check_all(
            Probe(client, url, secrets),
            lambda: Story(service=stand_in.url, shown=shown),
            stand_in.asked,
            lambda: asyncio.sleep(LINGER_SECONDS),
        )


def _client() -> httpx.AsyncClient:
    """One that never follows a redirect, as the service; how long it waits is the probe's."""
    return httpx.AsyncClient(timeout=2 * LIMIT_SECONDS, trust_env=False)


def _shown(path: Path | None) -> Mapping[str, Json]:
    """What a file says of a pause: as `GET /pauses/{id}` has it, or some members of it."""
    if path is None:
        return {}
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise CannotCheck(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise CannotCheck(f"{path} has no JSON object.")
    shown = cast("dict[str, Json]", found)
    if shown.get("kind", PauseKind.APPROVAL) not in list(PauseKind):
        raise CannotCheck(f"{path} has a kind that no pause has.")
    return shown


def _lines(findings: Sequence[Finding]) -> list[str]:
    width = max(len(each.check) for each in findings)
    lines = [
        f"{'wrong' if each.wrong else 'right'}  {each.check:<{width}}  {each.wrong or each.expected}"
        for each in findings
    ]
    wrong = sum(bool(each.wrong) for each in findings)
    lines.append(f"{len(findings) - wrong} of {len(findings)} are right.")
    if not any(each.decided for each in findings):
        lines.append("It decided nothing: --pause gives it a pause that it has an opinion on.")
    return lines
