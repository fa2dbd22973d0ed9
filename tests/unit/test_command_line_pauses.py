"""How a list of pauses looks in a terminal."""

from typing import Any

import pytest
from rich.console import Console

from app.cli.pause_view import listing


def pause(message: str) -> dict[str, Any]:
    return {
        "id": "pau_1",
        "kind": "approval",
        "workflow": "letters",
        "channel": "desk",
        "opened_at": "2026-01-01T00:00:00Z",
        "expires_at": None,
        "status": "open",
        "message": message,
    }


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ("Send it?", "Send it?"),
        ("\n  Send it?\nIt says:\r\n- a\n- b", "Send it?…"),
        ("Send it?\n", "Send it?"),
        ("why " * 50, "why " * 29 + "why…"),
        ("", ""),
    ],
    ids=["short", "lines", "ending", "long", "empty"],
)
def test_a_pause_takes_one_row_of_the_list_however_long_its_message(
    message: str, seen: str
) -> None:
    screen = Console(width=240)
    with screen.capture() as captured:
        screen.print(listing([pause(message)]))
    _, row = captured.get().splitlines()
    assert row.rstrip().endswith(f"no deadline  {seen}".rstrip())
