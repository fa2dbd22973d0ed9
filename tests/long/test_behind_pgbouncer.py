"""The service behind a PgBouncer in transaction mode: it pauses, is decided, races, streams and recovers all the same.

The tests are those of processes, run once more with a pooler between the service and Postgres. All others run so
too, as far as they do not speak to Postgres themselves: `SIGNOFF_TEST_PGBOUNCER=1 pytest …`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pooler import PGBOUNCER

REPOSITORY = Path(__file__).parents[2]
CORE = (
    "test_pausing.py",
    "test_racing_decisions.py",
    "test_racing_deadlines.py",
    "test_one_run_a_thread.py",
    "test_idempotency.py",
    "test_following.py",
    "test_after_a_kill.py",
    "test_draining.py",
)
BY_HINTS = "test_a_worker_passes_on_what_its_models_write_to_who_follows_elsewhere"
"""What models are writing goes from process to process by notifications, which no such pooler passes on."""


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed: apt install pgbouncer")
@pytest.mark.timeout(900)
def test_behind_a_pooler_in_transaction_mode_everything_goes_on() -> None:
    tests = [f"tests/e2e/{name}" for name in CORE]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *tests,
            "-k",
            f"not {BY_HINTS}",
        ],
        cwd=REPOSITORY,
        env={**os.environ, "SIGNOFF_TEST_PGBOUNCER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
