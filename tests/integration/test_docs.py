"""What the pages show is run as it stands: Python in one namespace a page, the stories in a shell.

A story is a page's blocks of `sh`. One that starts the service goes on beside the following ones, until the
next such block or the end. `# → text` says that the output so far goes on with something that has `text`.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from app.api import document
from app.errors import AuthoringError, SignoffError
from app.settings import JwtSettings, Settings
from app.testing import Signoff
from examples.errands import errands
from tests.service import Api, approval, free_port, rejection
from tests.serving import service

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
WRITING = ROOT / "docs" / "writing-workflows.md"
EXISTING = ROOT / "docs" / "existing-agents.md"
LANGGRAPH = ROOT / "docs" / "langgraph-sdk.md"
OPERATING = ROOT / "docs" / "operating.md"
HTTP = ROOT / "docs" / "http.md"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]

EXAMPLES = ",".join(f"examples.{each}:{each}" for each in ("errands", "publishing", "payments"))
QUOTE = '"'
TELLING = ("app.api", "app.lifecycle", "app.domain")
SIGNOFF = f"{sys.executable} -c 'from app.cli import main; main()'"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the stories are told in curl")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page. `line` is that of its first line."""

    page: Path
    language: str
    text: str
    line: int

    @property
    def starts_the_service(self) -> bool:
        return "make run" in self.text or "signoff serve" in self.text


def blocks(page: Path, language: str) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if found[1] == language:
            line = text.count("\n", 0, found.start(2)) + 1
            yield Block(page=page, language=language, text=found[2], line=line)


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", [README, WRITING, EXISTING], ids=lambda page: page.name)
def test_every_block_of_python_runs_after_those_before_it_and_prints_what_the_page_says(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(page)

    printed = capsys.readouterr().out
    assert all(block.text in printed for block in blocks(page, "text"))


async def test_the_steps_of_the_writers_page_go_on_after_a_pause(database_url: str) -> None:
    complaints = _run(WRITING)["complaints"]
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
    letters = _run(EXISTING)["letters"]
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
        values = await _run(LANGGRAPH)["day_off"](str(served.client.base_url).rstrip("/"))

    assert "sent to boss@example.com" in values["text"]
    assert "May send_email be called with" in capsys.readouterr().out


async def test_the_tests_of_the_writers_page_pass(database_url: str) -> None:
    page = _run(WRITING)
    tests = [each for name, each in page.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        signoff = Signoff(database_url)
        await test(signoff)
        await signoff.close()


async def test_the_letter_of_the_writers_page_goes_through_every_kind_of_step(
    database_url: str,
) -> None:
    apologies = _run(WRITING)["apologies"]
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


def _run(page: Path) -> dict[str, Any]:
    """Runs the blocks of a page, and gives what they define."""
    namespace: dict[str, Any] = {"__name__": page.stem.replace("-", "_")}
    for block in blocks(page, "python"):
        # Its lines count as in the page, so that a traceback points there.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        exec(code, namespace)
    return namespace


# ── Stories ──────────────────────────────────────────────────────────────────────────────────────────


@needs_curl
@pytest.mark.timeout(300)  # seconds; it starts whole processes
async def test_the_story_of_the_readme_goes_as_it_says(database_url: str) -> None:
    await tell(list(blocks(README, "sh")), database_url, folder=ROOT)


@needs_curl
@pytest.mark.timeout(300)  # seconds; it starts whole processes
async def test_who_reads_only_the_writers_page_has_a_gated_tool_of_their_own(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "desk.py").write_text(next(blocks(WRITING, "python")).text)
    await tell(list(blocks(WRITING, "sh")), database_url, folder=tmp_path)


async def tell(story: list[Block], database_url: str, *, folder: Path) -> None:
    """Runs the blocks of a story: what starts the service, then the others beside it."""
    assert story
    assert story[0].starts_the_service
    port, bot_port = free_port(), free_port()
    environment = {
        **{name: each for name, each in os.environ.items() if not name.startswith("SIGNOFF_")},
        "DATABASE_URL": database_url,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SIGNOFF_LOG_LEVEL": "WARNING",
    }
    while story:
        opening, *story = story
        scenes = list(takewhile(lambda block: not block.starts_the_service, story))
        story = story[len(scenes) :]
        script = _at(opening.text, port, bot_port)
        async with _beside(script, environment, folder) as service:
            await _answers(f"http://127.0.0.1:{port}/readyz", service)
            for scene in scenes:
                output = await _shell(_at(scene.text, port, bot_port), environment, folder)
                _check(scene, output)


def _at(text: str, port: int, bot_port: int) -> str:
    """The block as it runs here: on ports that are free, with the Python that runs the tests."""
    serve = f"exec {SIGNOFF} serve --port {port}"
    here = {
        "make run": f"SIGNOFF_WORKFLOWS={EXAMPLES} {serve}",
        ".venv/bin/signoff serve": serve,
        ".venv/bin/python": sys.executable,
        "127.0.0.1:8000": f"127.0.0.1:{port}",
        "127.0.0.1:9000": f"127.0.0.1:{bot_port}",
        "--port 9000": f"--port {bot_port}",
    }
    shown = "|".join(re.escape(each) for each in here)
    return re.sub(shown, lambda found: here[found[0]], text)


@asynccontextmanager
async def _beside(
    script: str, environment: dict[str, str], folder: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A script that goes on until the end of the block, with everything that it started."""
    process = await asyncio.create_subprocess_exec(
        *("sh", "-eu", "-c", script), env=environment, cwd=folder, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def _answers(url: str, service: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient() as client:
        while True:
            assert service.returncode is None, "the service has ended"
            with suppress(httpx.TransportError):
                if (await client.get(url)).is_success:
                    return
            await asyncio.sleep(0.05)


async def _shell(script: str, environment: dict[str, str], folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *("sh", "-eu", "-c", script),
        env=environment,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def _check(scene: Block, output: str) -> None:
    """What the block says it prints, it prints, in that order."""
    rest = output
    for expected in re.findall(r"^# → (.*)$", scene.text, re.MULTILINE):
        _, found, rest = rest.partition(expected)
        assert found, f"{scene.page.name}:{scene.line} does not print {expected!r}:\n{output}"


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
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked), f"{target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """The names that headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}
