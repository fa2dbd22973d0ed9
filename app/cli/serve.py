"""`signoff serve`: the API and the inbox on a port, with a worker beside them."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer
import uvicorn

from app.api import Limits
from app.cli.keys import MAKE_A_KEY
from app.cli.process import on_stop, run, settle
from app.errors import SignoffError
from app.lifecycle.site import Site
from app.main import Role, application, configure_logging, running, tokens_of
from app.settings import Settings

command = typer.Typer(add_completion=False)


class CannotListen(SignoffError):
    """The address is taken, or is none of this machine's."""

    code = "cannot_listen"


@command.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    worker: Annotated[bool, typer.Option(help="Run workflows in this process too.")] = True,
) -> None:
    """Serves the HTTP API, and runs workflows unless told not to."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    listening = _listen(host, port)
    base_url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104 - compared
    role = Role(works=worker, base_url=base_url, host=host)
    run(_serve(settings, role, listening))


async def _serve(settings: Settings, role: Role, listening: socket.socket) -> None:
    stopping = asyncio.Event()
    async with running(settings, role, stopping) as site:
        config = uvicorn.Config(
            application(
                site,
                max_body_bytes=settings.max_body_bytes,
                max_header_bytes=settings.max_header_bytes,
                limits=Limits(
                    requests_per_minute=settings.requests_per_minute,
                    runs_per_hour=settings.runs_per_hour,
                    requests_at_once=settings.requests_at_once,
                ),
                cors_origins=settings.cors_origins,
                tokens=tokens_of(settings),
            ),
            log_config=None,
            access_log=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        server = _Server(config)
        on_stop(lambda: _drain(server, stopping))
        typer.echo(_welcome(site, role, [each.name for each in site.catalog.latest]))
        settle()
        await server.serve(sockets=[listening])


_KEEP_ALIVE_SECONDS = 75
"""Longer than clients and load balancers keep an idle connection: where the server is the first to close one, a
request that is just being sent is lost."""


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn's own handling ends the process by the same signal, before it has drained."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _drain(server: uvicorn.Server, stopping: asyncio.Event) -> None:
    """Worker and server begin to drain, side by side; told a second time, the server waits for nobody."""
    server.force_exit = server.should_exit
    server.should_exit = True
    stopping.set()


def _listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything else starts, so that a busy one is one clear line."""
    try:
        return socket.create_server((host, port), family=_family(host), backlog=2048)
    except OSError as error:
        raise CannotListen(
            f"Cannot listen on {host}:{port}: {error.strerror}. Another one: --port 8001, or make run PORT=8001"
        ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _welcome(site: Site, role: Role, workflows: list[str]) -> str:
    base_url = site.base_url
    lines = [f"Signoff serves {', '.join(workflows)} on {base_url}; the inbox is {base_url}/inbox"]
    lines.append(_who_may(site, role))
    if site.is_open and "errands" in workflows:
        lines += [
            "Try it:",
            f"  curl -s {base_url}/threads/first/runs -H 'content-type: application/json' -d "
            '\'{"workflow": "errands", "input": {"text": "ask for a day off"}, '
            '"if_not_exists": "create"}\'',
            f"  curl -s '{base_url}/pauses?status=open'",
            f"  curl -s {base_url}/threads/first/resume -H 'content-type: application/json' -d "
            '\'{"pause_id": "PAUSE_ID", "decision": {"approved": true, "by": "me"}}\'',
        ]
    return "\n".join(lines)


def _who_may(site: Site, role: Role) -> str:
    if not site.is_open:
        return f"It asks for keys; make one with: {MAKE_A_KEY}"
    reached = "this machine's loopback" if role.is_on_loopback else "it"
    return (
        f"It is open: whoever reaches {reached} may start and decide runs, in any name; approvers "
        "and groups are not checked."
    )
