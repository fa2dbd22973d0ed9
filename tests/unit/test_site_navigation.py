"""The site of the documentation has every page, and its reference all that writers import."""

import re
import tomllib
from pathlib import Path
from typing import Any

from website.authoring import INNER, PARTS, untold
from website.build import OF_THE_ROOT

ROOT = Path(__file__).parents[2]
SITE: dict[str, Any] = tomllib.loads((ROOT / "website" / "zensical.toml").read_text())["project"]
MADE = {
    f"reference/{each}.md" for each in ("authoring", "routes", "shapes", "command-line", "examples")
}


def test_every_page_stands_in_the_navigation_once() -> None:
    named = re.findall(r"[\w/-]+\.md", str(SITE["nav"]))
    written = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}

    assert sorted(named) == sorted(written | MADE | {*OF_THE_ROOT.values()})


def test_all_that_is_exported_is_in_the_reference_or_said_to_be_inner() -> None:
    told = {name.partition(".")[0] for part in PARTS for name in part.names}

    assert untold() == set()
    assert not told & INNER


def test_every_picture_is_shown_somewhere_and_is_small() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in (ROOT / "docs").rglob("*.md")
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())
    }
    taken = set((ROOT / "docs" / "pictures").iterdir())

    assert taken == shown
    assert all(each.stat().st_size < 100_000 for each in taken)
