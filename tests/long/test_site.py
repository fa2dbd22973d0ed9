"""The documentation builds as a site whose links lead somewhere, and which asks nobody else for anything."""

import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
ON_DEMAND = {"mermaid", "glightbox", "pyodide", "arithmatex"}
"""What the theme would fetch from elsewhere, for pages that have elements of these classes."""

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("zensical") is None,
        reason="requirements-docs.txt is not installed: make .venv/docs.stamp",
    ),
    pytest.mark.timeout(300),  # seconds; the first import compiles the project
]


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.classes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.anchors |= {said[name] for name in ("id", "name") if name in said}
        self.classes |= set(said.get("class", "").split())
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if LOADS.get(tag) in said and said.get("rel") != "canonical":
            self.loads.append(said[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly, as by `make docs`."""
    folder = tmp_path_factory.mktemp("website")
    made = subprocess.run(
        [sys.executable, "-m", "website.build", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {each: Page(each.read_text()) for each in site.rglob("*.html") if each.stem != "404"}


def test_every_page_is_built(site: Path, pages: dict[Path, Page]) -> None:
    built = {str(each.relative_to(site).with_suffix(".md")) for each in pages}
    written = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}
    assert {each.replace("README.md", "index.md") for each in written} <= {
        each.replace("README.md", "index.md") for each in built
    }


def test_every_link_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    broken: dict[str, list[str]] = defaultdict(list)
    for path, page in pages.items():
        for link in page.links:
            found = urlsplit(link)
            if found.scheme or found.netloc:
                continue
            target = (path.parent / unquote(found.path)).resolve() if found.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(found.fragment)
            if not target.exists() or (place and place not in pages[target].anchors):
                broken[path.name].append(link)
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loaded = [each for page in pages.values() for each in page.loads]
    styled = [
        each
        for sheet in site.rglob("*.css")
        for each in re.findall(r"""(?:url\(|@import )["']?(\S{8})""", sheet.read_text())
    ]
    assert loaded
    assert not [each for each in [*loaded, *styled] if re.match(r"(https?:)?//", each)]
    assert not ON_DEMAND & {each for page in pages.values() for each in page.classes}
