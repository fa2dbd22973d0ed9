"""What the pages show is run as it stands: Python in one namespace a page, the stories in a shell."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from app.api import document
from app.errors import AuthoringError, SignoffError
from app.settings import JwtSettings, Settings
from app.testing import Signoff
from examples.errands import errands
from tests.pages import ROOT, blocks, executed, tell
from tests.service import Api, approval, rejection
from tests.serving import service

README = ROOT / "README.md"
WRITING = ROOT / "docs" / "writing-workflows.md"
EXISTING = ROOT / "docs" / "existing-agents.md"
LANGGRAPH = ROOT / "docs" / "langgraph-sdk.md"
QUORUM = ROOT / "docs" / "how-to" / "quorum.md"
DEADLINES = ROOT / "docs" / "how-to" / "deadlines.md"
OPERATING = ROOT / "docs" / "operating.md"
HTTP = ROOT / "docs" / "http.md"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]

QUOTE = '"'
TELLING = ("app.api", "app.lifecycle", "app.domain")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the stories are told in curl")


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", [README, WRITING, EXISTING], ids=lambda page: page.name)
def test_every_block_of_python_runs_after_those_before_it_and_prints_what_the_page_says(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executed(page)

    printed = capsys.readouterr().out
    assert all(block.text in printed for block in blocks(page, "text"))


async def test_the_steps_of_the_writers_page_go_on_after_a_pause(database_url: str) -> None:
    complaints = executed(WRITING)["complaints"]
    given = {"guest": "ann", "text": "The shower was cold."}
    async with service(database_url, [complaints]) as served:
        api = Api(served.client)
        paused = await api.started("complaints", given)
        run = await api.decided(paused["pause"], rejection("maria"))

    said = "URGENT ann: Settled: Tool error: the call was rejected by maria"
    assert run["output"] == {"text": said}, run["error"]


async def test_the_agent_of_the_page_of_existing_agents_asks_and_goes_on(
    database_url: str,
) -> None:
    letters = executed(EXISTING)["letters"]
    (given,) = [json.loads(each.text) for each in blocks(EXISTING, "json") if "input" in each.text]
    async with service(database_url, [letters]) as served:
        started = await served.client.post("/threads/one/runs", json=given)
        paused = started.json()["pause"]
        assert paused["call"]["arguments"] == {"to": "Ann", "text": "Hello."}
        run = await Api(served.client).decided(paused, approval("maria"))

    said = [each["content"] for each in run["output"]["messages"]]
    assert said == ["Write to Ann.", "", "sent to Ann", "Done."], run["error"]


async def test_the_client_of_langgraph_on_its_page_asks_for_a_day_off(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with service(database_url, [errands]) as served:
        values = await executed(LANGGRAPH)["day_off"](str(served.client.base_url).rstrip("/"))

    assert "sent to boss@example.com" in values["text"]
    assert "May send_email be called with" in capsys.readouterr().out


async def test_the_tests_of_the_writers_page_pass(database_url: str) -> None:
    page = executed(WRITING)
    tests = [each for name, each in page.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        signoff = Signoff(database_url)
        await test(signoff)
        await signoff.close()


@pytest.mark.parametrize("page", [QUORUM, DEADLINES], ids=lambda page: page.name)
async def test_the_tests_of_a_how_to_pass(page: Path, database_url: str) -> None:
    tests = [each for name, each in executed(page).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        signoff = Signoff(database_url)
        await test(signoff)
        await signoff.close()


async def test_the_letter_of_the_writers_page_goes_through_every_kind_of_step(
    database_url: str,
) -> None:
    apologies = executed(WRITING)["apologies"]
    given = {"guest": "ann", "text": "The shower was cold."}
    async with service(database_url, [apologies]) as served:
        api = Api(served.client)
        run = await api.started("apologies", given)
        run = await api.decided(run["pause"], {"value": {"tone": "kind"}, "by": "maria"})
        run = await api.decided(run["pause"], rejection("maria", feedback="Come back!"))
        run = await api.decided(run["pause"], approval("maria"))
        run = await api.decided(run["pause"], approval("maria"))

    kinds = [each["kind"] for each in run["pauses"]]
    assert kinds == ["input", "review", "review", "confirmation"]
    said = "mailed: Dear ann, a kind word about it: sorry! Come back! A gift is waiting for you."
    assert run["output"] == {"archive": len(said), "reception": "mailed"}, run["error"]


# ── Stories ──────────────────────────────────────────────────────────────────────────────────────────


@needs_curl
@pytest.mark.timeout(300)  # seconds; it starts whole processes
async def test_the_story_of_the_readme_goes_as_it_says(database_url: str) -> None:
    await tell(README, database_url, folder=ROOT)


@needs_curl
@pytest.mark.timeout(300)  # seconds; it starts whole processes
async def test_who_reads_only_the_writers_page_has_a_gated_tool_of_their_own(
    database_url: str, tmp_path: Path
) -> None:
    await tell(WRITING, database_url, folder=tmp_path)


# ── Tables ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_of_settings_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", OPERATING.read_text(), re.MULTILINE)

    nested = _settings(JwtSettings, "SIGNOFF_JWT__")
    assert dict(rows) == {**dict(_settings(Settings, "SIGNOFF_")), **dict(nested)}


def _settings(of: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in of.model_fields.items():
        setting = field.validation_alias or f"{prefix}{name.upper()}"
        default = None if field.is_required() else field.default
        shown = f"{default:g}" if isinstance(default, float) else json.dumps(default, default=str)
        yield str(setting), f"`{shown.strip(QUOTE)}`" if default else "none"


def test_the_table_of_routes_has_every_route() -> None:
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \|", HTTP.read_text(), re.MULTILINE)
    paths: dict[str, dict[str, Any]] = json.loads(document())["paths"]

    assert set(rows) == {f"{method.upper()} {path}" for path in paths for method in paths[path]}


def test_the_table_of_events_has_every_type() -> None:
    table = HTTP.read_text().partition("| `event` | |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"`(\w+\.\w+)`", table))
    schemas: dict[str, Any] = json.loads(document())["components"]["schemas"]

    assert shown - {"stream.position"} == set(schemas["Event"]["discriminator"]["mapping"])


def test_the_table_of_errors_has_every_code_that_a_caller_can_meet() -> None:
    table = HTTP.read_text().partition("| status | codes |")[2].partition("\n\n")[0]
    shown = re.findall(r"`(\w+)`", table)
    told = {
        each.code
        for each in _errors(SignoffError)
        if each.__module__.startswith(TELLING) and not issubclass(each, AuthoringError)
    }

    assert told <= set(shown)


def _errors(family: type[SignoffError]) -> Iterator[type[SignoffError]]:
    for each in family.__subclasses__():
        yield each
        yield from _errors(each)


# ── Links ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_another_page_leads_there(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", page.read_text())
    for target, anchor in links:
        if re.match(r"(\.\./)*reference/", target):
            continue  # made from the code when the site is built, and looked for there
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked), f"{target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """The names that headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}
