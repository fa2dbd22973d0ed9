"""Builds the site: `python -m website.build [FOLDER]`, in `build/website` where no folder is named.

Its `pages` are filled with docs/, the pages of the root that belong to it, and those that are made from the
code; from them zensical makes its `site`, which can be served by whatever serves files, or be opened as
it is, but for its search. A link or an anchor that leads nowhere ends the build.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from app.api import document
from website.authoring import authoring, untold
from website.commands import command_line
from website.routes import routes, shapes

ROOT: Final = Path(__file__).parents[1]
OF_THE_ROOT: Final = {
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}


def main() -> None:
    """Fills the folder, and has the site made of it."""
    if missing := untold():
        sys.exit(f"Exported, and in no part of website/authoring.py: {', '.join(sorted(missing))}")
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "website"
    shutil.rmtree(folder, ignore_errors=True)
    gather(folder / "pages")
    shutil.copy(ROOT / "website" / "zensical.toml", folder)
    made = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False
    )
    if made.returncode == 0:
        print(f"The site: {folder / 'site' / 'index.html'}")
    sys.exit(made.returncode)


def gather(folder: Path) -> None:
    """Writes every page of the site."""
    shutil.copytree(ROOT / "docs", folder)
    shutil.copy(ROOT / "website" / "site.css", folder)
    for name, page in OF_THE_ROOT.items():
        text = (ROOT / name).read_text()
        (folder / page).write_text(re.sub(r"\]\((?:docs/)", "](", text))
    for name, text in generated().items():
        (folder / "reference").mkdir(exist_ok=True)
        (folder / "reference" / f"{name}.md").write_text(text + "\n")


def generated() -> dict[str, str]:
    """The pages that are made from the code."""
    api = json.loads(document())
    return {
        "authoring": authoring(),
        "routes": routes(api),
        "shapes": shapes(api),
        "command-line": command_line(),
        "examples": examples(),
    }


def examples() -> str:
    """The page of the examples, as they stand in their folder."""
    parts = ["# The examples", "What `examples/` has, as it stands there and as tests run it."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts += [f"## {path.name}", f"```python\n{path.read_text()}```"]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
