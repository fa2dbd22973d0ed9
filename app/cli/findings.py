"""Looks at what a service needs before it is started: each with what is so, and what to do about it."""

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx

from app.authoring import Channel, Workflow
from app.channels import HttpCallbackChannel
from app.channels.address_guard import (
    LOOPBACK,
    AddressGuard,
    AddressRefused,
    SystemResolver,
    parse_networks,
)
from app.channels.signing import parse_secrets
from app.cli.durations import spoken
from app.engine.program import Program
from app.errors import SignoffError
from app.lifecycle.catalog import Catalog
from app.main import database_of, load_workflows
from app.settings import Settings, variable_part
from app.storage.checkup import Checkup, DatabaseUnusable, check_up
from app.storage.embedded import DataFolderInUse
from app.storage.migrate import Standing


class State(StrEnum):
    """How good it is."""

    FINE = "fine"
    DOUBTFUL = "doubtful"  # it works, perhaps not as wanted
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at: what is so, and what to do unless it is fine."""

    about: str
    state: State
    so: str
    do: str | None = None


def fine(about: str, so: str) -> Finding:
    """Nothing is to be done."""
    return Finding(about=about, state=State.FINE, so=so)


def doubtful(about: str, so: str, do: str) -> Finding:
    """It may be meant so."""
    return Finding(about=about, state=State.DOUBTFUL, so=so, do=do)


def wrong(about: str, so: str, do: str) -> Finding:
    """A service would not start, or would not do its work."""
    return Finding(about=about, state=State.WRONG, so=so, do=do)


# ── Workflows, and the keys of their models ──────────────────────────────────────────────────────


def read_workflows(settings: Settings) -> tuple[list[Workflow], list[Finding]]:
    """The workflows that can be served, and what there is to say of each that is named."""
    if not settings.workflows:
        do = "set SIGNOFF_WORKFLOWS to module:attribute, several with commas"
        return [], [wrong("workflows", "none is named", do)]
    loaded: list[Program] = []
    findings: list[Finding] = []
    for name in settings.workflows:
        try:
            (workflow,) = load_workflows([name])
            program = Program(workflow)
            Catalog([*loaded, program])
        except SignoffError as error:
            findings.append(wrong("workflows", error.message, f"mend {name}"))
        except Exception as error:  # noqa: BLE001 - a writer's module may raise anything
            so = f"{name} cannot be loaded: {type(error).__name__}: {error}"
            findings.append(wrong("workflows", so, "mend it"))
        else:
            loaded.append(program)
            findings.append(fine("workflows", f"{workflow.name} {workflow.version}"))
    return [each.workflow for each in loaded], findings


def look_at_models(workflows: Iterable[Workflow]) -> Iterator[Finding]:
    """Whether each model has its key in the environment. Nothing is sent anywhere."""
    named = (name for each in workflows for name in _models_in(each.description()))
    for model in sorted(set(named)):
        yield _look_at_model(model)


def _models_in(described: Any) -> Iterator[str]:
    if isinstance(described, Mapping):
        members = cast("Mapping[str, Any]", described)
        if isinstance(model := members.get("model"), str):
            yield model
        for member in members.values():
            yield from _models_in(member)
    elif isinstance(described, list):
        for item in cast("list[Any]", described):
            yield from _models_in(item)


def _look_at_model(model: str) -> Finding:
    provider, _, name = model.partition(":")
    if not name:
        return fine("models", f"{model}: brings what it needs")
    variables = _KEYS.get(provider.replace("-", "_"))
    if variables is None:
        return fine("models", f"{model}: its package looks for what it needs by itself")
    if any(os.environ.get(each) for each in variables):
        return fine("models", f"{model}: its key is set")
    return wrong("models", f"{model}: its key is missing", f"set {' or '.join(variables)}")


_KEYS: Final = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure_openai": ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    "cohere": ("COHERE_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "google_genai": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistralai": ("MISTRAL_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "perplexity": ("PPLX_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}


# ── Channels ─────────────────────────────────────────────────────────────────────────────────────


async def look_at_channels(
    settings: Settings, workflows: Iterable[Workflow]
) -> AsyncGenerator[Finding]:
    """Whether everybody who may be asked can be told. Names are resolved; nothing is sent."""
    found = {channel.name: channel for each in workflows for channel in each.channels}
    for channel in found.values():
        if isinstance(channel, HttpCallbackChannel):
            yield await _look_at_callback(settings, channel)
        else:
            yield fine("channels", f"{channel.name}: {_way_of(channel)}")


def _way_of(channel: Channel) -> str:
    return "is told by its own code" if channel.is_told else "its pauses wait in the inbox"


async def _look_at_callback(settings: Settings, channel: Channel) -> Finding:
    prefix = f"SIGNOFF_CHANNELS__{variable_part(channel.name)}"
    found = settings.channel(channel.name)
    if found is None:
        so = f"{channel.name}: has no address, its pauses wait in the inbox"
        return doubtful("channels", so, f"set {prefix}__URL")
    host = urlsplit(found.url).hostname or found.url
    try:
        parse_secrets(found.secrets)
        await _guard(settings).addresses(httpx.URL(found.url))
    except AddressRefused as error:
        do = f"correct {prefix}__URL, or name the network in SIGNOFF_ALLOWED_NETWORKS"
        return wrong("channels", f"{channel.name}: {error.message}", do)
    except (SignoffError, httpx.InvalidURL) as error:
        return wrong("channels", f"{channel.name}: {error}", f"correct what begins with {prefix}")
    if not found.secrets:
        so = f"{channel.name}: notices to {host} are not signed"
        return doubtful("channels", so, f'set {prefix}__SECRETS to ["whsec_…"]')
    return fine("channels", f"{channel.name}: signed notices to {host}")


def _guard(settings: Settings) -> AddressGuard:
    allowed = parse_networks(settings.allowed_networks)
    is_local = settings.auth is None
    return AddressGuard(
        resolver=SystemResolver(), allowed=(*allowed, *LOOPBACK) if is_local else allowed
    )


# ── The database, and the clock ──────────────────────────────────────────────────────────────────


async def look_at_database(settings: Settings) -> list[Finding]:
    """Whether the database can be used, has the tables of this release, and agrees on the time."""
    where = _place_of(settings)
    if not settings.database_url and not settings.data_dir.exists():
        return [_no_data_yet(settings)]
    try:
        async with database_of(settings) as url:
            found = await check_up(url)
    except DataFolderInUse as error:
        return [fine("database", f"{error.message.partition(':')[0]}: it sees to it")]
    except DatabaseUnusable as error:
        do = "start it, or correct DATABASE_URL"
        return [wrong("database", f"{where}: {error.message}", do)]
    except SignoffError as error:
        return [wrong("database", error.message, "correct SIGNOFF_DATA_DIR, or set DATABASE_URL")]
    so = f"Postgres {found.postgres} {where}, {found.round_trip * 1000:.0f} ms"
    return [fine("database", so), _look_at_tables(settings, found), look_at_clock(found)]


def _place_of(settings: Settings) -> str:
    """Where the database is, without who goes there and by which password."""
    if not settings.database_url:
        return f"of the service's own, in {settings.data_dir}"
    parts = urlsplit(settings.database_url)
    return f"at {parts.netloc.rpartition('@')[2]}{parts.path}"


def _no_data_yet(settings: Settings) -> Finding:
    parent = settings.data_dir.absolute().parent
    if not os.access(parent, os.W_OK):
        return wrong("database", f"{parent} cannot be written", "set SIGNOFF_DATA_DIR")
    return fine("database", f"the first start makes one in {settings.data_dir}")


def _look_at_tables(settings: Settings, found: Checkup) -> Finding:
    so = found.standing.value
    match found.standing:
        case Standing.CURRENT:
            return fine("migrations", so)
        case Standing.AHEAD:
            return wrong("migrations", so, "run that release, or a newer one")
        case _ if settings.database_url:
            return wrong("migrations", so, "run signoff migrate")
        case _:
            return fine("migrations", f"{so}; the next start runs them")


def look_at_clock(found: Checkup) -> Finding:
    """Whether this machine and the database agree on the time."""
    off = abs(found.ahead)
    if off < _CLOCK_FINE:
        return fine("clock", "agrees with the database's")
    side = "ahead of" if found.ahead > 0 else "behind"
    so = f"{spoken(off)} {side} the database's"
    if off < _CLOCK_WRONG:
        return doubtful("clock", so, "let both follow NTP")
    do = "let both follow NTP: receivers refuse notices that are minutes off"
    return wrong("clock", so, do)


_CLOCK_FINE: Final = 2.0  # seconds
_CLOCK_WRONG: Final = 120.0
