"""The list of commands: each is there, says the same in the list as by itself, and costs nothing until called."""

import subprocess
import sys

import pytest

from app.cli import COMMANDS, command_of

_ASKED_FOR_HELP = """
import sys
from app.cli import app
try:
    app(["--help"])
except SystemExit as end:
    assert end.code == 0, end.code
print(sorted(name for name in sys.modules if name.startswith("app.")))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_the_same_in_the_list_and_in_its_own_help(name: str) -> None:
    assert command_of(name).help.split("\n\n")[0].replace("\n", " ") == COMMANDS[name]


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASKED_FOR_HELP], capture_output=True, text=True, check=True
    )
    *help_text, imported = done.stdout.splitlines()
    for name in COMMANDS:
        assert any(f" {name} " in line for line in help_text), name
    assert imported == "['app.cli', 'app.errors']"
