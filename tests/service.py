"""The service as processes: started on a database or a data folder, asked over HTTP, killed, drained."""

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson

from tests.launcher import launcher
from tests.pooler import IS_POOLED
from tests.terminal import Terminal

READY_WITHIN = 90.0
ENDED_WITHIN = 90.0

T = TypeVar("T")
Json = dict[str, Any]


class Process:
    """One `signoff` command, and what it says."""

    def __init__(self, *words: str, environment: Mapping[str, str], log: Path) -> None:
        self._out, self._err = log.with_suffix(".out"), log.with_suffix(".err")
        self._exit_code: int | None = None
        self.pid = launcher().launch(
            words,
            environment={**_outer_environment(), **environment},
            out=self._out,
            err=self._err,
        )

    @property
    def said(self) -> str:
        """Its standard output so far."""
        return self._out.read_text() if self._out.exists() else ""

    @property
    def complaints(self) -> list[str]:
        """The lines of its standard error so far."""
        return self._err.read_text().splitlines() if self._err.exists() else []

    @property
    def log(self) -> list[Json]:
        """The lines of its log so far."""
        return [orjson.loads(line) for line in self.complaints if line.startswith("{")]

    @property
    def has_ended(self) -> bool:
        if self._exit_code is None:
            self._exit_code = launcher().exit_code(self.pid)
        return self._exit_code is not None

    def kill(self) -> float:
        """Ends it as a power cut would, and says when: seconds since 1970."""
        if not self.has_ended:
            os.kill(self.pid, signal.SIGKILL)
        while not self.has_ended:
            time.sleep(0.005)
        return time.time()

    def tell_to_stop(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    async def exit_code(self) -> int:
        """How it ended, once it has."""

        async def has_ended() -> bool:
            return self.has_ended

        await until(has_ended, within=ENDED_WITHIN)
        assert self._exit_code is not None
        return self._exit_code

    async def until(self, is_ready: Callable[[], Awaitable[bool]]) -> None:
        """Returns once it is ready; fails with its last words if it ends before."""

        async def looked_at() -> bool:
            assert not self.has_ended, f"it ended: {self.complaints[-5:]}"
            return await is_ready()

        await until(looked_at, within=READY_WITHIN)


class Served(Process):
    """A `signoff serve`, and the way to speak to it."""

    def __init__(self, *options: str, port: int, environment: Mapping[str, str], log: Path) -> None:
        super().__init__("serve", "--port", str(port), *options, environment=environment, log=log)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client:

            async def answers() -> bool:
                with suppress(httpx.TransportError):
                    return (await client.get("/readyz")).is_success
                return False

            await self.until(answers)

    @asynccontextmanager
    async def api(self) -> AsyncGenerator["Api"]:
        """A caller of it, who can make many requests at once."""
        async with httpx.AsyncClient(
            base_url=self.url,
            trust_env=False,
            timeout=70,
            limits=httpx.Limits(max_connections=100),
        ) as client:
            yield Api(client)


class Processes:
    """The processes of a test on one database, or on one data folder; none of them outlives it.

    Args:
        folder: For what they say, and for their data where there is no `database_url`.
        workflows: What they serve, as `SIGNOFF_WORKFLOWS` names it.
        database_url: Their database; without one the service brings its own.
        environment: Further variables.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workflows: str,
        database_url: str | None = None,
        environment: Mapping[str, str],
    ) -> None:
        self.data = folder / "data"
        self._folder = folder
        where = {"DATABASE_URL": database_url} if database_url else {}
        if IS_POOLED:
            where["SIGNOFF_PREPARED_STATEMENTS"] = "false"
        self._environment = {
            "SIGNOFF_WORKFLOWS": workflows,
            "SIGNOFF_DATA_DIR": str(self.data),
            **where,
            **environment,
        }
        self._begun: list[Process] = []
        self._terminals: list[Terminal] = []

    async def serve(self, *options: str, port: int | None = None, **settings: object) -> Served:
        """A service that is ready. `settings` are named without `SIGNOFF_`: `lease_seconds=1`."""
        served = self.begin_serving(*options, port=port, **settings)
        await served.ready()
        return served

    def begin_serving(self, *options: str, port: int | None = None, **settings: object) -> Served:
        """A service that has just been started."""
        served = Served(
            *options,
            port=port or free_port(),
            environment=self._environment | _variables(settings),
            log=self._next_log(),
        )
        self._begun.append(served)
        return served

    async def work(self, **settings: object) -> Process:
        """A `signoff worker` that is ready."""
        environment = self._environment | _variables(settings)
        worker = Process("worker", environment=environment, log=self._next_log())
        self._begun.append(worker)

        async def is_working() -> bool:
            return "Working as" in worker.said

        await worker.until(is_working)
        return worker

    async def command(self, *words: str, **settings: object) -> Process:
        """A `signoff` command that is done."""
        environment = self._environment | _variables(settings)
        process = Process(*words, environment=environment, log=self._next_log())
        self._begun.append(process)
        await process.exit_code()
        return process

    def at_a_terminal(self, *words: str, **settings: object) -> Terminal:
        """A `signoff` command that somebody types at."""
        environment = {**_outer_environment(), **self._environment, **_variables(settings)}
        terminal = Terminal(words, environment=environment)
        self._terminals.append(terminal)
        return terminal

    def end(self) -> None:
        """Kills what still runs, a Postgres in the data folder too."""
        for terminal in self._terminals:
            terminal.end()
        for process in self._begun:
            process.kill()
        with suppress(FileNotFoundError, ProcessLookupError):
            claim = self.data / "postgres" / "postmaster.pid"
            os.kill(int(claim.read_text().splitlines()[0]), signal.SIGQUIT)

    def _next_log(self) -> Path:
        return self._folder / f"process-{len(self._begun)}.log"


@contextmanager
def processes(folder: Path, **options: Any) -> Generator[Processes]:
    """See `Processes`."""
    begun = Processes(folder, **options)
    try:
        yield begun
    finally:
        begun.end()


class Api:
    """Requests as a caller and an approver make them. `heard` has the text of every answer."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.heard: list[str] = []

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> httpx.Response:
        """One request; `headers` are written with underscores: `idempotency_key="…"`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named["content-type"] = "application/json"
        content = None if body is None else orjson.dumps(body)
        answer = await self.client.request(method, path, content=content, headers=named)
        self.heard.append(answer.text)
        return answer

    async def get(self, path: str, **filters: str) -> Any:
        """What is at a path, which has to be there."""
        query = f"?{httpx.QueryParams(filters)}" if filters else ""
        answer = await self.ask("GET", path + query)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    async def start(
        self,
        workflow: str,
        given: object = "work",
        *,
        thread: str | None = None,
        more: Mapping[str, object] | None = None,
        **headers: str,
    ) -> httpx.Response:
        """Starts a run, in a new thread unless one is named."""
        body = {"workflow": workflow, "input": given, "if_not_exists": "create", **(more or {})}
        return await self.ask("POST", f"/threads/{thread or new_thread()}/runs", body, **headers)

    async def started(
        self, workflow: str, given: object = "work", *, thread: str | None = None, **more: object
    ) -> Json:
        """A run that is settled when it is answered."""
        answer = await self.start(workflow, given, thread=thread, more=more, prefer="wait=30")
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def accepted(self, workflow: str, given: object = "work", **options: Any) -> Json:
        """A run that was taken, and nothing more."""
        answer = await self.start(workflow, given, prefer="respond-async", **options)
        assert answer.status_code in (201, 202), answer.text
        return answer.json()

    async def decide(
        self, pause: Json, decision: object = None, *, thread: str | None = None, **headers: str
    ) -> httpx.Response:
        """Decides a pause; approves it where nothing else is said."""
        thread_id = thread or pause["thread_id"]
        body = {"pause_id": pause["id"], "decision": decision or approval()}
        headers.setdefault("prefer", "wait=30")
        return await self.ask("POST", f"/threads/{thread_id}/resume", body, **headers)

    async def decided(self, pause: Json, decision: object = None) -> Json:
        """The run after a decision that was taken."""
        answer = await self.decide(pause, decision)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def cancel(self, run: Json) -> httpx.Response:
        return await self.ask("POST", f"{path_of(run)}/cancel")

    async def run(self, run: Json) -> Json:
        """The run as it is now."""
        return await self.get(path_of(run))

    async def ended(self, run: Json, within: float = 30) -> Json:
        """The run once it has ended."""

        async def is_over() -> Json | None:
            now = await self.run(run)
            return now if now["status"] in ("completed", "failed", "cancelled") else None

        return await until(is_over, within)

    async def running(self, run: Json, status: str = "running") -> Json:
        """The run once it is running, or is in another state."""

        async def is_there() -> Json | None:
            now = await self.run(run)
            return now if now["status"] == status else None

        return await until(is_there)

    async def deliveries(self, run: Json, **filters: str) -> list[Json]:
        """The notices of a run's thread, each with its attempts, the oldest first."""
        listed = await self.get("/deliveries", thread_id=run["thread_id"], **filters)
        found = [await self.get(f"/deliveries/{each['id']}") for each in listed["items"]]
        return sorted(found, key=lambda each: each["event_sequence"])


def approval(by: str = "alice", **more: object) -> Json:
    return {"approved": True, "by": by, **more}


def rejection(by: str = "alice", **more: object) -> Json:
    return {"approved": False, "by": by, **more}


def path_of(run: Json) -> str:
    return f"/threads/{run['thread_id']}/runs/{run['id']}"


def new_thread() -> str:
    """The id of a thread that nobody has made yet."""
    return f"t-{random.getrandbits(64):016x}"


async def until(look: Callable[[], Awaitable[T | None]], within: float = 20) -> T:
    """What `look` gives once it gives something; fails if that takes too long."""
    async with asyncio.timeout(within):
        while not (found := await look()):  # noqa: ASYNC110 - another process tells no event
            await asyncio.sleep(0.02)
        return found


def free_port() -> int:
    """A port to listen on, below those that the system gives to connections by itself."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


def _variables(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"SIGNOFF_{name.upper()}": str(value) for name, value in settings.items()}


def _outer_environment() -> dict[str, str]:
    """The environment without what a developer may have set for a service of their own."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SIGNOFF_") and name != "DATABASE_URL"
    }
