"""Services that are away, busy, or lose their answers: what is asked again, how, and how often."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import pytest

from client.tests.conftest import Served
from signoff_client import (
    AsyncSignoffClient,
    Problem,
    Run,
    SignoffClient,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from tests.receivers import HANGS, Answer, Received, Receiver, says

T = TypeVar("T")
SESSION: dict[str, object] = {
    "name": None,
    "tenant": "default",
    "groups": [],
    "scopes": [],
    "is_open": True,
}
THREAD: dict[str, object] = {
    "id": "t",
    "workflow": None,
    "metadata": {},
    "active_run": None,
    "created_at": "2026-01-02T03:04:05Z",
}
HANGS_UP = Answer(raw=b" ")


def problem(status: int, code: str, **headers: str) -> Answer:
    answer = says({"code": code, "detail": "Not now."}, status)
    return Answer(status=status, headers={**answer.headers, **headers}, body=answer.body)


BUSY = problem(429, "too_many_requests", **{"retry-after": "0"})
AWAY = problem(503, "store_unavailable", **{"retry-after": "0"})
GATEWAY = Answer(status=502, body=b"<h1>Bad gateway</h1>", headers={"content-type": "text/html"})


@asynccontextmanager
async def asked_of(
    *answers: Answer, retries: int = 4, **options: Any
) -> AsyncGenerator[tuple[Receiver, Callable[[Callable[[SignoffClient], T]], Any]]]:
    """A server with these answers, and a way to ask it with the client that waits."""
    async with Receiver(*answers) as server:
        url = f"http://127.0.0.1:{server.port}"
        with SignoffClient(url, retries=retries, **options) as client:

            async def ask(of: Callable[[SignoffClient], T]) -> T:
                return await asyncio.to_thread(of, client)

            yield server, ask


@pytest.mark.parametrize(
    "trouble", [BUSY, AWAY, GATEWAY, HANGS_UP], ids=["429", "503", "502", "cut"]
)
async def test_who_is_busy_or_away_is_asked_again_under_the_same_name(trouble: Answer) -> None:
    async with asked_of(trouble, trouble, says(THREAD, 201)) as (server, ask):
        thread = await ask(lambda client: client.create_thread())

    assert thread.id == "t"
    assert len(server.received) == 3
    assert len({each.headers["idempotency-key"] for each in server.received}) == 1
    assert len({each.body for each in server.received}) == 1


async def test_each_call_has_a_name_of_its_own() -> None:
    async with asked_of(says(THREAD, 201)) as (server, ask):
        for _ in range(3):
            await ask(lambda client: client.create_thread())
    assert len({each.headers["idempotency-key"] for each in server.received}) == 3


async def test_an_async_client_asks_again_too() -> None:
    async with (
        Receiver(HANGS_UP, AWAY, says(SESSION)) as server,
        AsyncSignoffClient(f"http://127.0.0.1:{server.port}") as client,
    ):
        assert (await client.get_session()).is_open
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("trouble", "raised"),
    [(AWAY, Unavailable), (BUSY, TooManyRequests), (HANGS_UP, Unreachable)],
    ids=["503", "429", "cut"],
)
async def test_it_is_not_asked_for_ever(trouble: Answer, raised: type[Exception]) -> None:
    async with asked_of(trouble, retries=2) as (server, ask):
        with pytest.raises(raised):
            await ask(lambda client: client.get_session())
    assert len(server.received) == 3


async def test_who_is_told_to_come_back_much_later_is_told_so_at_once() -> None:
    async with asked_of(problem(429, "too_many_requests", **{"retry-after": "3600"})) as (
        server,
        ask,
    ):
        with pytest.raises(TooManyRequests) as refused:
            await ask(lambda client: client.get_session())
    assert refused.value.retry_after == 3600
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 422, 500])
async def test_what_is_refused_is_not_asked_again(status: int) -> None:
    async with asked_of(problem(status, "of_a_newer_service")) as (server, ask):
        with pytest.raises(Problem) as refused:
            await ask(lambda client: client.create_thread())
    assert (refused.value.status, refused.value.code) == (status, "of_a_newer_service")
    assert type(refused.value) is Problem.by_status.get(status, type(refused.value))
    assert len(server.received) == 1


async def test_a_silent_service_is_given_up_after_its_time() -> None:
    async with asked_of(HANGS, says(SESSION), timeout=0.2) as (server, ask):
        assert await ask(lambda client: client.get_session())
    assert len(server.received) == 2


async def test_what_is_no_signoff_is_told_as_such() -> None:
    async with asked_of(says({"hello": "world"})) as (_, ask):
        with pytest.raises(Problem, match="no Signoff"):
            await ask(lambda client: client.get_session())


async def test_a_key_is_shown_and_a_client_of_ones_own_is_used_and_left_open() -> None:
    with httpx.Client(headers={"x-team": "blue"}) as http:
        async with asked_of(says(SESSION), key="sgk_secret", http=http) as (server, ask):
            await ask(lambda client: client.get_session())
        assert not http.is_closed
    (received,) = server.received
    assert received.headers["authorization"] == "Bearer sgk_secret"
    assert received.headers["x-team"] == "blue"


# ── Answers that are lost on their way ───────────────────────────────────────────────────────────────


class Losing(Receiver):
    """Passes requests on to a service, and loses the first answer to each."""

    def __init__(self, service: httpx.Client) -> None:
        super().__init__()
        self._service = service
        self._had: set[tuple[str, str, bytes]] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Received) -> Answer:
        answer = self._service.request(
            request.method,
            request.path,
            content=request.body,
            headers=_passed_on(request.headers),
        )
        asked = (request.method, request.path, request.body)
        if asked not in self._had:
            self._had.add(asked)
            return HANGS_UP
        return Answer(
            status=answer.status_code,
            headers={"content-type": answer.headers.get("content-type", "")},
            body=answer.content,
        )


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name not in ("host", "content-length", "connection", "accept-encoding")
    }


async def test_what_was_done_although_the_answer_was_lost_is_done_once(
    served: Served,
) -> None:
    with httpx.Client(base_url=served.url) as service:
        run, received = await _decided_through(Losing(service))

    assert (run.status, [each.status for each in run.pauses]) == ("completed", ["decided"])
    assert len(received) == 2 * 3


async def _decided_through(losing: "Losing") -> tuple[Run, list[Received]]:
    async with losing, AsyncSignoffClient(losing.address, by="maria") as lossy:
        run = await lossy.start_run("confirmations", "ann", wait=30)
        assert run.pause
        run = await lossy.approve(run.pause, wait=30)
        await lossy.delete_thread(run.thread_id)
        return run, losing.received


def test_a_client_is_shared_by_threads(client: SignoffClient) -> None:
    came: list[str] = []

    def start() -> None:
        came.append(client.start_run("lingers", 0, wait=30).status)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert came == ["completed"] * 8
