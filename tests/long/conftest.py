"""The same processes as the shorter tests have, and a way to say what was counted."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.e2e.conftest import api, effects, other_api, own, town

__all__ = ["api", "effects", "other_api", "own", "town"]

Say: TypeAlias = Callable[[str], None]


@pytest.fixture
def say(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Say:
    """Writes a line between the results."""
    reporter: Any = request.config.pluginmanager.get_plugin("terminalreporter")

    def write(text: str) -> None:
        with capsys.disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return write
