"""What is traced: one tree for all that is done for a run, over its pauses and over processes."""

import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import asyncpg
import httpx
import pytest
import pytest_asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.authoring import (
    Agent,
    ModelRequest,
    Reply,
    ScriptedModel,
    Step,
    StepContext,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.watching.otel import LONGEST_STATE, OtelTracer
from examples.errands import errands
from tests.postgres import Cluster
from tests.receivers import Receiver, decides
from tests.service import until
from tests.serving import Service, decide, service, serving, site_over
from tests.workflows.papers import breaks

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one service for all of them

CALLERS_SPAN = "b7ad6b7169203331"
START, RESUME = "POST /threads/{thread_id}/runs", "POST /threads/{thread_id}/resume"
ADVANCE = "invoke_workflow errands"


class Spans:
    """The spans of one process that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider)

    def of(self, trace_id: str) -> list[ReadableSpan]:
        """Those of a trace, as they began."""
        found = [
            each
            for each in self._exporter.get_finished_spans()
            if trace.format_trace_id(context_of(each).trace_id) == trace_id
        ]
        return sorted(found, key=lambda each: each.start_time or 0)

    async def once(self, trace_id: str, *names: str) -> list[ReadableSpan]:
        """Those of a trace, once it has all of these. A request's ends after its answer has come."""

        async def looked_at() -> bool:
            return set(names) <= {each.name for each in self.of(trace_id)}

        await until(looked_at)
        return self.of(trace_id)

    @property
    def text(self) -> str:
        return "".join(each.to_json() for each in self._exporter.get_finished_spans())


@tool
async def stumble(over: str) -> str:
    """Fails."""
    raise RuntimeError(f"fell over {over}")


def _stumbles(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    return reply_with("sorry") if last.role == "tool" else call_tool(stumble, over="a canary")


stumblers = Workflow(
    "stumblers",
    version="1",
    input=str,
    steps=[Agent("clerk", prompt="Walk.", model=ScriptedModel(_stumbles), tools=[stumble])],
)


def _look_around(context: StepContext, value: str) -> str:
    with trace.get_tracer("writer").start_as_current_span("mine") as mine:
        return trace.format_trace_id(mine.get_span_context().trace_id)


lookers = Workflow("lookers", version="1", input=str, steps=[Step("look", _look_around)])


@pytest.fixture(scope="module")
def spans() -> Spans:
    return Spans()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def traced(cluster: Cluster, spans: Spans) -> AsyncGenerator[Service]:
    served = [errands, stumblers, breaks, lookers]
    async with (
        cluster.migrated_database() as url,
        service(url, served, tracer=spans.tracer) as begun,
    ):
        yield begun


@pytest.fixture
def trace_id() -> str:
    """The trace that the caller of this test is in."""
    return secrets.token_hex(16)


def traceparent(trace_id: str, *, is_sampled: bool = True) -> str:
    return f"00-{trace_id}-{CALLERS_SPAN}-{'01' if is_sampled else '00'}"


async def started(
    client: httpx.AsyncClient, workflow: str = "errands", *, url: str | None = None, **headers: str
) -> dict[str, Any]:
    """A run that is started with these headers, and tells a callback if one is named."""
    thread = (await client.post("/threads")).json()["id"]
    given = {"text": "late"} if workflow == "errands" else "late"
    body = {"workflow": workflow, "input": given, "callback": {"url": url} if url else None}
    answer = await client.post(f"/threads/{thread}/runs", json=body, headers=headers)
    return answer.json()


def context_of(span: ReadableSpan) -> trace.SpanContext:
    assert span.context is not None
    return span.context


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def under(parent: ReadableSpan, spans: Sequence[ReadableSpan]) -> list[str]:
    """The names of the spans within one, as they began."""
    return [
        each.name
        for each in spans
        if each.parent and each.parent.span_id == context_of(parent).span_id
    ]


def named(name: str, spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    return [each for each in spans if each.name == name]


def error_of(span: ReadableSpan) -> object:
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description is None
    assert not span.events
    return attributes_of(span)["error.type"]


async def test_all_that_is_done_for_a_run_is_one_tree_from_its_start_over_its_pause_to_its_end(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    async with Receiver() as receiver:
        run = await started(traced.client, url=receiver.url, traceparent=traceparent(trace_id))
        await receiver.wait_for(1)
        await decide(traced.client, run, {"approved": True, "by": "ada"})
        await receiver.wait_for(3)
        tree = await spans.once(
            trace_id,
            START,
            "deliver pause.opened",
            "deliver pause.decided",
            "deliver run.completed",
        )

    [start] = named(START, tree)
    assert start.parent is not None
    assert trace.format_span_id(start.parent.span_id) == CALLERS_SPAN
    assert start.kind is trace.SpanKind.SERVER
    assert sorted(under(start, tree)) == sorted(
        [
            ADVANCE,
            "deliver pause.opened",
            "decide approval",
            ADVANCE,
            "deliver pause.decided",
            "deliver run.completed",
        ]
    )
    first, second = named(ADVANCE, tree)
    assert under(first, tree) == ["chat assistant"]
    assert under(second, tree) == ["execute_tool send_email", "chat assistant"]
    assert len(tree) == 10
    assert not [each for each in tree if each.status.status_code is trace.StatusCode.ERROR]


async def test_spans_say_ids_names_and_counts(traced: Service, spans: Spans, trace_id: str) -> None:
    run = await started(traced.client, traceparent=traceparent(trace_id))
    call_id = run["pause"]["call"]["id"]
    await decide(traced.client, run, {"approved": True, "by": "ada"})
    tree = await spans.once(trace_id, START)
    first, second = named(ADVANCE, tree)
    ids = {"gen_ai.conversation.id": run["thread_id"], "signoff.run.id": run["id"]}
    of_runs = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": "errands", **ids}
    assert attributes_of(first) == of_runs | {"signoff.run.status": "paused"}
    assert attributes_of(second) == of_runs | {"signoff.run.status": "completed"}
    [opened] = first.events
    assert (opened.name, dict(opened.attributes or {})) == (
        "pause.opened",
        {"signoff.pause.kind": "approval"},
    )
    model = named("chat assistant", tree)[0]
    assert attributes_of(model) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "assistant",
        "gen_ai.response.model": "scripted",
        "gen_ai.usage.input_tokens": 0,
        "gen_ai.usage.output_tokens": 0,
        "signoff.model.finish": "complete",
        "signoff.outcome": "done",
    }
    [called] = named("execute_tool send_email", tree)
    assert attributes_of(called) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send_email",
        "gen_ai.tool.call.id": call_id,
        "signoff.outcome": "done",
    }


async def test_a_decision_is_in_the_trace_of_its_run_and_linked_to_the_request_that_brought_it(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    run = await started(traced.client, traceparent=traceparent(trace_id))
    other = secrets.token_hex(16)
    headers = {"traceparent": traceparent(other)}
    decision = {"approved": True, "by": "ada"}
    await decide(traced.client, run, decision, headers=headers)
    [resume] = await spans.once(other, RESUME)
    [decided] = named("decide approval", spans.of(trace_id))
    assert [each.context.span_id for each in decided.links] == [context_of(resume).span_id]
    assert attributes_of(decided) == {
        "signoff.pause.kind": "approval",
        "signoff.decision.via": "api",
        "signoff.pause.id": run["pause"]["id"],
        "signoff.run.id": run["id"],
    }


async def test_a_notice_carries_the_context_of_its_delivery(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    async with Receiver() as receiver:
        await started(
            traced.client,
            url=receiver.url,
            traceparent=traceparent(trace_id),
            tracestate="vendor=1,other=2",
        )
        [notice] = await receiver.wait_for(1)
        [delivery] = named(
            "deliver pause.opened", await spans.once(trace_id, "deliver pause.opened")
        )
    span_id = trace.format_span_id(context_of(delivery).span_id)
    assert notice.headers["traceparent"] == f"00-{trace_id}-{span_id}-01"
    assert notice.headers["tracestate"] == "vendor=1,other=2"
    attributes = attributes_of(delivery)
    assert attributes["http.response.status_code"] == 204
    assert (attributes["signoff.channel"], attributes["signoff.outcome"]) == (
        "callback",
        "delivered",
    )


async def test_a_notice_that_is_not_taken_is_an_error(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    async with Receiver(decides({})) as gone:
        url = gone.url
    await started(traced.client, url=url, traceparent=traceparent(trace_id))
    [delivery] = named("deliver pause.opened", await spans.once(trace_id, "deliver pause.opened"))
    assert error_of(delivery) == "not_delivered"


async def test_the_trace_goes_on_in_whichever_process_takes_the_run(
    database_url: str, trace_id: str
) -> None:
    here, there = Spans(), Spans()
    async with (
        site_over(database_url, [errands], works=False, tracer=here.tracer) as asked,
        site_over(database_url, [errands], tracer=there.tracer),
        serving(asked) as client,
    ):
        run = await started(client, traceparent=traceparent(trace_id), prefer="wait=20")
        await decide(client, run, {"approved": True, "by": "ada"}, headers={"prefer": "wait=20"})
        tree = [*await here.once(trace_id, START, "decide approval"), *await there.once(trace_id)]
    assert [each.name for each in there.of(trace_id)] == [
        ADVANCE,
        "chat assistant",
        ADVANCE,
        "execute_tool send_email",
        "chat assistant",
    ]
    [start] = named(START, tree)
    assert under(start, tree) == ["decide approval", ADVANCE, ADVANCE]


async def test_a_tool_that_fails_is_an_error_and_its_run_is_not(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    run = await started(traced.client, "stumblers", traceparent=traceparent(trace_id))
    assert run["status"] == "completed"
    tree = await spans.once(trace_id, START)
    [called] = named("execute_tool stumble", tree)
    assert error_of(called) == "tool_error"
    failed = [each for each in tree if each.status.status_code is trace.StatusCode.ERROR]
    assert failed == [called]
    assert not [said for said in ("canary", "fell over", "Walk.", "sorry") if said in spans.text]


async def test_a_run_that_fails_is_an_error(traced: Service, spans: Spans, trace_id: str) -> None:
    run = await started(traced.client, "breaks", traceparent=traceparent(trace_id))
    assert run["status"] == "failed"
    [advance] = named("invoke_workflow breaks", await spans.once(trace_id, START))
    assert error_of(advance) == "step_failed"
    assert "broken" not in spans.text


async def test_what_a_step_does_itself_is_in_the_trace_too(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    run = await started(traced.client, "lookers", traceparent=traceparent(trace_id))
    assert run["output"] == trace_id


async def test_a_run_whose_caller_is_in_no_trace_begins_one_and_probes_have_none(
    traced: Service, spans: Spans
) -> None:
    await traced.client.get("/livez")
    run = await started(traced.client, traceparent="made up")
    own = (await trace_of(traced, run))["traceparent"].split("-")[1]
    [start] = named(START, await spans.once(own, START))
    assert start.parent is None
    assert under(start, spans.of(own)) == [ADVANCE]
    assert "livez" not in spans.text


async def test_a_caller_who_does_not_want_to_be_traced_is_not(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    async with Receiver() as receiver:
        await started(
            traced.client, url=receiver.url, traceparent=traceparent(trace_id, is_sampled=False)
        )
        [notice] = await receiver.wait_for(1)
    assert notice.headers["traceparent"].startswith(f"00-{trace_id}-")
    assert notice.headers["traceparent"].endswith("-00")
    assert not spans.of(trace_id)


async def test_a_state_that_is_too_long_is_not_passed_on(
    traced: Service, spans: Spans, trace_id: str
) -> None:
    long = ",".join(f"vendor{number}={'x' * 200}" for number in range(LONGEST_STATE // 200 + 1))
    run = await started(traced.client, traceparent=traceparent(trace_id), tracestate=long)
    await spans.once(trace_id, START)
    assert "tracestate" not in await trace_of(traced, run)


async def test_without_traces_nothing_is_kept_and_nothing_is_passed_on(
    database_url: str, trace_id: str
) -> None:
    async with service(database_url, [errands]) as served, Receiver() as receiver:
        run = await started(served.client, url=receiver.url, traceparent=traceparent(trace_id))
        [notice] = await receiver.wait_for(1)
        assert await trace_of(served, run) is None
    assert "traceparent" not in notice.headers


async def trace_of(served: Service, run: dict[str, Any]) -> Any:
    """What the row of a run carries."""
    row = await served.site.database.fetch_row("select trace from runs where id = $1", run["id"])
    assert isinstance(row, asyncpg.Record)
    return row["trace"]
