"""The page on pauses is true: its workflows are decided over HTTP in every way that its tables say."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from app.authoring import Workflow
from tests.service import Api, until
from tests.serving import Service, service

Json = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "pauses.md"
ROW = re.compile(r"^\| (?:`(\{.*?\})`|(nobody decides)) \| `(\w+)` `(.*?)` \|", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A row of a table. `decision` is None where nobody decides; `came` is what the run then has."""

    decision: Json | None
    status: str
    came: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A section of the page."""

    heading: str
    workflow: Workflow
    pause: Json
    ways: tuple[Way, ...]


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _read() -> tuple[list[Kind], Json]:
    """The kinds of the page, and everything that its blocks define."""
    opening, *sections = PAGE.read_text().split("\n## ")
    namespace: Json = {"__name__": "pauses"}
    for block in _blocks(opening, "python"):
        exec(block, namespace)
    return [_kind(each, namespace) for each in sections if _blocks(each, "python")], namespace


def _kind(section: str, namespace: Json) -> Kind:
    before = set(namespace)
    for block in _blocks(section, "python"):
        exec(block, namespace)
    defined = [namespace[name] for name in namespace if name not in before]
    (workflow,) = [each for each in defined if isinstance(each, Workflow)]
    (shown,) = _blocks(section, "json")
    return Kind(
        heading=section.partition("\n")[0],
        workflow=workflow,
        pause=json.loads(shown),
        ways=tuple(_ways(section)),
    )


def _ways(section: str) -> list[Way]:
    rows = re.findall(r"^\| (?:`\{|nobody)", section, re.MULTILINE)
    ways = [
        Way(
            decision=json.loads(found[1]) if found[1] else None,
            status=found[3],
            came=json.loads(found[4].replace(r"\|", "|")),
        )
        for found in ROW.finditer(section)
    ]
    assert len(ways) == len(rows), "a row cannot be read"
    return ways


KINDS, NAMESPACE = _read()
CRASHED = [each for each in KINDS if each.pause["kind"] == "unknown_outcome"]
ASKED = [each for each in KINDS if each not in CRASHED]


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.heading)
async def test_a_kind_of_pause_is_and_does_what_the_page_says(
    kind: Kind, database_url: str
) -> None:
    assert kind.ways
    async with service(database_url, [kind.workflow]) as served:
        api = Api(served.client)
        for way in kind.ways:
            run = await api.started(kind.workflow.name, "ann")
            assert _part(run["pause"], kind.pause) == kind.pause, run
            _check(await _after(served, api, run, way), way)


async def test_a_call_in_doubt_is_and_does_what_the_page_says(database_url: str) -> None:
    (kind,) = CRASHED
    terminal: asyncio.Event = NAMESPACE["terminal"]
    async with service(database_url, [kind.workflow]) as served:
        runs = [await _called(Api(served.client), kind) for _ in kind.ways]
    terminal.set()  # the worker has gone while the calls were under way

    async with service(database_url, [kind.workflow]) as served:
        api = Api(served.client)
        for run, way in zip(runs, kind.ways, strict=True):
            paused = await api.running(run, "paused")
            assert _part(paused["pause"], kind.pause) == kind.pause
            _check(await _after(served, api, paused, way), way)


def test_the_page_has_every_kind_and_says_what_each_takes() -> None:
    text = PAGE.read_text()
    listed = set(re.findall(r"^\| \[`(\w+)`\]", text, re.MULTILINE))
    assert listed == {each.pause["kind"] for each in KINDS}


async def _called(api: Api, kind: Kind) -> Json:
    """A run whose call is under way, once it is approved."""
    run = await api.started(kind.workflow.name, "ann")
    await api.decide(run["pause"], prefer="respond-async")
    return await api.running(run)


async def _after(served: Service, api: Api, run: Json, way: Way) -> Json:
    """The run once the way was taken."""
    if way.decision is not None:
        return await api.decided(run["pause"], {**way.decision, "by": "maria"})
    await served.site.database.fetch(
        "update pauses set expires_at = clock_timestamp() where id = $1", run["pause"]["id"]
    )

    async def has_gone_on() -> Json | None:
        now = await api.run(run)
        is_settled = now["status"] not in ("queued", "running")
        return now if is_settled and now["pauses"][0]["status"] != "open" else None

    return await until(has_gone_on)


def _check(run: Json, way: Way) -> None:
    assert run["status"] == way.status, run
    match way.status:
        case "completed":
            came = run["output"]
        case "failed":
            came = run["error"]["code"]
        case "cancelled":
            came = run["stop_reason"]
        case _:
            came = run["pause"]["kind"]
    beginning, is_more, _ = way.came.partition("…")
    assert came.startswith(beginning) if is_more else came == way.came


def _part(whole: Any, shown: Json) -> Json:
    """What the page shows of something."""
    return {
        name: _part(whole[name], cast("Json", each)) if isinstance(each, dict) else whole[name]
        for name, each in shown.items()
    }
