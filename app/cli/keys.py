"""`signoff keys`: makes keys, lists them, revokes them."""

import re
from datetime import timedelta
from typing import Annotated, Final

import typer
from rich.table import Table

from app.cli.process import run
from app.cli.screen import screen, shown
from app.domain.ids import DEFAULT_TENANT, TenantId
from app.domain.principal import Scope
from app.lifecycle import api_keys
from app.lifecycle.api_keys import ListedKey, MadeKey, NewKey, WrongKey
from app.main import configure_logging, connected
from app.settings import Settings

command = typer.Typer(add_completion=False, no_args_is_help=True)

MAKE_A_KEY: Final = "signoff keys create --name NAME --scopes runs:read,runs:write,decisions:write"
"""A command that makes a key for somebody who starts runs and decides."""

_Tenant = Annotated[str, typer.Option(help="Whose rows the key is for.")]
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([mhd])")


@command.callback()
def keys() -> None:
    """Makes keys, lists them, revokes them."""


@command.command()
def create(
    name: Annotated[str, typer.Option(help="The holder's, as approvers and deciders are named.")],
    scopes: Annotated[str, typer.Option(help=f"With commas: {', '.join(Scope)}.")],
    tenant: _Tenant = DEFAULT_TENANT,
    groups: Annotated[str, typer.Option(help="With commas.")] = "",
    expires_in: Annotated[
        str | None, typer.Option(help="As 30d, 12h or 15m; otherwise it is good until revoked.")
    ] = None,
) -> None:
    """Makes a key and prints it: the only time that anybody sees it."""
    new = NewKey(
        name=name,
        tenant=TenantId(tenant),
        groups=tuple(_listed(groups)),
        scopes=tuple(_scope(each) for each in _listed(scopes)),
        expires_in=_duration(expires_in) if expires_in else None,
    )
    made = run(_create(_settings(), new))
    until = made.listed.expires_at
    end = f"until {until:%Y-%m-%d %H:%M} UTC" if until else "until it is revoked"
    typer.echo(f"{made.listed.key.id} of {name}, good {end}. It is not shown again:", err=True)
    typer.echo(made.secret)


@command.command("list")
def list_keys() -> None:
    """Lists the keys of all tenants, without their secrets."""
    found = run(_list(_settings()))
    if not found:
        typer.echo(f"There is none. Make one with: {MAKE_A_KEY}", err=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("id", "tenant", "name", "groups", "scopes", "state"):
        table.add_column(name, overflow="fold")
    for each in found:
        table.add_row(*(shown(column) for column in _columns(each)))
    screen().print(table)


@command.command()
def revoke(
    name: str,
    tenant: _Tenant = DEFAULT_TENANT,
    key_id: Annotated[
        str | None, typer.Option("--id", help="One key of several of that name.")
    ] = None,
) -> None:
    """Revokes the keys of a name: processes refuse them within 5 seconds."""
    for each in run(_revoke(_settings(), TenantId(tenant), name, key_id)):
        typer.echo(f"{each} is revoked.")


def _settings() -> Settings:
    settings = Settings.read()
    configure_logging(settings.log_level)
    return settings


async def _create(settings: Settings, new: NewKey) -> MadeKey:
    async with connected(settings) as database:
        return await api_keys.create(database, new)


async def _list(settings: Settings) -> list[ListedKey]:
    async with connected(settings) as database:
        return await api_keys.listed(database)


async def _revoke(settings: Settings, tenant: TenantId, name: str, key_id: str | None) -> list[str]:
    async with connected(settings) as database:
        return list(await api_keys.revoke(database, tenant, name, key_id=key_id))


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        raise WrongKey(f"There is no scope {text!r}; known are {', '.join(Scope)}.") from None


def _duration(text: str) -> timedelta:
    if match := _DURATION.fullmatch(text):
        return int(match[1]) * _UNITS[match[2]]
    raise WrongKey(f"{text!r} is no duration: write 30d, 12h or 15m.")


def _columns(listed: ListedKey) -> list[str]:
    key = listed.key
    return [
        key.id,
        key.tenant,
        key.name,
        ",".join(key.groups) or "-",
        ",".join(key.scopes),
        _state(listed),
    ]


def _state(listed: ListedKey) -> str:
    if listed.revoked_at is not None:
        return f"revoked {listed.revoked_at:%Y-%m-%d %H:%M} UTC"
    if listed.expires_at is None:
        return "good"
    return (
        f"{'expired' if listed.is_expired else 'good until'} {listed.expires_at:%Y-%m-%d %H:%M} UTC"
    )
