"""A service inside a command, for as long as it lasts, that nobody else can reach.

It listens on a socket in a folder that only this account may enter, so it asks for no key. Where keys say who may
decide it does not start. The command talks to it as to any other; whatever waits in its database afterwards waits
for the next service.
"""

import asyncio
import tempfile
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from app.cli.process import run
from app.main import Role, application, running
from app.settings import Settings

ADDRESS = "http://signoff"
"""What stands in its requests for a host; nobody resolves it."""

_ROLE = Role(host="127.0.0.1", is_private=True)

_DRAIN_SECONDS = 2.0
"""What is under way goes on from its last checkpoint with the next service, so a command does not wait for it."""


@contextmanager
def own_service(settings: Settings) -> Generator[httpx.BaseTransport]:
    """The way to a service with these settings, once it is ready. Raises what keeps it from starting."""
    with tempfile.TemporaryDirectory(prefix="signoff-") as folder:
        inside = _Inside(_private(settings), Path(folder, "service.sock"))
        inside.start()
        try:
            with httpx.HTTPTransport(uds=str(inside.path)) as transport:
                yield transport
        finally:
            inside.stop()


def _private(settings: Settings) -> Settings:
    drain = min(settings.drain_seconds, _DRAIN_SECONDS)
    return settings.model_copy(update={"drain_seconds": drain})


class _Inside:
    """The service, on a thread of its own."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self.path = path
        self._settings = settings
        self._stop: Future[None] = Future()
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="service")

    def start(self) -> None:
        """Returns when it takes requests. Raises what keeps it from that."""
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Returns when everything is put down."""
        if not self._stop.done():
            self._stop.set_result(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised where the service is waited for
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        stopping = asyncio.Event()
        async with running(self._settings, _ROLE, stopping) as site:
            config = uvicorn.Config(
                application(site, max_body_bytes=self._settings.max_body_bytes),
                uds=str(self.path),
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=int(_DRAIN_SECONDS),
            )
            server = uvicorn.Server(config)
            serving = asyncio.create_task(
                server.serve()
            )  # off the main thread, it leaves signals alone
            watching = asyncio.create_task(self._say_when_ready(server))
            await asyncio.wrap_future(self._stop)
            stopping.set()
            server.should_exit = True
            await serving
            watching.cancel()

    async def _say_when_ready(self, server: uvicorn.Server) -> None:
        while not server.started:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)
        self._ready.set_result(None)
