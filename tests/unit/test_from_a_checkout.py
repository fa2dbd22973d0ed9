"""What a newcomer finds in a checkout works as it is written."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_examples_are_served_on_another_port_by_a_word() -> None:
    for words, served in ((["PORT=8001"], "serve --port 8001"), (["PORT="], "serve")):
        planned = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", "run", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert planned.stdout.splitlines()[-1].rstrip().endswith(f"signoff {served}")


def test_every_extra_that_is_told_of_is_there_and_is_installed_from_the_checkout() -> None:
    told = [
        line for page in PAGES for line in page.read_text().splitlines() if "pip install -e" in line
    ]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = [re.findall(r"\.venv/bin/pip install -e '\.\[(\w+)\]'", line) for line in told]
    assert {each for line in named for each in line} >= {"mcp", "otel", "testing"}
    assert all(line and set(line) <= extras.keys() for line in named)
