"""Random workflows, decided at random in a random order, over processes that are killed: as the model says.

`RANDOM_WORKFLOWS` says how many, beginning with the number in `RANDOM_WORKFLOWS_FROM`.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.grown_model import BY, Followed, Key, decision_of, follow
from tests.postgres import Cluster
from tests.service import Api, Json, Processes, Served, free_port, path_of, processes
from tests.workflows.effects import VARIABLE, Effects

MANY = int(os.environ.get("RANDOM_WORKFLOWS", "20"))
FIRST = int(os.environ.get("RANDOM_WORKFLOWS_FROM", "0"))
AT_ONCE = 20
"""Workflows that one process serves, and runs that are under way in it."""
KILLS = 3
ENDED = {"completed", "failed", "cancelled"}
_LEASES_THAT_ENDED = (
    "select run_id from events where type = 'run.queued' and data->>'reason' = 'lease ended'"
)


@dataclass(kw_only=True)
class Told:
    """What is known of a run when its process is killed: which steps have ended for good."""

    at: float
    completed: frozenset[str]
    was_running: bool


@dataclass(kw_only=True)
class Watched:
    """A run of a number, and what was seen of it.

    `lost` is how often its lease ended: at a kill, or because its process was given no time by the machine.
    """

    number: int
    run: Json
    kills: list[Told] = field(default_factory=list[Told])
    lost: int = 0

    @property
    def is_over(self) -> bool:
        return self.run["status"] in ENDED

    @property
    def lost_without_a_kill(self) -> int:
        return max(0, self.lost - sum(each.was_running for each in self.kills))


class Town:
    """One service after the other on one database, and whoever calls it: they ask again where it is away."""

    def __init__(self, begun: Processes, numbers: range, api: Api, url: str) -> None:
        self._url = url
        self._begun = begun
        self._numbers = numbers
        self.api = api
        self.served: Served | None = None
        self.watched: list[Watched] = []

    async def start_all(self) -> None:
        self.watched = await asyncio.gather(*(self._start(number) for number in self._numbers))

    async def _start(self, number: int) -> Watched:
        name = f"grown_{number}"
        body = {"workflow": name, "input": "work", "if_not_exists": "create"}
        answer = await self._ask("POST", f"/threads/{name}/runs", body, idempotency_key=name)
        assert answer.status_code in (201, 202), answer.text
        return Watched(number=number, run=answer.json())

    async def count_lost_leases(self) -> None:
        connection = await asyncpg.connect(self._url)
        lost = Counter(row["run_id"] for row in await connection.fetch(_LEASES_THAT_ENDED))
        await connection.close()
        for each in self.watched:
            each.lost = lost[each.run["id"]]

    async def decide_all(self) -> None:
        await asyncio.gather(*(self._decide_until_over(each) for each in self.watched))

    async def _decide_until_over(self, watched: Watched) -> None:
        order = random.Random(watched.number)
        async with asyncio.timeout(240):
            while not watched.is_over:
                pauses = [each for each in watched.run["pauses"] if each["status"] == "open"]
                if pauses:
                    await self._decide(watched, order.choice(pauses))
                wait = "0" if pauses else "1"
                answer = await self._ask("GET", path_of(watched.run), prefer=f"wait={wait}")
                assert answer.status_code in (200, 202), answer.text
                watched.run = answer.json()

    async def _decide(self, watched: Watched, pause: Json) -> None:
        decision = decision_about(watched.number, pause)
        body = {"pause_id": pause["id"], "decision": {**decision, "by": BY}}
        answer = await self._ask("POST", f"/threads/{pause['thread_id']}/resume", body)
        # Asked again after a kill, it may have been taken; another branch may have ended the run.
        closed = {"pause_decided", "pause_cancelled"}
        assert answer.is_success or answer.json()["code"] in closed, (pause, decision, answer.text)

    async def _ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        headers.setdefault("prefer", "wait=1")
        while True:
            with suppress(httpx.TransportError):
                answer = await self.api.ask(method, path, body, **headers)
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.05)

    async def kill_some_times(self, port: int, times: int) -> None:
        """Kills the service at random moments, and starts it again."""
        for _ in range(times):
            await asyncio.sleep(random.uniform(0.1, 2.0))
            if all(each.is_over for each in self.watched):
                return
            await self._kill(port)

    async def _kill(self, port: int) -> None:
        assert self.served is not None
        known = [(each, await self._ask("GET", path_of(each.run))) for each in self.watched]
        killed_at = self.served.kill()
        for watched, answer in known:
            run = answer.json()
            told = Told(
                at=killed_at,
                completed=frozenset(
                    each["path"] for each in run["steps"] if each["status"] == "completed"
                ),
                was_running=run["status"] in {"queued", "running"},
            )
            watched.kills.append(told)
        self.served = await self._begun.serve(port=port, lease_seconds=1)


@asynccontextmanager
async def town_of(
    cluster: Cluster, folder: Path, numbers: range, *, port: int
) -> AsyncGenerator[Town]:
    served = ",".join(f"tests.workflows.grown:grown_{number}" for number in numbers)
    environment = {VARIABLE: str(folder / "effects")}
    limits = httpx.Limits(max_connections=100)
    async with (
        cluster.migrated_database() as url,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=70, limits=limits
        ) as client,
    ):
        with processes(
            folder, workflows=served, database_url=url, environment=environment
        ) as begun:
            town = Town(begun, numbers, Api(client), url)
            town.served = await begun.serve(port=port, lease_seconds=1)
            yield town


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + MANY, AT_ONCE))
async def test_random_workflows_do_what_the_model_says(
    first: int, cluster: Cluster, tmp_path: Path
) -> None:
    numbers = range(first, min(first + AT_ONCE, FIRST + MANY))
    random.seed(first)
    port = free_port()
    async with town_of(cluster, tmp_path, numbers, port=port) as town:
        await town.start_all()
        await asyncio.gather(town.decide_all(), town.kill_some_times(port, KILLS))
        effects = Effects(tmp_path / "effects")
        await town.count_lost_leases()
        for watched in town.watched:
            check(watched, effects, follow(watched.number, "work"))


def decision_about(number: int, pause: Json) -> Json:
    """What the model's person says to a pause."""
    schema = pause["response_schema"]["properties"]
    choices: list[Json] = pause["choices"] or []
    allowed: list[str] = pause["options"] or [each["name"] for each in choices]
    most = 1 if schema.get("value", {}).get("maxItems") == 1 else len(allowed)
    decision = decision_of(number, key_of(pause), allowed, most)
    if pause["step"]["type"] == "parallel":
        decision.pop("override_output", None)
    return decision


def key_of(pause: Json) -> Key:
    about = pause["call"]["tool"] if pause["level"] == "executor" else pause["message"]
    return pause["step"]["path"], pause["kind"], about


def check(watched: Watched, effects: Effects, model: Followed) -> None:
    """The run against the model: its end, its output, what was asked, what ran, and what was repeated."""
    run, number = watched.run, watched.number
    assert run["status"] in model.statuses, (number, run["error"], run["stop_reason"])
    asked = Counter(key_of(each) for each in run["pauses"])
    lines = effects.lines_of(run)
    did = Counter(each["what"] for each in lines)
    may = Counter(what for _, what in model.ran)
    if model.depends:
        assert asked <= Counter(model.asked), number
    else:
        assert asked == Counter(model.asked), number
        assert set(did) == set(may), number
    assert set(did) <= set(may), f"{number}: something ran that nobody allowed"
    if run["status"] == "completed":
        assert run["output"] == model.output, number
        assert {each["status"] for each in run["steps"]} <= {"completed", "skipped"}, number
    lost = watched.lost_without_a_kill
    for what, times in did.items():
        assert times <= may[what] * (1 + len(watched.kills) + lost), (number, what)
    for index, told in enumerate(watched.kills):
        over = Counter(what for row, what in model.ran if row in told.completed)
        again = Counter(each["what"] for each in lines if each["at"] > told.at)
        later = len(watched.kills) - index + lost
        for what, times in again.items():
            left = may[what] - over[what]
            assert times <= left * later, f"{number}: {what} was repeated after it had ended"
