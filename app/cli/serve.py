"""`signoff serve`: the API and the inbox on a port, with a worker beside them."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer
import uvicorn

from app.cli.process import on_stop, run
from app.errors import SignoffError
from app.main import Role, application, check_open, configure_logging, running
from app.settings import Settings, is_loopback

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
    check_open(settings, host)
    configure_logging(settings.log_level)
    listening = _listen(host, port)
    base_url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104 - compared
    role = Role(works=worker, base_url=base_url, is_open_on_loopback=is_loopback(host))
    run(_serve(settings, role, listening))


async def _serve(settings: Settings, role: Role, listening: socket.socket) -> None:
    stopping = asyncio.Event()
    async with running(settings, role, stopping) as site:
        config = uvicorn.Config(
            application(
                site,
                max_body_bytes=settings.max_body_bytes,
                cors_origins=settings.cors_origins,
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
        typer.echo(_welcome(site.base_url, role, [each.name for each in site.catalog.latest]))
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
            f"Cannot listen on {host}:{port}: {error.strerror}. Another one: --port 8001"
        ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _welcome(base_url: str, role: Role, workflows: list[str]) -> str:
    lines = [f"Signoff serves {', '.join(workflows)} on {base_url}; the inbox is {base_url}/inbox"]
    if role.is_open_on_loopback:
        lines.append(
            "It is open: whoever reaches this machine's loopback may start and decide runs."
        )
    if "errands" in workflows:
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
