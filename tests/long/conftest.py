"""The same processes as the shorter tests have, and a way to say what was counted."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.e2e.conftest import api, effects, other_api, own, town

__all__ = ["api", "effects", "other_api", "own", "town"]

Say: TypeAlias = Callable[[str], None]


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Say:
    """Keeps a line for the end, also where tests run in several processes."""

    def keep(text: str) -> None:
        record_property("said", text)

    return keep


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Writes what the tests have said."""
    reports = (each for kind in ("passed", "failed") for each in terminalreporter.getreports(kind))
    for report in reports:
        for name, text in report.user_properties if report.when == "call" else ():
            if name == "said":
                terminalreporter.write_line(text)
