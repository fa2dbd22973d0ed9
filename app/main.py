"""The composition root: puts a process together from its settings, and takes it apart again."""

import asyncio
import importlib
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

from app import api, inbox
from app.api.tokens import Issuer, Tokens
from app.authoring import Workflow
from app.channels import HttpCallbackChannel
from app.channels.address_guard import (
    LOOPBACK,
    AddressGuard,
    AddressRefused,
    SystemResolver,
    guarded_client,
    parse_networks,
)
from app.channels.notifier import Notifier
from app.channels.signing import BadSecret, SigningSecret, parse_secrets
from app.channels.webhook import Endpoint, WebhookSender
from app.domain.ids import new_worker_id
from app.domain.ledger import Price
from app.domain.principal import Scope
from app.engine.models import Prices
from app.engine.program import Program
from app.errors import SignoffError
from app.lifecycle import api_keys
from app.lifecycle.catalog import Catalog
from app.lifecycle.following import Followers
from app.lifecycle.hands import Hands
from app.lifecycle.replies import Replies
from app.lifecycle.site import Site
from app.settings import PriceSettings, Settings, WrongSetting, is_loopback, variable_part
from app.storage.database import Database, StoreUnavailable
from app.storage.embedded import EmbeddedPostgres
from app.storage.encryption import admit
from app.storage.hints import Hints
from app.storage.migrate import migrate
from app.storage.sealing import BadKey, Vault, parse_keys
from app.watching import logs
from app.watching.metrics import Metrics
from app.watching.traces import Traces, exporters_named
from app.worker import Worker

log = logging.getLogger(__name__)

configure_logging = logs.configure


class AsksForKeys(SignoffError):
    """A database in which keys say who may decide is not opened past them."""

    code = "asks_for_keys"


@dataclass(frozen=True, kw_only=True)
class Role:
    """What a process does beside reading: whether it works, and where it listens, if it does."""

    works: bool = True
    base_url: str = ""
    host: str | None = None
    is_private: bool = False
    """Whether it is there for one account alone, which it does not ask for a key."""

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host is not None and is_loopback(self.host)


@asynccontextmanager
async def running(
    settings: Settings,
    role: Role,
    stopping: asyncio.Event,
    *,
    programs: Sequence[Program] | None = None,
) -> AsyncGenerator[Site]:
    """A process of the service, from its database to its worker, which drains once `stopping` is set.

    It serves `programs`, or else what the settings name. At the end everything is drained and closed.
    """
    if programs is None:
        prices = _prices(settings)
        workflows = load_workflows(settings.workflows)
        programs = [Program(each, prices=prices) for each in workflows]
    async with AsyncExitStack() as ending:
        for program in programs:
            ending.push_async_callback(program.aclose)
        database = await _database(settings, ending)
        if not await admit(database):
            await _keep(_admit_later(database), ending)
        is_open = await _is_open(settings, role, database)
        endpoints, unaddressed = _endpoints(settings, programs, is_open=is_open)
        guard = _guard(settings, loopback=is_open and role.is_on_loopback)
        await _keep(_warn_of_addresses(guard, endpoints), ending)
        hints = Hints(database)
        site = Site(
            database=database,
            catalog=Catalog(programs, unaddressed=unaddressed),
            hands=Hands(new_worker_id(), settings.worker_concurrency),
            followers=Followers(database, hints.tell),
            notifier=_notifier(settings, endpoints, guard, ending),
            base_url=settings.base_url or role.base_url,
            lease_seconds=settings.lease_seconds,
            is_open=is_open,
            metrics=Metrics(version("signoff")),
            traces=await traces(ending),
            replies=Replies(_secrets("SIGNOFF_REPLY_SECRETS", settings.reply_secrets)),
            tell_others=hints.tell,
        )
        await _keep(_leave(site, stopping), ending)
        await _keep(hints.send(), ending)
        await _keep(hints.hear(site.hear), ending)
        await _answer_watchers(site, settings, ending)
        if role.works:
            await _work(site, settings, stopping, ending)
        yield site


def application(
    site: Site,
    *,
    max_body_bytes: int = api.MAX_BODY_BYTES,
    max_header_bytes: int = api.MAX_HEADER_BYTES,
    limits: api.Limits = api.NO_LIMITS,
    cors_origins: Sequence[str] = (),
    tokens: Tokens | None = None,
    heartbeat_seconds: float = api.HEARTBEAT_SECONDS,
) -> FastAPI:
    """What a process serves over HTTP: the API over a site, and the inbox beside it."""
    served = api.application(
        site,
        max_body_bytes=max_body_bytes,
        max_header_bytes=max_header_bytes,
        limits=limits,
        cors_origins=cors_origins,
        tokens=tokens,
        heartbeat_seconds=heartbeat_seconds,
    )
    served.include_router(inbox.page(), prefix="/inbox")
    return served


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncGenerator[str]:
    """The address of the database: the one that is set, else an embedded server for as long as this lasts."""
    if settings.database_url:
        yield settings.database_url
        return
    server = await EmbeddedPostgres.start(settings.data_dir)
    try:
        yield server.url
    finally:
        await server.stop()


@asynccontextmanager
async def connected(
    settings: Settings, *, reads_true_values: bool = False
) -> AsyncGenerator[Database]:
    """The database, for a command that is done soon; also the embedded one of a service that runs.

    One that reads true values has to have their keys.
    """
    running_here = None if settings.database_url else EmbeddedPostgres.url_in(settings.data_dir)
    if running_here:
        settings = settings.model_copy(update={"database_url": running_here})
    async with AsyncExitStack() as ending:
        database = await _database(settings, ending)
        if reads_true_values:
            await admit(database)
        yield database


def tokens_of(settings: Settings) -> Tokens | None:
    """Who knows the holders of tokens, if an issuer is set. Raises `WrongSetting`."""
    if settings.jwt is None:
        return None
    if settings.auth != "keys":
        raise WrongSetting("SIGNOFF_JWT__ISSUER: tokens are looked at with SIGNOFF_AUTH=keys only.")
    try:
        scopes = frozenset(Scope(each) for each in settings.jwt.scopes)
    except ValueError:
        known = ", ".join(Scope)
        raise WrongSetting(f"SIGNOFF_JWT__SCOPES: known scopes are {known}.") from None
    said = settings.jwt.model_dump(exclude={"scopes", "algorithms"})
    return Tokens(Issuer(**said, algorithms=tuple(settings.jwt.algorithms), scopes=scopes))


async def _is_open(settings: Settings, role: Role, database: Database) -> bool:
    """Whether nobody is asked who they are: as the settings say, else as long as no key was ever made.

    Nobody serves an open service to a network without saying so.
    """
    is_open = await _is_nobody_asked(settings, database)
    if is_open is False and role.is_private:
        raise AsksForKeys(
            "The service of this database asks for keys, so that who decides is known: talk to it, with "
            "--url and --key."
        )
    if is_open is not None:
        return is_open
    if role.host is not None and not role.is_on_loopback:
        raise WrongSetting(
            f"Listening on {role.host} would let everybody who reaches it start and decide runs: listen on "
            "127.0.0.1, or ask for keys (SIGNOFF_AUTH=keys, signoff keys create), or set SIGNOFF_AUTH=off "
            "if something in front of it keeps watch."
        )
    return True


async def _is_nobody_asked(settings: Settings, database: Database) -> bool | None:
    """What is said of that; None where nothing is, and there is no key."""
    if settings.auth is not None:
        return settings.auth == "off"
    return False if await api_keys.is_any(database) else None


async def _database(settings: Settings, ending: AsyncExitStack) -> Database:
    url = await ending.enter_async_context(database_of(settings))
    if not settings.database_url:
        await migrate(url)
    database = await Database.connect(
        url,
        size=settings.database_pool_size,
        prepared_statements=settings.prepared_statements,
        vault=_vault(settings),
    )
    ending.push_async_callback(database.close)
    return database


def _vault(settings: Settings) -> Vault:
    try:
        return Vault(parse_keys(settings.encryption_keys))
    except BadKey as error:
        raise WrongSetting(f"SIGNOFF_ENCRYPTION_KEYS: {error.message}.") from None


async def _admit_later(database: Database) -> None:
    """Notes the key once there are tables; nothing can be stored before."""
    is_noted = False
    while not is_noted:
        await asyncio.sleep(0.5)
        with suppress(StoreUnavailable):
            is_noted = await admit(database)


def _guard(settings: Settings, *, loopback: bool) -> AddressGuard:
    networks = parse_networks(settings.allowed_networks)
    if loopback:
        networks = (*networks, *LOOPBACK)
    return AddressGuard(resolver=SystemResolver(), allowed=networks)


async def _warn_of_addresses(guard: AddressGuard, endpoints: Mapping[str, Endpoint]) -> None:
    """Says beside the start which channels cannot be told as things are: a name may take long to resolve."""
    for channel, endpoint in endpoints.items():
        try:
            await guard.addresses(httpx.URL(endpoint.url))
        except (AddressRefused, httpx.InvalidURL) as error:
            log.warning(
                "channel cannot be told: its address is refused",
                extra={
                    "channel": channel,
                    "reason": str(error),
                    "setting": "SIGNOFF_ALLOWED_NETWORKS",
                },
            )


def _notifier(
    settings: Settings,
    endpoints: dict[str, Endpoint],
    guard: AddressGuard,
    ending: AsyncExitStack,
) -> Notifier:
    client = guarded_client(guard)
    ending.push_async_callback(client.aclose)
    secrets = _secrets("SIGNOFF_SECRETS", settings.secrets)
    return Notifier(endpoints, WebhookSender(client), secrets=secrets)


def _secrets(setting: str, texts: Sequence[str]) -> tuple[SigningSecret, ...]:
    try:
        return parse_secrets(texts)
    except BadSecret as error:
        raise WrongSetting(f"{setting}: {error.message}") from None


def _endpoints(
    settings: Settings, programs: Sequence[Program], *, is_open: bool
) -> tuple[dict[str, Endpoint], frozenset[str]]:
    """The addresses of the callback channels in use, and the channels that have none.

    Raises `WrongSetting` for the latter where the service is not open: somebody counts on being told.
    """
    endpoints: dict[str, Endpoint] = {}
    unaddressed: set[str] = set()
    for program in programs:
        for channel in program.channels.values():
            if not isinstance(channel, HttpCallbackChannel):
                continue
            prefix = f"SIGNOFF_CHANNELS__{variable_part(channel.name)}"
            if found := settings.channel(channel.name):
                secrets = _secrets(f"{prefix}__SECRETS", found.secrets)
                if not secrets and channel.name not in endpoints:
                    log.warning(
                        "channel has no secrets: its notices are not signed",
                        extra={"channel": channel.name, "setting": f"{prefix}__SECRETS"},
                    )
                endpoints[channel.name] = Endpoint(url=found.url, secrets=secrets)
            elif not is_open:
                raise WrongSetting(
                    f"The channel {channel.name!r} has no address: set {prefix}__URL. "
                    "A service that asks for keys does not start without."
                )
            elif channel.name not in unaddressed:
                unaddressed.add(channel.name)
                log.warning(
                    "channel has no address: its pauses wait in the inbox",
                    extra={"channel": channel.name, "setting": f"{prefix}__URL"},
                )
    return endpoints, frozenset(unaddressed)


async def traces(ending: AsyncExitStack) -> Traces:
    """The traces that OpenTelemetry's variables ask for. What keeps them from being made stops nothing."""
    exporters = exporters_named(os.environ)
    if not exporters:
        return Traces()
    try:
        from app.watching import otel  # noqa: PLC0415 - what it needs is an extra
    except ModuleNotFoundError as error:
        _warn_of_traces(f"{error.name} is not installed", "pip install 'signoff[otel]'")
        return Traces()
    try:
        kept = otel.keeping(exporters, version("signoff"))
    except otel.CannotTrace as error:
        _warn_of_traces(str(error), "see OTEL_TRACES_EXPORTER")
        return Traces()
    ending.push_async_callback(kept.aclose)
    return Traces(kept.tracer)


def _warn_of_traces(reason: str, to_do: str) -> None:
    log.warning("traces are not kept", extra={"reason": reason, "to_do": to_do})


def _prices(settings: Settings) -> Prices:
    return Prices(
        table={
            name: Price(**each.model_dump()) if isinstance(each, PriceSettings) else each
            for name, each in settings.prices.items()
        }
    )


async def _answer_watchers(site: Site, settings: Settings, ending: AsyncExitStack) -> None:
    """Serves what tells how the process is on a port of its own, if there is one, until everything is drained."""
    if settings.metrics_port is None:
        return
    where = f"{settings.metrics_host}:{settings.metrics_port}"
    try:
        family = socket.AF_INET6 if ":" in settings.metrics_host else socket.AF_INET
        address = (settings.metrics_host, settings.metrics_port)
        listening = socket.create_server(address, family=family)
    except OSError as error:
        raise WrongSetting(
            f"SIGNOFF_METRICS_PORT: cannot listen on {where}: {error.strerror}"
        ) from error
    ending.callback(listening.close)
    config = uvicorn.Config(
        api.watched(site), log_config=None, access_log=False, server_header=False, lifespan="off"
    )
    await _keep(_Watched(config).serve(sockets=[listening]), ending)


class _Watched(uvicorn.Server):
    """Leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _work(
    site: Site, settings: Settings, stopping: asyncio.Event, ending: AsyncExitStack
) -> None:
    days = settings.retention_days
    worker = Worker(
        site,
        drain_seconds=settings.drain_seconds,
        forgets_after=timedelta(days=days) if days else None,
    )
    task = asyncio.create_task(worker.run(stopping), name="worker")

    async def stop() -> None:
        stopping.set()
        await task

    ending.push_async_callback(stop)


async def _leave(site: Site, stopping: asyncio.Event) -> None:
    """Lets those go who follow something from here: they go on elsewhere, where they left off."""
    await stopping.wait()
    site.followers.close()


async def _keep(coroutine: Coroutine[None, None, None], ending: AsyncExitStack) -> None:
    task = asyncio.create_task(coroutine)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    ending.push_async_callback(stop)


def load_workflows(
    names: Sequence[str], *, named_by: str = "SIGNOFF_WORKFLOWS: "
) -> list[Workflow]:
    """The workflows named `module:attribute`; modules are looked for from the working folder on.

    What is wrong with a name is said of `named_by`.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not names:
        raise WrongSetting(
            "SIGNOFF_WORKFLOWS names no workflow: set it to module:attribute, several with commas."
        )
    return [_load_workflow(name, named_by) for name in names]


def _load_workflow(name: str, named_by: str) -> Workflow:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise WrongSetting(f"{named_by}{name!r} cannot be loaded: {error}") from error
    if not isinstance(found, Workflow):
        raise WrongSetting(f"{named_by}{name!r} is no Workflow.")
    return found
