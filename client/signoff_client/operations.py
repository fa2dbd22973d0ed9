"""What can be asked of the service, each as a plan; both clients have these as their methods.

Paths and methods are named here and nowhere else.
"""

import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from signoff_client import decisions
from signoff_client.decisions import Action, Decision
from signoff_client.following import Following
from signoff_client.models import (
    AuditAction,
    AuditRow,
    Delivery,
    DeliveryStatus,
    DeliverySummary,
    Json,
    Page,
    Pause,
    PauseKind,
    PauseLevel,
    PauseStatus,
    Reply,
    Run,
    Session,
    Thread,
    Workflow,
    WorkflowSummary,
)
from signoff_client.plans import Plan, Request, ask, json_of, read
from signoff_client.problems import WaitTimedOut

T = TypeVar("T")

LONGEST_WAIT: Final = 60
"""Seconds that the service keeps an answer back at most."""

_USUAL_WAIT: Final = 3
"""Seconds that it does where a POST does not say how long."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks: in whose name decisions are sent, and how often a request is made again."""

    by: str | None
    retries: int


class Once(TypedDict, total=False):
    """What every request that changes something takes.

    `idempotency_key` is a name of your own for it: sent again with the same one, also by another process, it does
    nothing again. Without one the client makes one, so that its own retries do nothing twice.
    """

    idempotency_key: str


class Deciding(Once, total=False):
    """What every decision takes.

    `feedback` says why, and a model reads it with a rejection. `by` is who decides, where that is not the client's
    own. `wait` are the seconds to wait for the run, 3 by default. The `reply` of a notice decides its pause
    without a key.
    """

    feedback: str | None
    by: str | None
    wait: float | None
    reply: Reply | None


class Pages(Protocol[T]):
    """The pages of a list."""

    def __call__(self, cursor: str | None) -> Plan[Page[T]]:
        """The page that begins at a cursor, or the first."""
        ...


class Callback(TypedDict, total=False):
    """An address that is told of a run's events. The secret, `whsec_…`, signs what is told."""

    url: str
    secret: str | None


# ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────


def start_run(
    caller: Caller,
    workflow: str,
    input: Json,
    *,
    thread_id: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    callback: Callback | None = None,
    if_not_exists: Literal["reject", "create"] | None = None,
    if_paused: Literal["reject", "supersede"] = "reject",
    wait: float | None = None,
    **once: Unpack[Once],
) -> Plan[Run]:
    """Starts a run and waits until it is settled, for 3 seconds unless `wait` says otherwise.

    In a new thread, unless one is named; one that is named has to be there, or is made with
    `if_not_exists="create"`. A run that takes longer is given as it is then: see `wait_for_run`.
    """
    body = {
        "workflow": workflow,
        "input": input,
        "metadata": metadata or {},
        "if_not_exists": if_not_exists or ("reject" if thread_id else "create"),
        "if_paused": if_paused,
    }
    if callback:
        body["callback"] = callback
    path = _path("threads", thread_id or _new_thread_id(), "runs")
    return _done(caller, _posted(path, body, once, wait=wait), _RUN)


def get_run(caller: Caller, thread_id: str, run_id: str, *, wait: float = 0) -> Plan[Run]:
    """A run as it is; with `wait`, once it is settled, or as it is after so many seconds (at most 60)."""
    return _done(caller, _got(_path("threads", thread_id, "runs", run_id), wait=wait), _RUN)


def wait_for_run(caller: Caller, run: Run, *, timeout: float | None = None) -> Plan[Run]:
    """The run once it is settled: it has ended, or waits for a decision.

    The service says when; nothing is polled. `timeout` are seconds, in whole ones; without it, it takes as long as
    it takes.

    Raises:
        WaitTimedOut: It is not settled by then.
    """
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        seconds = max(1, min(LONGEST_WAIT, math.ceil(min(end - time.monotonic(), LONGEST_WAIT))))
        run = yield from get_run(caller, run.thread_id, run.id, wait=seconds)
        if run.is_settled:
            return run
        if time.monotonic() >= end:
            raise WaitTimedOut(run)


def cancel_run(caller: Caller, run: Run, **once: Unpack[Once]) -> Plan[Run]:
    """Ends a run, whatever it is doing. One that has ended is given as it is."""
    path = _path("threads", run.thread_id, "runs", run.id, "cancel")
    return _done(caller, _posted(path, {}, once), _RUN)


def list_runs(caller: Caller, thread_id: str) -> Pages[Run]:
    """The runs of a thread, newest first."""
    return _pages(caller, _path("threads", thread_id, "runs"), TypeAdapter(Page[Run]))


def run_events(caller: Caller, run: Run, *, after: str | None = None) -> Following:
    """What happens in a run, as it happens, from its beginning until it has ended.

    A connection that is lost is made again, and the stream goes on where it was. `after` is the `id` of an event
    that you had.
    """
    path = _path("threads", run.thread_id, "runs", run.id, "events")
    return Following(path=path, query={}, after=after, retries=caller.retries, ends=True)


def events(
    caller: Caller, *, types: list[str] | None = None, after: str | None = None
) -> Following:
    """What happens in all runs, from now on, or after the event whose `id` is given; it has no end.

    `types` are those to hear of; `pause.*` is all that begin so.
    """
    query = {"types": ",".join(types)} if types else {}
    return Following(path="/events", query=query, after=after, retries=caller.retries, ends=False)


# ── Pauses ───────────────────────────────────────────────────────────────────────────────────────────


def list_pauses(
    caller: Caller,
    *,
    status: PauseStatus | None = None,
    kind: PauseKind | None = None,
    level: PauseLevel | None = None,
    workflow: str | None = None,
    channel: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
) -> Pages[Pause]:
    """Pauses over all runs that have all of these, the longest waiting first."""
    filters = {
        "status": status,
        "kind": kind,
        "level": level,
        "workflow": workflow,
        "channel": channel,
        "thread_id": thread_id,
        "run_id": run_id,
    }
    return _pages(caller, "/pauses", TypeAdapter(Page[Pause]), filters)


def get_pause(caller: Caller, pause_id: str) -> Plan[Pause]:
    """One pause, open or not."""
    return _done(caller, _got(_path("pauses", pause_id)), _PAUSE)


def extend_pause(
    caller: Caller, pause: Pause, expires_at: datetime, **once: Unpack[Once]
) -> Plan[Pause]:
    """The pause with another deadline, which has to be to come. A time without an offset is local time."""
    body = {"expires_at": expires_at.astimezone().isoformat()}
    return _done(caller, _posted(_path("pauses", pause.id, "extend"), body, once), _PAUSE)


def decide(
    caller: Caller, pause: Pause, decision: Decision, **deciding: Unpack[Deciding]
) -> Plan[Run]:
    """Decides a pause, about exactly what it shows, and waits until its run is settled again.

    For 3 seconds, unless `wait` says otherwise: see `wait_for_run`.

    Raises:
        InvalidDecision: The pause does not take it, and stays open.
        PauseClosed: It is not open any more.
        DigestMismatch: It shows something else by now.
    """
    reply, feedback = deciding.get("reply"), deciding.get("feedback")
    by = deciding.get("by") or (None if reply else caller.by)
    said = decision if feedback is None else {**decision, "feedback": feedback}
    body = {"pause_id": pause.id, "decision": {**said, "by": by} if by else said}
    headers = {"if-match": f'"{pause.digest}"'} if pause.digest else {}
    if reply:
        headers["authorization"] = f"Bearer {reply.token}"
    url = reply.url if reply else _path("threads", pause.thread_id, "resume")
    wait = deciding.get("wait")
    return _done(caller, _posted(url, body, deciding, wait=wait, headers=headers), _RUN)


def approve(caller: Caller, pause: Pause, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """Yes: to an `approval`, a `confirmation` or a `review`. See `decide`."""
    return decide(caller, pause, decisions.approval(), **deciding)


def reject(caller: Caller, pause: Pause, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """No: to one of these, or to answering at all where a value is asked for. See `decide`."""
    return decide(caller, pause, decisions.rejection(), **deciding)


def edit(caller: Caller, pause: Pause, changed: Json, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """Yes, with this in the place of what is shown: all arguments of an `approval`, the output of a `review`.

    Sensitive arguments that are left out or `"***"` stay as they are. See `decide`.
    """
    return decide(caller, pause, decisions.edit(pause, changed), **deciding)


def answer(caller: Caller, pause: Pause, value: Json, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """Answers the question of an `interactive`. See `decide`."""
    return decide(caller, pause, decisions.answer(value), **deciding)


def fill(caller: Caller, pause: Pause, values: Json, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """The values that an `input` asks for, as a mapping or a model. See `decide`."""
    return decide(caller, pause, decisions.answer(values), **deciding)


def report(caller: Caller, pause: Pause, result: Json, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """What came of the work that an `external_result` asks for. See `decide`."""
    return decide(caller, pause, decisions.answer(result), **deciding)


def choose(caller: Caller, pause: Pause, *names: str, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """The ways on that a `route` takes, in their order. See `decide`."""
    return decide(caller, pause, decisions.answer(list(names)), **deciding)


def act(caller: Caller, pause: Pause, action: Action, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """What to do after an `error` (`retry`, `skip`, `fail`) or an `unknown_outcome` (`run_again`, `fail`).

    See `decide`.
    """
    return decide(caller, pause, decisions.action(action), **deciding)


def use_value(caller: Caller, pause: Pause, value: Json, **deciding: Unpack[Deciding]) -> Plan[Run]:
    """What came of the call that an `unknown_outcome` is about, so that it is not run again. See `decide`."""
    return decide(caller, pause, decisions.outcome(value), **deciding)


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────────


def create_thread(
    caller: Caller,
    *,
    id: str | None = None,
    workflow: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    **once: Unpack[Once],
) -> Plan[Thread]:
    """A new thread. `workflow` is a note of what it is for."""
    body = {"id": id, "workflow": workflow, "metadata": metadata or {}}
    return _done(caller, _posted("/threads", body, once), _THREAD)


def get_thread(caller: Caller, thread_id: str) -> Plan[Thread]:
    """One thread."""
    return _done(caller, _got(_path("threads", thread_id)), _THREAD)


def list_threads(caller: Caller) -> Pages[Thread]:
    """Threads, newest first."""
    return _pages(caller, "/threads", TypeAdapter(Page[Thread]))


def delete_thread(caller: Caller, thread_id: str) -> Plan[None]:
    """Deletes a thread with all its runs; one with an unfinished run stays, and is `ThreadBusy` or `ThreadPaused`."""
    yield from ask(
        Request(method="DELETE", url=_path("threads", thread_id)), retries=caller.retries
    )


# ── What is served, what was told, who did what ──────────────────────────────────────────────────────


def list_workflows(caller: Caller) -> Pages[WorkflowSummary]:
    """What is served."""
    return _pages(caller, "/workflows", TypeAdapter(Page[WorkflowSummary]), paged=False)


def get_workflow(caller: Caller, name: str) -> Plan[Workflow]:
    """One workflow: steps, agents, tools, channels, schemas, a graph."""
    return _done(caller, _got(_path("workflows", name)), TypeAdapter(Workflow))


def list_deliveries(
    caller: Caller,
    *,
    status: DeliveryStatus | None = None,
    channel: str | None = None,
    thread_id: str | None = None,
) -> Pages[DeliverySummary]:
    """Notices, newest first."""
    filters = {"status": status, "channel": channel, "thread_id": thread_id}
    return _pages(caller, "/deliveries", TypeAdapter(Page[DeliverySummary]), filters)


def get_delivery(caller: Caller, delivery_id: str) -> Plan[Delivery]:
    """One notice, with its attempts."""
    return _done(caller, _got(_path("deliveries", delivery_id)), _DELIVERY)


def retry_delivery(caller: Caller, delivery_id: str, **once: Unpack[Once]) -> Plan[Delivery]:
    """Sends a dead notice again."""
    return _done(caller, _posted(_path("deliveries", delivery_id, "retry"), {}, once), _DELIVERY)


def list_audit(
    caller: Caller,
    *,
    action: AuditAction | None = None,
    by: str | None = None,
    credential: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
    pause_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Pages[AuditRow]:
    """Who decided what, was refused, or did something else they answer for; newest first."""
    filters = {
        "action": action,
        "by": by,
        "credential": credential,
        "thread_id": thread_id,
        "run_id": run_id,
        "pause_id": pause_id,
        "since": since and since.astimezone().isoformat(),
        "until": until and until.astimezone().isoformat(),
    }
    return _pages(caller, "/audit", TypeAdapter(Page[AuditRow]), filters)


def get_session(caller: Caller) -> Plan[Session]:
    """Whose key this is, and what it is good for."""
    return _done(caller, _got("/session"), TypeAdapter(Session))


# ── How ──────────────────────────────────────────────────────────────────────────────────────────────


_RUN: Final = TypeAdapter(Run)
_PAUSE: Final = TypeAdapter(Pause)
_THREAD: Final = TypeAdapter(Thread)
_DELIVERY: Final = TypeAdapter(Delivery)


def _done(caller: Caller, request: Request, adapter: TypeAdapter[T]) -> Plan[T]:
    answer: httpx.Response = yield from ask(request, retries=caller.retries)
    return read(answer, adapter)


def _got(url: str, *, query: Mapping[str, str] | None = None, wait: float = 0) -> Request:
    headers = _preference(wait) if wait > 0 else {}
    return Request(method="GET", url=url, query=query or {}, headers=headers, patience=wait)


def _posted(
    url: str,
    body: Mapping[str, Any],
    once: Once | Deciding,
    *,
    wait: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    named = {
        "content-type": "application/json",
        "idempotency-key": once.get("idempotency_key") or secrets.token_hex(16),
        **(_preference(wait) if wait is not None else {}),
        **(headers or {}),
    }
    patience = _USUAL_WAIT if wait is None else wait
    return Request(method="POST", url=url, headers=named, content=json_of(body), patience=patience)


def _preference(wait: float) -> dict[str, str]:
    return {"prefer": f"wait={math.ceil(wait)}" if wait > 0 else "respond-async"}


def _pages(
    caller: Caller,
    path: str,
    adapter: TypeAdapter[Page[T]],
    filters: Mapping[str, str | None] | None = None,
    *,
    paged: bool = True,
) -> Pages[T]:
    query = {name: each for name, each in (filters or {}).items() if each is not None}
    if paged:
        query["limit"] = "100"

    def page(cursor: str | None) -> Plan[Page[T]]:
        begun = {**query, "cursor": cursor} if cursor else query
        return _done(caller, _got(path, query=begun), adapter)

    return page


def _path(*parts: str) -> str:
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def _new_thread_id() -> str:
    """As the service makes them: milliseconds, then chance, so that they sort by their age."""
    return f"thr_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
