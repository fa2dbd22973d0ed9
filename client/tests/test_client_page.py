"""The page on the client is true: its blocks run as they stand, and print what the page says."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from app.channels.signing import parse_secret, sign
from client.tests.conftest import Served
from signoff_client import SignoffClient

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run_page(served: Served) -> dict[str, Any]:
    """What the blocks of the page define, once they have run."""
    namespace: dict[str, Any] = {"__name__": "page", "URL": served.url, "SECRET": SECRET}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), namespace)
    namespace["signoff"].close()
    return namespace


def test_every_block_runs_and_prints_what_the_page_says(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page(served)

    assert capsys.readouterr().out == "".join(blocks("text"))


def test_the_receiver_of_the_page_decides_in_its_answer(
    served: Served, client: SignoffClient
) -> None:
    run = client.start_run("errands", {"text": "hello"}, wait=30)
    assert run.pause
    data = {
        "event_sequence": 1,
        "thread_id": run.thread_id,
        "run_id": run.id,
        "workflow": run.workflow.model_dump(),
        "run_status": run.status,
        "pause": run.pause.model_dump(mode="json"),
        "run": None,
        "reply": None,
    }
    notice = {"type": "pause.opened", "timestamp": "2026-01-02T03:04:05Z", "data": data}
    body, sent_at = json.dumps(notice).encode(), int(time.time())
    headers = {
        "webhook-id": "dlv_1",
        "webhook-timestamp": str(sent_at),
        "webhook-signature": sign([parse_secret(SECRET)], "dlv_1", sent_at, body),
    }

    answer = run_page(served)["told"](body, headers)

    assert answer == {"decision": {"approved": True, "feedback": "stays in the house"}}
    client.decide(run.pause, answer["decision"])
