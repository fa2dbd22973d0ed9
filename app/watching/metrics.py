"""What one process counts, and how it is told to Prometheus.

Counters are of this process and begin at zero with it. What waits is read from the database when somebody
asks, and is the same in every process. Labels are what writers declare and what the service names itself,
never an id, a tenant or a caller's words; what others name, as a provider its model, is cut off at
`MOST_NAMES`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder

from app.domain.ledger import LedgerEntry, LedgerKind
from app.watching.backlog import AGES, Backlog, PoolUse, SlotUse

MOST_NAMES: Final = 100
"""How many names that come from outside have a label of their own; all others share `other`."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_QUEUE_SECONDS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
_WORK_SECONDS: Final = (0.005, 0.02, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_PEOPLE_SECONDS: Final = (1, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800)


@dataclass(frozen=True, kw_only=True)
class Exposition:
    """The metrics as they are sent."""

    body: bytes
    media_type: str


class Metrics:
    """The metrics of one process. A method a fact; none of them waits, and none of them raises."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._build = self._gauge(
            "signoff_build_info", "1, with the version as its label.", "version"
        )
        self._build.labels(version).set(1)
        self._models = _Bounded(MOST_NAMES)
        self._make_http()
        self._make_runs()
        self._make_pauses()
        self._make_calls()
        self._make_deliveries()
        self._make_process()
        self._backlog = _BacklogMetrics(self.registry)

    # ── HTTP ─────────────────────────────────────────────────────────────────────────────────────

    def _make_http(self) -> None:
        self._requests = self._counter(
            "signoff_http_requests", "Requests answered.", "method", "route", "status"
        )
        self._turned_away = self._counter(
            "signoff_requests_turned_away",
            "Requests refused for their credential: what is wrong with it, or the scope that it lacks.",
            "code",
            "why",
        )
        self._request_seconds = self._histogram(
            "signoff_http_request_seconds",
            "From a request's head to the end of its answer, waiting for runs included.",
            _REQUEST_SECONDS,
            "method",
            "route",
        )

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request has its answer. No `route`: nothing is at that path. Status 0: the client went away."""
        labels = (method if method in _METHODS else "other", route or "none")
        self._requests.labels(*labels, status).inc()
        self._request_seconds.labels(*labels).observe(seconds)

    def turned_away(self, code: str, why: str) -> None:
        """A credential was not good, or not for what was asked."""
        self._turned_away.labels(code, why).inc()

    # ── Runs ─────────────────────────────────────────────────────────────────────────────────────

    def _make_runs(self) -> None:
        self._started = self._counter("signoff_runs_started", "Runs accepted.", "workflow")
        self._ended = self._counter(
            "signoff_runs_ended",
            "Runs that this process has ended; `code` says why they failed.",
            "workflow",
            "status",
            "code",
        )
        self._claim = self._histogram(
            "signoff_claim_latency_seconds",
            "How long runs were queued when this process claimed them; one that is taken at once is not queued.",
            _QUEUE_SECONDS,
        )
        self._losses = self._counter(
            "signoff_lease_losses", "Runs that this process had and lost to the end of a lease."
        )
        self._rescues = self._counter(
            "signoff_leases_ended",
            "Runs that this process queued again, since their lease had ended.",
        )

    def run_started(self, workflow: str) -> None:
        self._started.labels(workflow).inc()

    def run_ended(self, workflow: str, status: str, code: str | None = None) -> None:
        self._ended.labels(workflow, status, code or "").inc()

    def claimed(self, waited: float) -> None:
        """A run was taken from the queue, after so many seconds."""
        self._claim.observe(waited)

    def lease_lost(self) -> None:
        self._losses.inc()

    def leases_ended(self, count: int) -> None:
        """Runs of workers that are gone were queued again."""
        self._rescues.inc(count)

    # ── Pauses ───────────────────────────────────────────────────────────────────────────────────

    def _make_pauses(self) -> None:
        self._opened = self._counter("signoff_pauses_opened", "Pauses opened.", "workflow", "kind")
        self._decision_seconds = self._histogram(
            "signoff_decision_seconds",
            "From the opening of a pause to what closed it: `via` a door, or its deadline.",
            _PEOPLE_SECONDS,
            "workflow",
            "kind",
            "via",
        )
        self._refused = self._counter(
            "signoff_decisions_refused", "Decisions refused.", "via", "code"
        )

    def pause_opened(self, workflow: str, kind: str) -> None:
        self._opened.labels(workflow, kind).inc()

    def decided(self, workflow: str, kind: str, via: str, seconds: float) -> None:
        """A pause was closed by a decision or by its deadline, so long after it was opened."""
        self._decision_seconds.labels(workflow, kind, via).observe(seconds)

    def refused(self, via: str, code: str) -> None:
        self._refused.labels(via, code).inc()

    # ── Models and tools ─────────────────────────────────────────────────────────────────────────

    def _make_calls(self) -> None:
        self._model_calls = self._counter(
            "signoff_model_calls", "Model calls in the ledger.", "workflow", "agent", "model"
        )
        self._tokens = self._counter(
            "signoff_model_tokens",
            "Tokens in the ledger; `cached` ones are part of `input`.",
            "workflow",
            "agent",
            "model",
            "kind",
        )
        self._tool_calls = self._counter(
            "signoff_tool_calls", "Tool calls in the ledger.", "workflow", "agent", "tool"
        )
        self._cost = self._counter(
            "signoff_cost_usd", "Cost in the ledger, in US dollars.", "workflow", "agent", "kind"
        )
        self._model_seconds = self._histogram(
            "signoff_model_seconds",
            "How long models took to answer, or to fail, retries included.",
            _WORK_SECONDS,
            "workflow",
            "agent",
            "outcome",
        )
        self._tool_seconds = self._histogram(
            "signoff_tool_seconds",
            "How long tools ran until their result, their error or their question, retries included.",
            _WORK_SECONDS,
            "workflow",
            "tool",
            "outcome",
        )

    def spent(self, workflow: str, entries: Iterable[LedgerEntry]) -> None:
        """Calls were written to the ledger."""
        for entry in entries:
            if entry.kind is LedgerKind.TOOL:
                self._tool_calls.labels(workflow, entry.agent, entry.name).inc()
            else:
                self._count_model(workflow, entry)
            if entry.cost:
                self._cost.labels(workflow, entry.agent, entry.kind).inc(float(entry.cost))

    def _count_model(self, workflow: str, entry: LedgerEntry) -> None:
        labels = (workflow, entry.agent, self._models.label(entry.name))
        self._model_calls.labels(*labels).inc()
        for kind, tokens in (
            ("input", entry.input_tokens),
            ("output", entry.output_tokens),
            ("cached", entry.cached_input_tokens),
        ):
            if tokens:
                self._tokens.labels(*labels, kind).inc(tokens)

    def model_took(self, workflow: str, agent: str, outcome: str, seconds: float) -> None:
        self._model_seconds.labels(workflow, agent, outcome).observe(seconds)

    def tool_took(self, workflow: str, tool: str, outcome: str, seconds: float) -> None:
        self._tool_seconds.labels(workflow, tool, outcome).observe(seconds)

    # ── Deliveries ───────────────────────────────────────────────────────────────────────────────

    def _make_deliveries(self) -> None:
        self._attempts = self._counter(
            "signoff_delivery_attempts",
            "Attempts at notices: `delivered`, `pending` (it will be tried again) or `dead`.",
            "channel",
            "outcome",
        )
        self._lag = self._histogram(
            "signoff_delivery_lag_seconds",
            "From what happened to the notice's arrival, all attempts included.",
            _QUEUE_SECONDS,
            "channel",
        )

    def attempted(self, channel: str | None, outcome: str) -> None:
        """A notice was tried. No channel: it went to a run's own callback."""
        self._attempts.labels(channel or "callback", outcome).inc()

    def delivered(self, channel: str | None, lag: float) -> None:
        self._lag.labels(channel or "callback").observe(lag)

    # ── The process ──────────────────────────────────────────────────────────────────────────────

    def _make_process(self) -> None:
        self._broken = self._counter(
            "signoff_worker_loop_errors", "Rounds of the worker's loops that failed.", "loop"
        )
        self._slots = self._gauge(
            "signoff_worker_slots", "Runs that this worker may advance at once."
        )
        self._slots_busy = self._gauge("signoff_worker_slots_busy", "Runs that it advances.")
        self._pool = self._gauge("signoff_database_pool_size", "Connections that may be at work.")
        self._pool_busy = self._gauge("signoff_database_pool_busy", "Connections at work.")
        self._pool_waiting = self._gauge(
            "signoff_database_pool_waiting", "Statements that wait for a connection."
        )

    def loop_broke(self, loop: str) -> None:
        self._broken.labels(loop).inc()

    def expose(
        self, accept: str, *, backlog: Backlog | None, pool: PoolUse, slots: SlotUse
    ) -> Exposition:
        """Everything, in the format that `accept` prefers. No `backlog`: the database cannot be reached."""
        self._slots.set(slots.size)
        self._slots_busy.set(slots.busy)
        self._pool.set(pool.size)
        self._pool_busy.set(pool.busy)
        self._pool_waiting.set(pool.waiting)
        self._backlog.show(backlog)
        encode, media_type = choose_encoder(accept)
        return Exposition(body=encode(self.registry), media_type=media_type)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(name, says, labels, registry=self.registry)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(name, says, labels, registry=self.registry)

    def _histogram(self, name: str, says: str, buckets: Iterable[float], *labels: str) -> Histogram:
        return Histogram(name, says, labels, registry=self.registry, buckets=tuple(buckets))


class _Bounded:
    """Names that come from outside, as labels: the first so many, then `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._seen and len(self._seen) >= self._most:
            return "other"
        self._seen.add(name)
        return name


class _BacklogMetrics:
    """What waits in the database, as it was read last."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, says: str, *labels: str) -> Gauge:
            return Gauge(name, says, labels, registry=registry)

        self._up = gauge(
            "signoff_database_up", "1 where the database answered this request, else 0."
        )
        self._open = gauge("signoff_open_pauses", "Open pauses.", "workflow")
        self._older = gauge(
            "signoff_open_pauses_older", "Open pauses that are older than `age`.", "workflow", "age"
        )
        self._oldest = gauge(
            "signoff_oldest_open_pause_seconds", "The age of the oldest open pause.", "workflow"
        )
        self._numbers = {
            name: gauge(f"signoff_{metric}", says)
            for name, metric, says in (
                ("queued", "queued_runs", "Runs that wait for a worker."),
                ("longest_queued", "longest_queued_run_seconds", "How long the first of them has."),
                ("running", "running_runs", "Runs that a worker has."),
                ("without_worker", "runs_without_worker", "Runs whose worker's lease has ended."),
                ("pending_deliveries", "pending_deliveries", "Notices that are to be sent."),
                ("longest_due", "longest_due_delivery_seconds", "How long the first is overdue."),
                ("dead_deliveries", "dead_deliveries", "Notices that nobody tries again."),
            )
        }

    def show(self, backlog: Backlog | None) -> None:
        self._up.set(backlog is not None)
        for gauge in (self._open, self._older, self._oldest):
            gauge.clear()
        for name, gauge in self._numbers.items():
            gauge.set(float("nan") if backlog is None else getattr(backlog, name))
        if backlog is None:
            return
        for workflow, pauses in backlog.open_pauses.items():
            self._open.labels(workflow).set(pauses.count)
            self._oldest.labels(workflow).set(pauses.oldest)
            for age in AGES:
                self._older.labels(workflow, age).set(pauses.older[age])
