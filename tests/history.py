"""Reads what was recorded of many runs over processes that died, and says what of it cannot be.

What is read: the tables, the file of effects, and what an approver's server got.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from tests.receivers import Received
from tests.workflows.effects import Effects

ENDS = "('run.completed', 'run.failed', 'run.cancelled')"
CLOSES = "('pause.decided', 'pause.expired', 'pause.cancelled')"

MUST_BE_EMPTY: Mapping[str, str] = {
    "a run that has not ended": """
        select id from runs where finished_at is null""",
    "a thread that still has a run, or a lease": """
        select id from threads
        where active_run_id is not null or lease_owner is not null or lease_until is not null""",
    "what should have gone with its run": """
        select run_id from checkpoints union select run_id from checkpoint_writes
        union select run_id from step_results""",
    "events that are not numbered one after the other": """
        select t.id from threads t
        left join (select thread_id, count(*) as n, max(sequence) as last from events group by 1) e
          on e.thread_id = t.id
        where (coalesce(e.n, 0), coalesce(e.last, 0)) <> (t.event_sequence, t.event_sequence)""",
    "audit rows that are not numbered one after the other": """
        select t.id from threads t
        left join (select thread_id, count(*) as n, max(sequence) as last from audit group by 1) a
          on a.thread_id = t.id
        where (coalesce(a.n, 0), coalesce(a.last, 0)) <> (t.audit_sequence, t.audit_sequence)""",
    "a run that ended more than once, or without being told": f"""
        select r.id from runs r
        where (select count(*) from events e where e.run_id = r.id and e.type in {ENDS}) <> 1""",
    "something after the end of its run": f"""
        select e.run_id from events e join events l on l.run_id = e.run_id and l.sequence > e.sequence
        where e.type in {ENDS}""",
    "a request that was done twice": """
        select thread_id from runs group by thread_id having count(*) > 1""",
    "a pause that is told more than once": """
        select p.id from pauses p
        where (select count(*) from events e
               where e.type = 'pause.opened' and e.data->>'pause_id' = p.id) <> 1""",
    "a pause that was closed more than once": f"""
        select p.id from pauses p
        where (select count(*) from events e
               where e.type in {CLOSES} and e.data->>'pause_id' = p.id) <> 1""",
    "a pause that is open although its run has ended": """
        select id from pauses where status = 'open'""",
    "a question that was asked twice": """
        select run_id from pauses group by run_id, place having count(*) > 1""",
    "a decision that is not in the audit exactly once": """
        select p.id from pauses p
        where p.status in ('decided', 'expired')
          and (select count(*) from audit a
               where a.pause_id = p.id and a.action in ('decided', 'expired')) <> 1""",
    "a model's turn that is paid for twice, or not at all": """
        select e.run_id from events e where e.type = 'model.answered'
        group by e.run_id having count(distinct (e.data->>'path', e.data->>'turn')) <> (
          select count(*) from ledger l where l.run_id = e.run_id and l.kind = 'model')""",
    "a turn that was taken again": """
        select e.run_id from events e where e.type = 'model.answered'
        group by e.run_id, e.data->>'path', e.data->>'turn' having count(*) > 1""",
    "a call that finished again": """
        select e.run_id from events e where e.type = 'tool.finished'
        group by e.run_id, e.data->>'call_id' having count(*) > 1""",
    "a step that was completed again": """
        select e.run_id from events e where e.type = 'step.completed'
        group by e.run_id, e.data->>'path' having count(*) > 1""",
    "a call that finished and is not in the ledger": """
        select e.run_id from events e where e.type = 'tool.finished'
        group by e.run_id having count(distinct e.data->>'call_id') > (
          select count(*) from ledger l where l.run_id = e.run_id and l.kind = 'tool')""",
    "a pause that its channel was not told of, or twice": """
        select p.id from pauses p
        where p.channel = 'approvers' and (
          select count(*) from deliveries d
          where d.pause_id = p.id and d.event_type = 'pause.opened') <> 1""",
}
"""Each finds what cannot be."""

FOLLOWS: Mapping[str | None, frozenset[str | None]] = {
    None: frozenset({"run.queued"}),
    "run.queued": frozenset({"run.started", "run.cancelled"}),
    "run.started": frozenset(
        {"run.queued", "run.paused", "run.completed", "run.failed", "run.cancelled"}
    ),
    "run.paused": frozenset({"run.queued", "run.started", "run.cancelled"}),
    "run.completed": frozenset(),
    "run.failed": frozenset(),
    "run.cancelled": frozenset(),
}
"""What may come after what in a run."""


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A process that was frozen and let go on, by the clock of this machine."""

    pid: int
    since: float
    until: float

    def was_in(self, effect: Mapping[str, Any], over: float) -> bool:
        """Whether it was in the middle of a call when that came to its end elsewhere."""
        return self.pid == effect["pid"] and self.since < over and effect["at"] < self.until + 1


@dataclass(kw_only=True)
class Findings:
    """What was counted, and what cannot be."""

    counts: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        counted = ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
        return f"{counted}; faults: {self.faults or 'none'}"


async def find(
    database_url: str,
    effects: Effects,
    *,
    never_twice: frozenset[str] = frozenset({"paid"}),
    received: Sequence[Received] = (),
    freezes: Sequence[Freeze] = (),
) -> Findings:
    """Looks at everything that was recorded.

    A call that a process is in the middle of when it is frozen goes on when that is let go on: nobody can
    take it back. What had not begun by then does not begin any more.
    """
    findings = Findings()
    connection = await asyncpg.connect(database_url)
    try:
        await _look_at_tables(connection, findings)
        await _look_at_moves(connection, findings)
        await _look_at_effects(connection, findings, effects, never_twice, freezes)
        await _look_at_notices(connection, findings, received)
    finally:
        await connection.close()
    return findings


async def until_told(database_url: str, received: Sequence[Received], within: float = 120) -> None:
    """Returns once every notice has arrived, or after the time that is given to it."""
    connection = await asyncpg.connect(database_url)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    ids = {row["id"] for row in await connection.fetch("select id from deliveries")}
                    if ids <= {each.headers["webhook-id"] for each in received}:
                        return
                    await asyncio.sleep(0.2)
    finally:
        await connection.close()


async def _look_at_tables(connection: asyncpg.Connection, findings: Findings) -> None:
    for table in ("runs", "pauses", "events", "audit", "ledger", "deliveries"):
        findings.counts[table] = await connection.fetchval(f"select count(*) from {table}")
    for fault, query in MUST_BE_EMPTY.items():
        findings.faults += [f"{fault}: {row[0]}" for row in await connection.fetch(query)]


async def _look_at_moves(connection: asyncpg.Connection, findings: Findings) -> None:
    """Whether the moves of every run are such as there may be."""
    last: dict[str, str | None] = defaultdict(lambda: None)
    moves = "select run_id, type from events where type like 'run.%' order by thread_id, sequence"
    for run, move in await connection.fetch(moves):
        if move not in FOLLOWS[last[run]]:
            findings.faults.append(f"a move that there is not: {last[run]} to {move} of {run}")
        last[run] = move
        findings.counts["moves"] += 1


async def _look_at_effects(
    connection: asyncpg.Connection,
    findings: Findings,
    effects: Effects,
    never_twice: frozenset[str],
    freezes: Sequence[Freeze],
) -> None:
    """Whether everything happened as often as it may, under one id, and nothing again that was over."""
    over = {
        row["call"]: row["at"].timestamp()
        for row in await connection.fetch(
            "select data->>'call_id' as call, max(at) as at from events "
            "where type = 'tool.finished' group by 1"
        )
    }
    ended = (
        "select run_id, count(*) as times from events "
        "where type = 'run.queued' and data->>'reason' = 'lease ended' group by 1"
    )
    lost = {row["run_id"]: int(row["times"]) for row in await connection.fetch(ended)}
    findings.counts["leases that ended"] = sum(lost.values())
    by_call: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in effects.all():
        by_call[line["call"]].append(line)
        findings.counts["effects"] += 1
        ended = over.get(line["call"], line["at"])
        if line["at"] <= ended:
            continue
        if any(each.was_in(line, ended) for each in freezes):
            findings.counts["effects of the frozen"] += 1
        else:
            findings.faults.append(f"happened again although it was over: {line}")
    calls = Counter[tuple[str, str]]()
    for call, lines in by_call.items():
        run, what = lines[0]["run"], lines[0]["what"]
        calls[run, what] += 1
        may = 1 if what in never_twice else 1 + lost.get(run, 0)
        if len(lines) > may:
            findings.faults.append(f"happened {len(lines)} times: {what} of {call}")
        if len({line["on"] for line in lines}) > 1:
            findings.faults.append(f"happened again with other arguments: {what} of {call}")
        findings.counts["effects again"] += len(lines) - 1
    findings.faults += [
        f"happened under several ids: {what} of {run}"
        for (run, what), number in calls.items()
        if number > 1
    ]


async def _look_at_notices(
    connection: asyncpg.Connection, findings: Findings, received: Sequence[Received]
) -> None:
    """Whether nobody was told of one pause under two ids, or of a pause that there is not."""
    arrived = {each.headers["webhook-id"] for each in received}
    findings.faults += [
        f"a notice that did not arrive: {row['id']}"
        for row in await connection.fetch("select id from deliveries")
        if row["id"] not in arrived
    ]
    pauses = {row["id"] for row in await connection.fetch("select id from pauses")}
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in received:
        findings.counts["notices received"] += 1
        pause = each.json["data"]["pause"]
        if pause["id"] not in pauses:
            findings.faults.append(f"told of a pause that there is not: {pause['id']}")
        told[pause["id"], each.json["type"]].add(each.headers["webhook-id"])
    findings.faults += [
        f"told under several ids: {pause} {kind}"
        for (pause, kind), ids in told.items()
        if len(ids) > 1
    ]
