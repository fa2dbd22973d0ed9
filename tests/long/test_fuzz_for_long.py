"""The fuzz of the OpenAPI document again and again, each time other requests: `FUZZ_SECONDS` says for how long."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from tests.e2e.test_fuzz import fuzzing
from tests.long.conftest import Say

SECONDS = float(os.environ.get("FUZZ_SECONDS", "10"))
"""After which no other round is begun."""


@pytest.mark.timeout(SECONDS + 600)
async def test_no_request_has_an_answer_that_the_document_does_not_describe(
    tmp_path: Path, database_url: str, say: Say
) -> None:
    number = random.randrange(1 << 30)
    async with fuzzing(tmp_path, database_url) as fuzz:
        until = time.monotonic() + SECONDS
        while not fuzz.faults and time.monotonic() < until:
            await asyncio.to_thread(fuzz.run, 10, number=number)
            number += 1
    say(f"fuzz: {fuzz.statuses.total()} answers, {dict(sorted(fuzz.statuses.items()))}")
    assert fuzz.faults == [], f"number={number - 1}"
    assert {200, 401, 403, 404, 422} <= fuzz.statuses.keys()
