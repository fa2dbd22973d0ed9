"""Every block of every page is run by some test, or says why nobody can run it; and names what there is."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from app.cli import COMMANDS, command_of
from app.settings import JwtSettings, Settings
from tests.pages import ROOT, Block, all_blocks

PAGES = [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]

STORIES = "tests/long/test_docs_stories.py::test_the_story_of_a_page_goes_as_it_says"
DOCS = "tests/integration/test_docs.py::test_"
CLIENT = "client/tests/test_client_page.py::test_every_block_runs_and_prints_what_the_page_says"
RUN = {
    ("README.md", "sh"): DOCS + "the_story_of_the_readme_goes_as_it_says",
    ("docs/writing-workflows.md", "sh"): DOCS
    + "who_reads_only_the_writers_page_has_a_gated_tool_of_their_own",
    ("docs/writing-workflows.md", "python"): DOCS
    + "every_block_of_python_runs_after_those_before_it_and_prints_what_the_page_says",
    ("docs/writing-workflows.md", "text"): DOCS
    + "every_block_of_python_runs_after_those_before_it_and_prints_what_the_page_says",
    ("docs/existing-agents.md", "python"): DOCS
    + "every_block_of_python_runs_after_those_before_it_and_prints_what_the_page_says",
    ("docs/existing-agents.md", "json"): DOCS
    + "the_agent_of_the_page_of_existing_agents_asks_and_goes_on",
    ("docs/langgraph-sdk.md", "python"): DOCS
    + "the_client_of_langgraph_on_its_page_asks_for_a_day_off",
    ("docs/pauses.md", "python"): "tests/integration/test_docs_pauses.py"
    "::test_a_kind_of_pause_is_and_does_what_the_page_says",
    ("docs/pauses.md", "json"): "tests/integration/test_docs_pauses.py"
    "::test_a_kind_of_pause_is_and_does_what_the_page_says",
    ("docs/bots.md", "json"): "tests/unit/test_docs_blocks.py"
    "::test_what_bots_are_told_to_send_fits_the_api",
    ("docs/operating.md", "json"): "tests/unit/test_docs_blocks.py"
    "::test_the_prices_of_the_page_are_prices",
    ("docs/how-to/quorum.md", "python"): DOCS + "the_tests_of_a_how_to_pass",
    ("docs/how-to/deadlines.md", "python"): DOCS + "the_tests_of_a_how_to_pass",
    ("docs/client.md", "python"): CLIENT,
    ("docs/client.md", "text"): CLIENT,
    ("docs/scaling.md", "sql"): "tests/unit/test_scaling_page.py"
    "::test_what_is_distributed_has_its_column_in_its_key_and_what_it_refers_to_beside_it",
    ("docs/start.md", "sh"): STORIES,
    ("docs/tutorial.md", "sh"): STORIES,
    ("docs/how-to/bot.md", "sh"): STORIES,
    ("docs/how-to/production.md", "sh"): STORIES,
}
"""By page and language, the test that runs the blocks. One with a title is a file, and a part of the story."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


BLOCKS = [each for page in PAGES for each in all_blocks(page)]
WITHOUT = [f"{name_of(each.page)}:{each.line}" for each in BLOCKS]


@pytest.mark.parametrize("block", BLOCKS, ids=WITHOUT)
def test_a_block_is_run_by_a_test_or_says_why_nobody_can_run_it(block: Block) -> None:
    runs_as = "sh" if block.title else block.language
    assert block.not_run or (name_of(block.page), runs_as) in RUN


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_fence_of_a_page_is_passed_over(page: Path) -> None:
    fences = re.findall(r"^\s*(?:```|~~~)", page.read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(list(all_blocks(page)))


@pytest.mark.parametrize(("page", "language"), RUN, ids=" ".join)
def test_the_test_that_is_said_to_run_a_page_is_there(page: str, language: str) -> None:
    path, _, name = RUN[page, language].partition("::")
    tests = {
        each.name
        for each in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    languages = {"sh" if each.title else each.language for each in all_blocks(ROOT / page)}

    assert name in tests
    assert language in languages


# ── What blocks name ─────────────────────────────────────────────────────────────────────────────────


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every use of `signoff` in a block, with where it stands."""
    for block in BLOCKS:
        if block.language in ("sh", ""):
            for line in block.text.replace("\\\n", " ").splitlines():
                found = re.search(r"(?:^|[ (/])signoff ([a-z-]+ ?[^|>&)#]*)", line)
                if found and found[1].split()[0] in COMMANDS:
                    yield f"{block.page.name}:{block.line}", shlex.split(found[1])


@pytest.mark.parametrize(("place", "words"), list(commands()))
def test_a_command_that_a_page_shows_has_what_it_is_given(place: str, words: list[str]) -> None:
    name, *rest = words
    command: Any = command_of(name)
    if inner := getattr(command, "commands", None):
        command = inner[rest.pop(0)]
    taken = {each for parameter in command.params for each in _opts(parameter)}
    assert {each.partition("=")[0] for each in rest if each.startswith("-")} <= taken, place


def _opts(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def test_a_setting_that_a_block_names_is_one() -> None:
    named = {each for block in BLOCKS for each in re.findall(r"\bSIGNOFF_[A-Z_]*[A-Z]", block.text)}
    known = {
        *(f"SIGNOFF_{each.upper()}" for each in Settings.model_fields),
        *(f"SIGNOFF_JWT__{each.upper()}" for each in JwtSettings.model_fields),
    }
    elsewhere = {"SIGNOFF_KEY", "SIGNOFF_URL", "SIGNOFF_TEST_DATABASE_URL"}
    wrong = {each for each in named - known - elsewhere if "SIGNOFF_CHANNELS__" not in each}
    assert not wrong


def test_a_file_that_a_block_names_is_there() -> None:
    named = {
        each
        for block in BLOCKS
        if block.language == "sh"
        for each in re.findall(r"(?<=[ /])(?:tests|examples|deploy)/[\w/.-]+", block.text)
    }
    assert named
    assert not [each for each in named if not (ROOT / each).exists()]


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_bots_are_told_to_send_fits_the_api() -> None:
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text())
    shown = [json.loads(each.text) for each in BLOCKS if _is(each, "docs/bots.md", "json")]
    assert shown
    for each in shown:
        name = "Resume" if "pause_id" in each else "NoticeAnswer"
        schema = {**document, "$ref": f"#/components/schemas/{name}"}
        cast("Any", Draft202012Validator(schema)).validate(each)


def test_the_prices_of_the_page_are_prices() -> None:
    (shown,) = [json.loads(each.text) for each in BLOCKS if _is(each, "docs/operating.md", "json")]
    assert Settings(workflows=["examples.errands:errands"], prices=shown).prices


def _is(block: Block, page: str, language: str) -> bool:
    return name_of(block.page) == page and block.language == language and not block.not_run
