"""The stories of the pages, from their first file to their last command, each in a folder of its own."""

import shutil
from pathlib import Path

import pytest

from tests.pages import ROOT, tell

STORIES = [
    ROOT / "docs" / each
    for each in ("start.md", "tutorial.md", "how-to/bot.md", "how-to/production.md")
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the stories are told in curl")
@pytest.mark.timeout(300)  # seconds; it starts whole processes
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
async def test_the_story_of_a_page_goes_as_it_says(
    page: Path, database_url: str, tmp_path: Path
) -> None:
    await tell(page, database_url, folder=tmp_path)
