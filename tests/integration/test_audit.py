"""The audit: what is written of what was done, in chains that show what somebody did to them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
import pytest

from app.authoring import (
    Agent,
    Approval,
    ScriptedModel,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.channels import AutoApproveChannel
from app.domain.audit import EPOCH, AuditAction, Entry
from app.lifecycle.audit import Chain, Head, Verified, ends_of, exported, verify
from app.lifecycle.site import Site
from app.storage.audit import TEXT, chains
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council

Json = dict[str, Any]


async def rows_of(site: Site, run: Json) -> list[Json]:
    rows = await site.database.fetch(
        "select *, encode(hash, 'hex') as hex from audit where thread_id = $1 order by sequence",
        run["thread_id"],
    )
    return [dict(row) for row in rows]


async def look(site: Site, **options: Any) -> Verified:
    return await verify(site.database, **options)


async def faults(site: Site, **options: Any) -> list[str]:
    return [fault.what for fault in (await look(site, **options)).faults]


def yes(by: str, **more: object) -> Json:
    return {"approved": True, "by": by, **more}


def council(**terms: Any) -> Council:
    return Council(Approval(**terms))


# ── What is written ──────────────────────────────────────────────────────────────────────────────────


async def test_a_decision_is_a_row_with_its_actor_its_origin_and_what_was_shown(
    database_url: str,
) -> None:
    async with service(database_url, [council().workflow]) as served:
        run = await paused(served.client, "council")
        shown = run["pause"]["digest"]
        override = yes(
            "ann", override_arguments={"what": "a bridge"}, feedback="better: ein Brücklein"
        )
        answer = await decide(served.client, run, override, headers={"X-Request-ID": "req-4711"})
        assert answer.status_code == 200
        (row,) = (await served.client.get("/audit")).json()["items"]
        taken = answer.json()["pauses"][0]
    assert row.pop("at") is not None
    assert len(row.pop("hash")) == 64
    assert row.pop("thread_created_at") is not None
    assert row == {
        "action": "decided",
        "by": "ann",
        "via": "api",
        "credential": "open",
        "client": "127.0.0.1",
        "request_id": "req-4711",
        "thread_id": run["thread_id"],
        "run_id": run["id"],
        "pause_id": run["pause"]["id"],
        "digest": shown,
        "data": {
            "decision": {name: taken["decision"][name] for name in row["data"]["decision"]},
            "effective_digest": taken["digest"],
        },
        "sequence": 1,
    }
    assert row["data"]["decision"]["override_arguments"] == {"what": "a bridge"}
    assert taken["digest"] != shown


async def test_everything_that_somebody_is_answerable_for_is_a_row_and_the_chains_hold(
    database_url: str,
) -> None:
    async with everything(database_url) as (served, threads):
        found = await look(served.site)
        actions = {
            row["action"]
            for row in await served.site.database.fetch("select distinct action from audit")
        }
    assert found.faults == []
    assert (found.chains, found.rows) == (len(threads) + 1, 14)
    assert actions == {
        AuditAction.DECIDED,
        AuditAction.VOTED,
        AuditAction.REFUSED,
        AuditAction.EXPIRED,
        AuditAction.EXTENDED,
        AuditAction.CANCELLED,
        AuditAction.SUPERSEDED,
        AuditAction.RETRIED,
        AuditAction.THREAD_DELETED,
    }


@asynccontextmanager
async def everything(database_url: str) -> AsyncGenerator[tuple[Service, list[Json]]]:
    """A service in which everything was done once, and a run of each of its threads, of which the last is gone."""
    of_two = council(quorum=2, expires_after=timedelta(hours=1))
    async with service(database_url, [of_two.workflow, automatic]) as served:
        voted, expired, cancelled, gone = [await paused(served.client, "council") for _ in range(4)]
        for by, status in (("ann", 200), ("ann", 409), ("bob", 200), ("cy", 409)):
            assert (await decide(served.client, voted, yes(by))).status_code == status
        assert (await decide(served.client, expired, {"approved": 1, "by": "x"})).status_code == 422
        await extend(served, expired)
        await expire(served, expired)
        await supersede(served, cancelled)
        await retry(served, cancelled)
        both = await start(served, "automatic")
        await cancel(served, gone)
        assert (await served.client.delete(f"/threads/{gone['thread_id']}")).status_code == 204
        yield served, [voted, expired, cancelled, both, gone]


async def start(served: Service, workflow: str, thread: str = "made", **more: object) -> Json:
    body = {"workflow": workflow, "input": "the wall", "if_not_exists": "create", **more}
    answer = await served.client.post(f"/threads/{thread}/runs", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def extend(served: Service, run: Json) -> None:
    path = f"/pauses/{run['pause']['id']}/extend"
    answer = await served.client.post(path, json={"expires_at": "2100-01-01T00:00:00+01:00"})
    assert answer.status_code == 200, answer.text


async def expire(served: Service, run: Json) -> None:
    await served.site.database.fetch(
        "update pauses set expires_at = clock_timestamp() where id = $1", run["pause"]["id"]
    )
    path = f"/threads/{run['thread_id']}/runs/{run['id']}"
    while (await served.client.get(path)).json()["pauses"][0]["status"] != "expired":
        pass


async def supersede(served: Service, run: Json) -> None:
    newer = await start(served, "council", run["thread_id"], if_paused="supersede")
    await cancel(served, newer)


async def cancel(served: Service, run: Json) -> None:
    path = f"/threads/{run['thread_id']}/runs/{run['id']}/cancel"
    assert (await served.client.post(path)).json()["status"] == "cancelled"


async def retry(served: Service, run: Json) -> None:
    await served.site.database.fetch(
        "insert into deliveries (thread_id, id, tenant, run_id, event_type, event_sequence, channel, address, status) "
        "values ($1, 'dlv_1', 'default', $2, 'run.cancelled', 1, 'nobody', 'nobody', 'dead')",
        run["thread_id"],
        run["id"],
    )
    assert (await served.client.post("/deliveries/dlv_1/retry")).status_code == 200


@tool(channel=AutoApproveChannel("robot"))
async def wave(at: str) -> str:
    """Waves."""
    return f"waved at {at}"


automatic = Workflow(
    "automatic",
    version="1",
    input=str,
    steps=[
        Agent(
            "clerk",
            prompt="Wave.",
            model=ScriptedModel(
                [call_tools(*(call_tool(wave, at) for at in "ab")), reply_with("done")]
            ),
            tools=[wave],
        )
    ],
    channels=[AutoApproveChannel("robot")],
)


async def test_what_a_channel_decides_at_once_is_linked_in_the_statement_that_writes_it(
    database_url: str,
) -> None:
    async with service(database_url, [automatic]) as served:
        run = await start(served, "automatic")
        rows = await rows_of(served.site, run)
        assert [(row["action"], row["by"], row["via"]) for row in rows] == [
            ("decided", "robot", "channel")
        ] * 2
        assert {row["credential"] for row in rows} == {None}
        assert await faults(served.site) == []


async def test_a_decision_by_a_deadline_names_nobody_and_the_late_click_is_a_row_of_its_own(
    database_url: str,
) -> None:
    one = council(expires_after=timedelta(hours=1))
    async with service(database_url, [one.workflow]) as served:
        run = await paused(served.client, "council")
        await expire(served, run)
        assert (await decide(served.client, run, yes("ann"))).status_code == 409
        expired, refused = await rows_of(served.site, run)
    assert (expired["action"], expired["by"], expired["client"]) == (
        "expired",
        "system:deadline",
        None,
    )
    assert (refused["action"], refused["by"], refused["data"]) == (
        "refused",
        "ann",
        {"code": "pause_expired"},
    )
    assert refused["client"] == "127.0.0.1"


@pytest.mark.parametrize("by", ["Zoë 🦉", "a:1-b", "-", '"quoted"', "x" * 200])
async def test_the_hash_of_the_statement_is_the_one_that_python_works_out(
    database_url: str, by: str
) -> None:
    async with service(database_url, [council().workflow]) as served:
        run = await paused(served.client, "council")
        await decide(served.client, run, yes(by, feedback="é\u2028\U0001f600 5:x"))
        async for link in chains(served.site.database):
            assert link.entry
            assert link.entry.by == by
            assert link.entry.link(b"") == link.hash


def test_no_two_rows_have_the_same_text() -> None:
    assert entry(run_id="a", pause_id="b").text != entry(run_id="ab", pause_id="").text
    assert entry(run_id=None, pause_id="-").text != entry(run_id="-", pause_id=None).text
    assert entry(by="1:a", via="").text != entry(by="", via="1:a").text


def entry(**fields: Any) -> Entry:
    empty = dict.fromkeys(
        ("credential", "client", "request_id", "digest", "run_id", "pause_id", "by")
    )
    row: Json = {"tenant": "default", "thread_id": "t", "sequence": 1, "action": "decided"}
    times = dict.fromkeys(("at", "thread_created_at"), EPOCH)
    given: Json = {**empty, **row, **times, "via": "api", "data": "{}", **fields}
    return Entry(**given)


# ── What somebody may do to it ───────────────────────────────────────────────────────────────────────

_THIRD = "thread_id = 'long' and sequence = 3"

CHANGED = {
    **{
        f"its {column}": f"update audit set {column} = {value} where {_THIRD}"
        for column, value in {
            "run_id": "'run_1'",
            "pause_id": "null",
            "action": "'decided'",
            "by": "'bob'",
            "via": "'cli'",
            "credential": "'key:1'",
            "client": "null",
            "request_id": "'req_1'",
            "digest": "'d'",
            "data": """'{"code": "already_voted"}'""",
            "at": "at + interval '1 microsecond'",
            "hash": "sha256('x')",
        }.items()
    },
    "spaces in its data": f"update audit set data = (data::text || ' ')::json where {_THIRD}",
    "its place, with the next": """
        update audit set sequence = case sequence when 3 then 104 else 103 end where sequence in (3, 4);
        update audit set sequence = sequence - 100 where sequence > 100""",
    "its hash, worked out without the one before": f"update audit set hash = sha256('') where {_THIRD}",
}
REMOVED = {
    "the first": "delete from audit where thread_id = 'long' and sequence = 1",
    "one in the middle": f"delete from audit where {_THIRD}",
    "the last": "delete from audit where thread_id = 'long' and sequence = 5",
    "the last, with the count": """
        delete from audit where thread_id = 'long' and sequence = 5;
        update threads set audit_sequence = 4 where id = 'long'""",
    "all": "delete from audit where thread_id = 'long'",
    "one, with the others moved up": f"""
        delete from audit where {_THIRD};
        update audit set sequence = 3 where thread_id = 'long' and sequence = 4;
        update audit set sequence = 4 where thread_id = 'long' and sequence = 5;
        update threads set audit_sequence = 4 where id = 'long'""",
    "the thread": """
        delete from events where thread_id = 'long'; delete from pauses where thread_id = 'long';
        delete from runs where thread_id = 'long'; delete from ledger where thread_id = 'long';
        delete from threads where id = 'long'""",
    "the record that a thread is gone": "delete from audit where thread_id = ''",
    "all of a thread that is gone": "delete from audit where thread_id = 'gone'",
    "the last of a thread that is gone": "delete from audit where thread_id = 'gone' and sequence = 1",
}
ADDED = {
    "a copy at the end": """
        insert into audit select (json_populate_record(a, '{"sequence": 6}')).* from audit a
        where thread_id = 'long' and sequence = 5""",
    "a row of another thread": """
        update audit set thread_id = 'other' where thread_id = 'gone'""",
}


@pytest.mark.parametrize(
    "statement",
    [*CHANGED.values(), *REMOVED.values(), *ADDED.values()],
    ids=[
        *(f"changed: {name}" for name in CHANGED),
        *(f"removed: {name}" for name in REMOVED),
        *(f"added: {name}" for name in ADDED),
    ],
)
async def test_what_somebody_does_to_the_audit_is_found(database_url: str, statement: str) -> None:
    async with service(database_url, [council().workflow]) as served:
        await five_refusals(served)
        assert await faults(served.site) == []
        for each in statement.split(";"):
            await served.site.database.fetch(each)
        assert await faults(served.site)


async def five_refusals(served: Service) -> None:
    """A thread `long` with five rows, and one `gone` that had one and was deleted."""
    for thread, times in (("long", 5), ("gone", 0)):
        run = await start(served, "council", thread)
        for number in range(times):
            refused = await decide(served.client, run, {"approved": "yes", "by": f"x{number}"})
            assert refused.status_code == 422
        if not times:
            await cancel(served, run)
            assert (await served.client.delete(f"/threads/{thread}")).status_code == 204


async def test_a_fault_says_which_row_and_is_told_once(database_url: str) -> None:
    async with service(database_url, [council().workflow]) as served:
        await five_refusals(served)
        await served.site.database.fetch(f"update audit set by = 'bob' where {_THIRD}")
        (fault,) = (await look(served.site)).faults
        assert (fault.tenant, fault.thread_id) == ("default", "long")
        assert fault.what == "row 3 is not as it was written, or not where"
        await served.site.database.fetch(f"delete from audit where {_THIRD}")
        assert await faults(served.site) == ["row 3 is missing"]
        await served.site.database.fetch(
            "delete from audit where thread_id = 'long' and sequence > 3"
        )
        assert await faults(served.site) == ["rows 3 to 5 are missing at the end"]
        assert await faults(served.site, thread_id="gone") == []
        assert await faults(served.site, thread_id="long") != []
        assert await faults(served.site, tenant="another") == []


_FORGED = """
do $$
declare head bytea := ''; w record;
begin
  update audit set by = 'nobody' where thread_id = 'long';
  for w in select * from audit where thread_id = 'long' order by sequence loop
    head := sha256(head || convert_to({text}, 'UTF8'));
    update audit set hash = head where thread_id = 'long' and sequence = w.sequence;
  end loop;
  update threads set audit_head = head where id = 'long';
end $$
"""


async def test_a_chain_that_was_worked_out_anew_is_found_against_an_export(
    database_url: str,
) -> None:
    async with service(database_url, [council().workflow]) as served:
        await five_refusals(served)
        earlier = await ends(served.site)
        late = await start(served, "council", "later")
        await decide(served.client, late, {"by": "x"})
        assert await faults(served.site, earlier=earlier) == []
        await served.site.database.fetch(_FORGED.format(text=TEXT))
        assert await faults(served.site) == []
        assert await faults(served.site, earlier=earlier) == [
            "row 5 or one before it is another one than was exported"
        ]


async def test_rows_that_were_exported_and_are_gone_without_a_trace_are_found(
    database_url: str,
) -> None:
    async with service(database_url, [council().workflow]) as served:
        await five_refusals(served)
        earlier = await ends(served.site)
        await served.site.database.fetch("delete from audit where thread_id = 'long'")
        await served.site.database.fetch(
            "update threads set audit_sequence = 0, audit_head = null where id = 'long'"
        )
        assert await faults(served.site) == []
        assert await faults(served.site, earlier=earlier) == ["all its rows are missing, 1 to 5"]


async def ends(site: Site) -> dict[Chain, Head]:
    return ends_of([line async for line in exported(site.database)])


# ── Threads that are gone ────────────────────────────────────────────────────────────────────────────


async def test_a_thread_that_is_deleted_leaves_its_audit_and_the_next_of_that_id_has_a_chain_of_its_own(
    database_url: str,
) -> None:
    async with service(database_url, [council().workflow]) as served:
        for _ in range(2):
            run = await start(served, "council", "again")
            await decide(served.client, run, yes("ann"))
            assert (await served.client.delete("/threads/again")).status_code == 204
        run = await start(served, "council", "again")
        await decide(served.client, run, yes("ann"))
        listed = (await served.client.get("/audit", params={"thread_id": "again"})).json()["items"]
        assert [(row["action"], row["sequence"]) for row in listed] == [("decided", 1)] * 3
        assert len({row["thread_created_at"] for row in listed}) == 3
        found = await look(served.site)
        assert (found.faults, found.chains, found.rows) == ([], 4, 5)
        gone = (await served.client.get("/audit", params={"action": "thread_deleted"})).json()
        assert {row["data"]["thread_id"] for row in gone["items"]} == {"again"}
        assert {row["thread_id"] for row in gone["items"]} == {None}
        assert {row["data"]["hash"] for row in gone["items"]} < {row["hash"] for row in listed}


# ── Listing ──────────────────────────────────────────────────────────────────────────────────────────


async def test_the_audit_is_listed_newest_first_by_filter_and_page(database_url: str) -> None:
    async with everything(database_url) as (served, threads):
        whole = await listed(served, limit=100)
        assert whole == sorted(whole, key=lambda row: row["at"], reverse=True)
        assert len(whole) == 14
        assert await listed(served, limit=2) == whole
        voted = threads[0]
        for name, value in (
            ("thread_id", voted["thread_id"]),
            ("run_id", voted["id"]),
            ("pause_id", voted["pause"]["id"]),
        ):
            mine = await listed(served, **{name: value})
            assert [row["action"] for row in mine] == ["refused", "decided", "refused", "voted"]
        assert len(await listed(served, by="ann", action="refused")) == 1
        middle = whole[6]["at"]
        since, until = await listed(served, since=middle), await listed(served, until=middle)
        assert since + until == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("by", "\0"),
        ("by", "a\x7fb"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("until", "9999-12-31T23:59:59-14:00"),
        ("until", "9999-12-31T23:59:59.999999+00:00"),
        ("since", "2026-01-01T00:00:00"),
    ],
)
async def test_a_filter_that_cannot_be_meant_is_refused(
    name: str, value: str, database_url: str
) -> None:
    async with service(database_url, []) as served:
        answer = await served.client.get("/audit", params={name: value})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def listed(served: Service, **query: Any) -> list[Json]:
    """All pages."""
    found: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        params = {**query, **({"cursor": cursor} if cursor else {})}
        answer = await served.client.get("/audit", params=params)
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        cursor = answer.json()["next"]
    return found


@pytest.mark.parametrize(
    "query",
    [
        {"action": "guessed"},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"thread_id": ""},
        {"tenant": "other"},
        {"cursor": "x"},
    ],
)
async def test_a_filter_that_cannot_be_is_refused(database_url: str, query: Json) -> None:
    async with service(database_url, [council().workflow]) as served:
        assert (await served.client.get("/audit", params=query)).status_code == 422


async def test_an_export_has_every_row_in_the_order_of_its_chain(database_url: str) -> None:
    async with everything(database_url) as (served, threads):
        lines = [line async for line in exported(served.site.database)]
        rows = [orjson.loads(line) for line in lines]
        assert len(rows) == 14
        assert rows == sorted(rows, key=_place)
        voted = threads[0]["thread_id"]
        mine = [
            orjson.loads(line) async for line in exported(served.site.database, thread_id=voted)
        ]
        assert mine == [row for row in rows if row["thread_id"] == voted]
        assert [line async for line in exported(served.site.database, tenant="other")] == []


def _place(row: Json) -> tuple[str, str, str, int]:
    return row["thread_id"] or "", row["tenant"], row["thread_created_at"] or "", row["sequence"]


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"tenant": "a"}', "x"])
def test_what_is_no_export_is_not_taken_for_one(line: str) -> None:
    with pytest.raises(ValueError, match="line 1 is not of an export"):
        ends_of([line])
