"""Takes one guard after the other out of a copy of the service, and has the tests find it missing.

`python -m tests.without_guards [name …]`. Nothing here is changed; a copy is made for each.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SUITES = (
    "tests/integration/test_fences.py",
    "tests/integration/test_what_is_kept.py",
    "tests/long/test_crash_points.py",
    "tests/long/test_crashes_at_random.py",
)
COPIED = ("app", "tests", "migrations", "examples", "bench", "pyproject.toml")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What is in a file to keep something from going wrong, and what is there without it."""

    name: str
    file: str
    guarded: str
    bare: str


GUARDS = (
    Guard(
        name="the lock of the thread",
        file="app/storage/pauses.py",
        guarded="select * from threads where id = $1 and tenant = $2 for update",
        bare="select * from threads where id = $1 and tenant = $2",
    ),
    Guard(
        name="the check of the fence",
        file="app/storage/progress_sql.py",
        guarded="and fence = $4 and active_status = 'running' and lease_until > clock_timestamp()",
        bare="and $4::bigint is not null",
    ),
    Guard(
        name="the guard of the status",
        file="app/storage/pauses.py",
        guarded="and p.status = 'open' and $9",
        bare="and $9",
    ),
    Guard(
        name="the unique index of keys",
        file="app/storage/runs.py",
        guarded="select $2, $15, $16, $1, $3 from free where $15::text is not null",
        bare="select $2, $15, $16, $1, $3 from free where $15::text is not null on conflict do nothing",
    ),
    Guard(
        name="the barrier",
        file="app/engine/journal.py",
        guarded="        await self._written()\n",
        bare="",
    ),
    Guard(
        name="the notice written with the pause",
        file="app/storage/progress.py",
        guarded='        "notices": _notices(events, channels, addressees),',
        bare='        "notices": [],',
    ),
)


def main() -> None:
    """Says for each guard what was found without it; ends with 1 if one is not missed."""
    wanted = sys.argv[1:]
    missed = [_is_missed(each) for each in GUARDS if not wanted or each.name in wanted]
    sys.exit(not all(missed))


def _is_missed(guard: Guard) -> bool:
    with tempfile.TemporaryDirectory(prefix="without-") as folder:
        copy = Path(folder)
        _copy(copy)
        path = copy / guard.file
        text = path.read_text()
        if guard.guarded not in text:
            raise SystemExit(f"{guard.name} is not where it was: {guard.file}")
        path.write_text(text.replace(guard.guarded, guard.bare))
        for suite in SUITES:
            found = _found(copy, suite)
            sys.stdout.write(f"without {guard.name}, {Path(suite).stem}: {found or 'nothing'}\n")
            sys.stdout.flush()
            if found:
                return True
    return False


def _copy(copy: Path) -> None:
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


def _found(copy: Path, suite: str) -> str | None:
    """What a suite says is wrong; None if it finds nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", suite]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    ran = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode == 0:
        return None
    lines = [
        line for line in ran.stdout.splitlines() if "faults:" in line or line.startswith("E  ")
    ]
    return lines[0][:400] if lines else ran.stdout[-400:]


if __name__ == "__main__":
    main()
