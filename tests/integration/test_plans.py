"""How Postgres finds what statements ask for: by an index, in every table that grows, whatever is asked of the API.

The statements are the service's own: all that it sends while it does everything once, over tables with some
thousand rows. Each is explained with its own values, and without any, as Postgres may come to plan it.
"""

import asyncio
import importlib
import pkgutil
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, cast

import asyncpg
import httpx
import pytest

import app.storage
from app.authoring import (
    Agent,
    Approval,
    ModelRequest,
    Reply,
    ScriptedModel,
    ToolContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.domain.ids import DEFAULT_TENANT, RunId, ThreadId
from app.domain.principal import Principal
from app.domain.run import RunRef
from app.lifecycle import api_keys, claim, expire, remind, sessions
from app.lifecycle.api_keys import Holder
from app.lifecycle.forget import forget_old
from app.lifecycle.site import Site
from app.main import application
from app.storage import deliveries, retention, runs
from app.storage.database import Database, Row, Transaction
from tests.filled import GROWING, fill
from tests.receivers import Answer, Receiver
from tests.service import until
from tests.serving import decide, paused, serving, site_over
from tests.workflows.councils import Council, attic
from tests.workflows.papers import echoes, enquiries

Json = dict[str, Any]
Plan = dict[str, Any]

COUNCIL = Council(
    Approval(quorum=2, expires_after=timedelta(hours=1), escalate_to=attic), further=(attic,)
)
OTHERWISE = {
    "audit._ALL": "reads everything: `signoff audit verify`",
    "checkpoints._SELECT": "of the saver that keeps whole histories, which the service does not use",
    "checkpoints._INSERT_CHECKPOINT": "the same",
    "checkpoints._INSERT_WRITES": "the same",
    "checkpoints._DELETE": "the same",
    "checkpoints._DELETE_RUNS": "the same",
    "checkpoints._KEEP_LATEST": "the same",
    "checkpoints._COPY": "the same",
    "reads._COUNT_THREADS": "goes through all threads of a tenant, for clients of LangGraph that count them",
    "reads._FIND_THREADS": "a part of others",
    "runs._HISTORY": "a part of others",
    "api_keys._CREATE": "an operator's: `signoff keys create`",
    "api_keys._LIST": "reads all keys: `signoff keys list`",
    "api_keys._REVOKE": "the same: `signoff keys revoke`",
    "encryption._FORGET": "reads all keys of encryption, a handful",
    "encryption._NOTE": "the same",
    "encryption._THREADS": "goes through everything: `signoff encrypt`",
}
"""Statements that no request and no worker waits for."""

MANY_AT_ONCE = frozenset(
    text for name, text in vars(retention).items() if name.startswith("_FORGET")
)
"""What nobody waits for, and what touches a good part of a small table."""

WANTED = {
    "thread_id": "thread_7",
    "run_id": "run_7_0",
    "pause_id": "pause_run_7_0",
    "workflow": "workflow_3",
    "channel": "channel_3",
    "by": "person_3",
    "credential": "key:3",
    "since": "2026-01-01T00:00:00Z",
    "until": "2126-01-01T00:00:00Z",
}
"""What is asked for where a filter takes anything."""


ENOUGH = 1.2
"""How much more a statement has to cost without an index, for that to be worth its while."""


class _Undo(Exception):
    """Ends a transaction of which nothing is to stay."""


class _WatchedTransaction(Transaction):
    def __init__(
        self, transaction: Transaction, note: Callable[[str, tuple[object, ...]], None]
    ) -> None:
        self._inner = transaction
        self._note = note
        self.vault = transaction.vault

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        self._note(query, arguments)
        return await self._inner.fetch(query, *arguments)

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        self._note(query, arguments)
        return await self._inner.fetch_row(query, *arguments)


class Watched(Database):
    """The service's database, and what went over it: each statement with the values it was first sent with."""

    seen: dict[str, tuple[object, ...]]

    async def fetch(self, query: str, *arguments: object) -> list[Row]:
        self.note(query, arguments)
        return await super().fetch(query, *arguments)

    async def fetch_row(self, query: str, *arguments: object) -> Row | None:
        self.note(query, arguments)
        return await super().fetch_row(query, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        async with super().transaction() as transaction:
            yield _WatchedTransaction(transaction, self.note)

    def note(self, query: str, arguments: tuple[object, ...]) -> None:
        if not hasattr(self, "seen"):
            self.seen = {}
        self.seen.setdefault(query, arguments)

    async def plan(self, query: str, *, by_values: bool) -> Plan:
        """How Postgres would run a statement, with the values it was sent with, or whatever they are.

        What takes a hundredth of a table at once may well go through a small one: there it is asked whether
        there is a way by an index at all.
        """
        async with super().transaction() as transaction:
            if query in MANY_AT_ONCE:
                await transaction.fetch("set local enable_seqscan = off")
            return await self._plan(transaction, query, by_values=by_values)

    async def worth(self, index: str, plans: Mapping[str, Plan]) -> float:
        """How much more some statement would cost without an index that is in its plan, at most: a factor."""
        most = 0.0
        with suppress(_Undo):
            async with super().transaction() as transaction:
                await transaction.fetch(f"drop index {index}")
                for query, plan in plans.items():
                    if index in _indexes_in(plan):
                        without = await self._plan(transaction, query, by_values=True)
                        most = max(most, without["Total Cost"] / plan["Total Cost"])
                raise _Undo
        return most

    async def _plan(self, transaction: Transaction, query: str, *, by_values: bool) -> Plan:
        how = "" if by_values else ", generic_plan"
        explain = f"explain (format json{how}) {query}"
        (row,) = await transaction.fetch(explain, *self.seen[query])
        return row[0][0]["Plan"]


@tool
async def keep(context: ToolContext, text: str) -> str:
    """Keeps it."""
    return await context.step("keep", lambda: text)


def _keeps(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with(last.text) if last.role == "tool" else call_tool(keep, last.text)


keeper = Workflow(
    "keeper",
    version="1",
    input=str,
    steps=[Agent("keeper", prompt="Keep.", model=ScriptedModel(_keeps), tools=[keep])],
    history=2,
)


@asynccontextmanager
async def watched(url: str) -> AsyncGenerator[tuple[Site, Watched, httpx.AsyncClient]]:
    """A service over full tables."""
    connection = await asyncpg.connect(url)
    await fill(connection)
    await connection.close()
    workflows = [COUNCIL.workflow, echoes, enquiries, keeper]
    async with (
        site_over(url, workflows, to=Watched) as site,
        serving(site, heartbeat_seconds=0.1) as client,
    ):
        yield site, cast(Watched, site.database), client


async def do_everything(site: Site, client: httpx.AsyncClient) -> None:
    """All that callers, approvers and workers do, once."""
    await _travel(client)
    await _break_off(client)
    await _tell(client)
    await _follow(client)
    await _list_everything(site, client)
    await _find(client)
    await _look_after(site)


async def _travel(client: httpx.AsyncClient) -> None:
    key = {"idempotency-key": "a-key"}
    for _ in range(2):
        await client.post("/threads", json={"id": "mine"}, headers=key)
    body = {"workflow": "keeper", "input": "x"}
    for number in range(2):
        headers = {"idempotency-key": f"run-{number}"}
        done = await client.post("/threads/mine/runs", json=body, headers=headers)
        assert done.json()["status"] == "completed", done.text
    run = await paused(client, "council")
    for by in ("ann", "ann", "bob"):
        last = await decide(client, run, {"approved": True, "by": by})
    assert last.json()["status"] == "completed", last.text
    asked = await paused(client, "enquiries")
    assert (await decide(client, asked, {"value": "red", "by": "ann"})).is_success
    await paused(client, "council")
    once = await paused(client, "council")
    await decide(
        client, once, {"approved": False, "by": "ann"}, headers={"idempotency-key": "a-decision"}
    )


async def _break_off(client: httpx.AsyncClient) -> None:
    run = await paused(client, "council")
    then = datetime.fromisoformat(run["pause"]["expires_at"]) + timedelta(days=1)
    later = {"expires_at": then.isoformat()}
    assert (await client.post(f"/pauses/{run['pause']['id']}/extend", json=later)).is_success
    body = {"workflow": "council", "input": "x", "if_paused": "supersede"}
    second = await client.post(f"/threads/{run['thread_id']}/runs", json=body)
    path = f"/threads/{run['thread_id']}/runs/{second.json()['id']}"
    assert (await client.post(f"{path}/cancel")).json()["status"] == "cancelled"
    assert (await client.delete(f"/threads/{run['thread_id']}")).status_code == 204


async def _tell(client: httpx.AsyncClient) -> None:
    async with Receiver() as receiver:
        receiver.answer_with(Answer(status=410))
        callback = {"url": receiver.url}
        body = {"workflow": "echoes", "input": "x", "callback": callback}
        await client.post("/threads/mine/runs", json=body)

        async def dead() -> list[Json]:
            return (await client.get("/deliveries?status=dead&thread_id=mine")).json()["items"]

        (delivery,) = await until(dead)
        assert (await client.get(f"/deliveries/{delivery['id']}")).is_success
        assert (await client.post(f"/deliveries/{delivery['id']}/retry")).is_success


async def _follow(client: httpx.AsyncClient) -> None:
    (run,) = (await client.get("/threads/mine/runs?limit=1")).json()["items"]
    await client.get(f"/threads/mine/runs/{run['id']}/events")
    with suppress(TimeoutError):
        async with asyncio.timeout(1.5), client.stream("GET", "/events?types=run.*") as stream:
            async for _ in stream.aiter_lines():
                pass


async def _list_everything(site: Site, client: httpx.AsyncClient) -> None:
    """Every list, by every value of each of its filters, and by all at once; the first page and the next."""
    document = application(site).openapi()
    for path, operations in document["paths"].items():
        parameters = operations.get("get", {}).get("parameters", [])
        if not any(each["name"] == "cursor" for each in parameters):
            continue
        filters = [
            _values(each, document)
            for each in parameters
            if each["in"] == "query" and each["name"] not in ("limit", "cursor")
        ]
        none: Mapping[str, str] = {}
        all_at_once = dict(chain.from_iterable(each[0].items() for each in filters))
        for query in (none, *chain.from_iterable(filters), all_at_once):
            await _look_at_two_pages(client, path.format(thread_id="thread_7"), query)
    for query in ({"workflow": "workflow_3"}, {"channel": "channel_2"}, {"kind": "review"}):
        await _look_at_two_pages(
            client, "/pauses", {"status": "open", **query}
        )  # as the inbox does


async def _find(client: httpx.AsyncClient) -> None:
    """As clients of LangGraph find threads."""
    added = await client.patch("/langgraph/threads/mine", json={"metadata": {"found": True}})
    assert added.is_success, added.text
    for wanted in ({}, {"ids": ["mine"]}, {"status": "interrupted"}):
        found = await client.post("/langgraph/threads/search", json=wanted)
        assert found.json(), found.text


def _values(parameter: Json, document: Json) -> list[Mapping[str, str]]:
    """What a filter is asked for: everything where there is a choice."""
    name = parameter["name"]
    if name in WANTED:
        return [{name: WANTED[name]}]
    references = [each["$ref"] for each in parameter["schema"]["anyOf"] if "$ref" in each]
    (reference,) = references
    known = document["components"]["schemas"][reference.rpartition("/")[2]]["enum"]
    return [{name: value} for value in known]


async def _look_at_two_pages(
    client: httpx.AsyncClient, path: str, query: Mapping[str, str]
) -> None:
    page = await client.get(path, params={**query, "limit": "1"})
    assert page.status_code == 200, page.text
    if following := page.json()["next"]:
        further = await client.get(path, params={**query, "limit": "1", "cursor": following})
        assert further.status_code == 200, further.text


async def _look_after(site: Site) -> None:
    await _keep_leases(site.database)
    await claim.recover_lost(site)
    await expire.expire_due(site)
    await site.database.fetch(
        "update pauses set remind_at = now(), escalate_at = now() where workflow = 'council' and status = 'open'"
    )
    await remind.warn_due(site)
    await forget_old(site, after=timedelta(days=1))
    await site.last_look.at(site.database)
    await api_keys.holder_of(site.database, "sgk_none")
    await _sign_in_and_out(site.database)
    run = RunRef(tenant=DEFAULT_TENANT, thread_id=ThreadId("thread_7"), run_id=RunId("run_7_0"))
    await runs.decisions(site.database, run)


async def _sign_in_and_out(database: Database) -> None:
    begun = await sessions.begin(database, Holder(principal=Principal(name="ann"), seconds_left=60))
    assert isinstance(await sessions.holder_of(database, begun.secret), Holder)
    await sessions.end(database, begun.secret)


async def _keep_leases(database: Database) -> None:
    worker, seconds = "worker_1", 10.0
    await runs.renew(database, worker=worker, advancing=[RunId("run_3_2")], lease_seconds=seconds)
    await runs.held(database, worker=worker)
    await deliveries.keep(database, [], worker=worker, lease_seconds=seconds)


# ── What is claimed ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(60)
async def test_every_statement_finds_its_rows_by_an_index_and_every_index_is_worth_its_while(
    database_url: str,
) -> None:
    async with watched(database_url) as (site, database, client):
        await do_everything(site, client)
        ours = [query for query in database.seen if _ASKS.search(query)]
        plans = {query: await database.plan(query, by_values=True) for query in ours}
        general = {query: await database.plan(query, by_values=False) for query in ours}
        found = [(fault, query) for each in (plans, general) for query, fault in _faults(each)]
        assert not found, "\n\n".join(f"{fault}: {query}" for fault, query in sorted(set(found)))
        few = {query: plan for query, plan in plans.items() if query not in MANY_AT_ONCE}
        many = chain.from_iterable(_indexes_in(plans[query]) for query in MANY_AT_ONCE)
        indexes = await _indexes(database) - set(many)
        worth = {index: await database.worth(index, few) for index in indexes}
        assert {index: factor for index, factor in worth.items() if factor < ENOUGH} == {}
        assert not (unseen := _unseen(database.seen)), sorted(unseen)


def _faults(plans: Mapping[str, Plan]) -> Iterator[tuple[str, str]]:
    """The statements that go through the whole of a table that grows, and which."""
    for query, plan in plans.items():
        for node in _nodes(plan):
            if node["Node Type"] == "Seq Scan" and node["Relation Name"] in GROWING:
                yield query, f"goes through all {node['Relation Name']}"


def _indexes_in(plan: Plan) -> set[str]:
    return {each["Index Name"] for each in _nodes(plan) if "Index Name" in each}


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for each in plan.get("Plans", []):
        yield from _nodes(each)


async def _indexes(database: Database) -> set[str]:
    """The indexes that are there to find rows, and keep no rule."""
    rows = await database.fetch(
        "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid "
        "where c.relnamespace = 'public'::regnamespace and not i.indisunique"
    )
    return {row["relname"] for row in rows}


def _unseen(seen: Mapping[str, object]) -> set[str]:
    """The statements of storage that were not sent."""
    return {
        name
        for name, text in _statements()
        if name not in OTHERWISE and not any(text.strip() in each for each in seen)
    }


def _statements() -> Iterator[tuple[str, str]]:
    """Every statement that a module of storage has, by where it stands."""
    for module in pkgutil.iter_modules(app.storage.__path__):
        for name, value in vars(importlib.import_module(f"app.storage.{module.name}")).items():
            several = (
                cast("dict[object, object]", value) if isinstance(value, dict) else {"": value}
            )
            for text in several.values():
                if isinstance(text, str) and _BEGINS.match(text) and _ASKS.search(text):
                    yield f"{module.name}.{name}", text


_BEGINS = re.compile(r"\s*(with|select|insert into|update|delete from)\s")
_ASKS = re.compile(rf"\b(from|into|update)\s+({'|'.join(GROWING)})\b", re.IGNORECASE)
