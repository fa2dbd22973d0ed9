"""A whole service in this process: a site with its worker over a database of the test's own, and its API on a port."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from app.authoring import Workflow
from app.channels import HttpCallbackChannel
from app.channels.address_guard import LOOPBACK, AddressGuard, SystemResolver, guarded_client
from app.channels.notifier import Notifier
from app.channels.webhook import WebhookSender
from app.domain.ids import new_worker_id
from app.engine.program import Program
from app.lifecycle.catalog import Catalog
from app.lifecycle.following import Followers
from app.lifecycle.hands import Hands
from app.lifecycle.site import Site
from app.main import application
from app.storage.database import Database
from app.storage.sealing import PLAIN, Vault
from app.watching.traces import Tracer, Traces
from app.worker import Worker
from tests.pooler import IS_POOLED

Json = dict[str, Any]


@asynccontextmanager
async def site_over(
    database_url: str,
    workflows: Sequence[Workflow],
    *,
    works: bool = True,
    lease_seconds: float = 10,
    is_open: bool = True,
    tracer: Tracer | None = None,
    vault: Vault = PLAIN,
    to: type[Database] = Database,
) -> AsyncGenerator[Site]:
    """A process of the service without its API; without a worker it only takes requests."""
    programs = [Program(each) for each in workflows]
    unaddressed = frozenset(
        channel.name
        for each in workflows
        for channel in each.channels
        if isinstance(channel, HttpCallbackChannel)
    )
    database = await to.connect(database_url, vault=vault, prepared_statements=not IS_POOLED)
    client = guarded_client(AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK))
    site = Site(
        database=database,
        catalog=Catalog(programs, unaddressed=unaddressed),
        hands=Hands(new_worker_id(), 20),
        followers=Followers(database, lambda hint: None),
        notifier=Notifier({}, WebhookSender(client)),
        base_url="http://signoff.test",
        lease_seconds=lease_seconds,
        is_open=is_open,
        traces=Traces(tracer),
    )
    stopping = asyncio.Event()
    worker = asyncio.create_task(Worker(site, drain_seconds=5).run(stopping)) if works else None
    try:
        if worker:
            await asyncio.sleep(0)  # it opens its hands
        yield site
    finally:
        stopping.set()
        if worker:
            await worker
        await client.aclose()
        await database.close()


@asynccontextmanager
async def serving(site: Site, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the site's API, over real HTTP."""
    server = uvicorn.Server(
        uvicorn.Config(
            application(site, **options),
            port=0,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=75,  # longer than its client keeps a connection that nobody uses
        )
    )
    task = asyncio.create_task(server._serve())  # pyright: ignore[reportPrivateUsage]  # leaves the signals alone
    while not server.started:  # noqa: ASYNC110  # it has no event for it
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=20, verify=False
        ) as client:
            yield client
    finally:
        server.should_exit = True
        await task


@dataclass(frozen=True, kw_only=True)
class Service:
    """A site, and a client of its API."""

    site: Site
    client: httpx.AsyncClient


@asynccontextmanager
async def service(
    database_url: str,
    workflows: Sequence[Workflow],
    *,
    is_open: bool = True,
    tracer: Tracer | None = None,
    **options: Any,
) -> AsyncGenerator[Service]:
    """Both, with a worker."""
    async with (
        site_over(database_url, workflows, is_open=is_open, tracer=tracer) as site,
        serving(site, **options) as client,
    ):
        yield Service(site=site, client=client)


async def paused(client: httpx.AsyncClient, workflow: str = "errands") -> Json:
    """A run in a thread of its own that waits for a decision."""
    given: object = {"text": "late"} if workflow == "errands" else "the wall"
    thread = (await client.post("/threads")).json()["id"]
    started = await client.post(
        f"/threads/{thread}/runs", json={"workflow": workflow, "input": given}
    )
    assert started.json()["status"] == "paused", started.text
    return started.json()


async def decide(
    client: httpx.AsyncClient, run: Json, decision: object, **more: Any
) -> httpx.Response:
    """The answer to a decision about the run's open pause."""
    body = {"pause_id": run["pause"]["id"], "decision": decision}
    return await client.post(f"/threads/{run['thread_id']}/resume", json=body, **more)
