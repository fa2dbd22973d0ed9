"""Traces of processes: sent to a collector as the environment says, and kept over a crash."""

import secrets
from pathlib import Path

from tests.e2e.conftest import WORKFLOWS
from tests.receivers import Answer, Receiver
from tests.service import processes
from tests.workflows.effects import VARIABLE, Effects


async def test_a_run_goes_on_in_its_trace_when_its_process_is_killed(
    tmp_path: Path, database_url: str, effects: Effects
) -> None:
    trace_id = secrets.token_hex(16)
    async with Receiver(Answer(status=200)) as collector:
        environment = {
            VARIABLE: str(effects.path),
            "SIGNOFF_LEASE_SECONDS": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
            "OTEL_SERVICE_NAME": "the desk",
        }
        with processes(
            tmp_path, workflows=WORKFLOWS, database_url=database_url, environment=environment
        ) as begun:
            doomed, following = begun.begin_serving(), begun.begin_serving()
            await doomed.ready()
            await following.ready()
            async with doomed.api() as api:
                caller = f"00-{trace_id}-b7ad6b7169203331-01"
                run = await api.accepted("jobs", "long", traceparent=caller)
            await effects.wait_for("began long")
            doomed.kill()
            effects.permit("long")
            async with following.api() as api:
                assert (await api.ended(run))["status"] == "completed"
            following.tell_to_stop()
            assert await following.exit_code() == 0
    sent = [each for each in collector.received if bytes.fromhex(trace_id) in each.body]
    [spans] = [each for each in sent if b"invoke_workflow jobs" in each.body]
    assert (spans.method, spans.path) == ("POST", "/v1/traces")
    assert b"the desk" in spans.body
    assert b"execute_tool" in spans.body
