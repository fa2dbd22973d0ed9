"""Processes are watched: a worker that serves nobody too, on a port of its own."""

import httpx

from tests.service import Processes, free_port, until
from tests.workflows.effects import Effects


async def test_a_worker_is_watched_on_a_port_of_its_own_until_it_has_drained(
    own: Processes, effects: Effects
) -> None:
    port = free_port()
    serving = await own.serve("--no-worker")
    worker = await own.work(metrics_port=port, drain_seconds=60)
    async with (
        serving.api() as api,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as watcher,
    ):
        assert (await watcher.get("/livez")).status_code == 200
        assert (await watcher.get("/readyz")).json() == {"status": "ready"}
        assert (await watcher.get("/threads")).status_code == 404
        run = await api.accepted("jobs", "last")
        await effects.wait_for("began last")
        assert "signoff_worker_slots_busy 1.0" in (await watcher.get("/metrics")).text
        assert "signoff_worker_slots 0.0" in (await api.ask("GET", "/metrics")).text

        worker.tell_to_stop()

        async def is_draining() -> bool:
            return "signoff_worker_slots 0.0" in (await watcher.get("/metrics")).text

        await until(is_draining)
        effects.permit("last")
        assert await worker.exit_code() == 0
        assert (await api.ended(run))["status"] == "completed"


async def test_a_port_that_is_taken_stops_the_start_with_one_line(own: Processes) -> None:
    port = free_port()
    await own.work(metrics_port=port)
    second = own.begin_serving(metrics_port=port)
    assert await second.exit_code() == 1
    said = second.complaints[-1]
    assert said.startswith(f"SIGNOFF_METRICS_PORT: cannot listen on 127.0.0.1:{port}: Address")


async def test_the_log_says_in_one_line_why_a_run_failed_and_everything_else_by_its_id(
    own: Processes,
) -> None:
    served = await own.serve()
    async with served.api() as api:
        paused = await api.started("letters")
        await api.decide(paused["pause"], x_request_id="mine")
        unlucky = await api.started("unlucky_letters")
        failed = await api.decided(unlucky["pause"])
    [line] = [each for each in served.log if each["event"] == "run failed"]
    assert (line["run_id"], line["thread_id"]) == (failed["id"], failed["thread_id"])
    assert (line["level"], line["code"], line["step"]) == (
        "warning",
        "step_failed",
        "unlucky_letters/stumble",
    )
    assert line["exception"][0]["type"] == "Unlucky"
    assert line["exception"][0]["frames"][-1].startswith("workflows/letters.py:")

    of_run = [each for each in served.log if each.get("run_id") == paused["id"]]
    assert [each["event"] for each in of_run] == [
        "pauses opened",
        "request",
        "pause closed",
        "run ended",
        "request",
    ]
    pause = paused["pause"]["id"]
    assert of_run[0]["pause_ids"] == [pause]
    assert of_run[2]["pause_id"] == of_run[4]["pause_id"] == pause
    assert of_run[2]["request_id"] == of_run[4]["request_id"] == "mine"
