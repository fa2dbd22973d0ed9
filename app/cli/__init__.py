"""The command line: `signoff serve`, `worker`, `migrate`, `openapi`."""

import asyncio
import signal
import socket
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
import uvicorn
import uvloop

from app.api import document
from app.errors import SignoffError
from app.main import Role, application, check_open, configure_logging, database_of, running
from app.settings import Settings, is_loopback
from app.storage.migrate import migrate as bring_up_to_date

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


def main() -> None:
    """What the `signoff` script runs: an error that has a name is one line and exit code 1."""
    try:
        app()
    except SignoffError as error:
        _stop(error.message)


@app.command()
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
    _run(_serve(settings, role, listening))


@app.command()
def worker() -> None:
    """Runs workflows without serving HTTP, over the same database."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    _run(_work(settings))


@app.command()
def migrate() -> None:
    """Brings the database to the newest migration; safe to run by several at once."""
    settings = Settings.read()
    configure_logging(settings.log_level)
    _run(_migrate(settings))
    typer.echo("The database is up to date.")


@app.command()
def openapi() -> None:
    """Prints the OpenAPI document."""
    typer.echo(document(), nl=False)


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
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        server = _Server(config)
        _on_stop(stopping, server)
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


def _on_stop(stopping: asyncio.Event, server: uvicorn.Server | None = None) -> None:
    """At SIGTERM and SIGINT worker and server begin to drain, side by side; a second one waits for nobody."""

    def stop() -> None:
        if server:
            server.force_exit = server.should_exit
            server.should_exit = True
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


async def _work(settings: Settings) -> None:
    stopping = asyncio.Event()
    _on_stop(stopping)
    async with running(settings, Role(), stopping) as site:
        typer.echo(f"Working as {site.hands.worker}.")
        await stopping.wait()


async def _migrate(settings: Settings) -> None:
    async with database_of(settings) as url:
        await bring_up_to_date(url)


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def _listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything else starts, so that a busy one is one clear line."""
    try:
        return socket.create_server((host, port), family=_family(host), backlog=2048)
    except OSError as error:
        _stop(f"Cannot listen on {host}:{port}: {error.strerror}. Another one: --port 8001")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _stop(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(1)


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
