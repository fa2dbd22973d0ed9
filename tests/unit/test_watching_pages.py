"""The dashboard, the alerts and the page for operators speak of metrics and log lines that there are."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import promql_parser
import pytest
import yaml

from app.watching.metrics import Metrics

ROOT = Path(__file__).parents[2]
OPERATING = (ROOT / "docs/operating.md").read_text()
DASHBOARD: dict[str, Any] = orjson.loads((ROOT / "deploy/grafana/signoff.json").read_bytes())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
SCRAPED = {"job", "instance"}  # labels that Prometheus gives by itself
_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


def metrics() -> dict[str, set[str]]:
    """The service's own, by the name of a series, each with its labels."""
    found: dict[str, set[str]] = {}
    for collector in cast("Any", Metrics().registry)._collector_to_names:
        for family in collector.describe() if hasattr(collector, "_labelnames") else ():
            labels = set(collector._labelnames)
            match family.type:
                case "counter":
                    found[f"{family.name}_total"] = labels
                case "histogram":
                    found |= {f"{family.name}{each}": labels | {"le"} for each in _OF_A_HISTOGRAM}
                case _:
                    found[family.name] = labels
    return found


METRICS = metrics()


def documented(marker: str) -> list[str]:
    """The rows of the table that follows a marker."""
    after = OPERATING.split(f"<!-- {marker}: ", 1)[1].split("\n\n", 2)[1]
    return after.splitlines()[2:]


def in_code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def series_of(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The series that an expression reads, each with the labels that are asked of it."""
    whole = expression.replace("$__rate_interval", "5m").replace("$job", ".*")
    yield from _series(promql_parser.parse(whole), set())


def _series(node: Any, asked: set[str]) -> Iterator[tuple[str, set[str]]]:
    match node:
        case promql_parser.VectorSelector():
            matched = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", str(node.matchers)))
            yield str(node.name), asked | matched
        case promql_parser.MatrixSelector():
            yield from _series(node.vector_selector, asked)
        case promql_parser.AggregateExpr():
            labels = set(cast("Any", node.modifier).labels) if node.modifier else set[str]()
            yield from _series(node.expr, asked | labels)
        case promql_parser.Call():
            for each in node.args:
                yield from _series(each, asked)
        case promql_parser.BinaryExpr():
            yield from _series(node.lhs, asked)
            yield from _series(node.rhs, asked)
        case _:
            assert isinstance(node, promql_parser.NumberLiteral), node


PANELS = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
EXPRESSIONS = [target["expr"] for each in PANELS for target in each["targets"]] + [
    rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_and_the_alerts_read_series_that_there_are(expression: str) -> None:
    read = list(series_of(expression))
    assert read
    for name, labels in read:
        if not name.startswith("process_"):
            assert labels <= METRICS[name] | SCRAPED, name


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for expression in EXPRESSIONS for name, _ in series_of(expression)}
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in METRICS}
    assert families - {re.sub("_(bucket|sum|count)$", "", name) for name in shown} <= {
        "signoff_build_info",  # names the jobs
        "signoff_pauses_opened_total",
    }


def test_panels_have_ids_of_their_own_and_do_not_lie_on_each_other() -> None:
    assert len({each["id"] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for place in (each["gridPos"] for each in DASHBOARD["panels"]):
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_alerts_say_what_is_so_and_how_urgent_it_is() -> None:
    for rule in (each for group in ALERTS["groups"] for each in group["rules"]):
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"].endswith((".", "?")), rule["alert"]


def test_the_page_for_operators_tells_every_metric_with_its_labels() -> None:
    told: dict[str, set[str]] = {}
    for row in documented("metrics"):
        names, labels = row.strip("|").split("|")[:2]
        kinds = set(in_code(re.sub(r"\([^)]*\)", "", labels)))
        told |= dict.fromkeys(in_code(names), kinds)
    known = {
        re.sub("_(bucket|sum|count)$", "", name): labels - {"le"}
        for name, labels in METRICS.items()
    }
    assert told == known


def test_the_page_for_operators_tells_every_log_line_with_its_level() -> None:
    told = {
        (event, level.strip())
        for row in documented("log events")
        for events, levels in [row.strip("|").split("|")[:2]]
        for event in in_code(events)
        for level in levels.split(",")
    }
    written = {
        each
        for path in (ROOT / "app").rglob("*.py")
        for each in _lines_of(ast.parse(path.read_text()))
    }
    assert told == written | _COMPUTED


_LEVELS = {"exception": "error", "warn": "warning"}
_COMPUTED = {
    ("request", "info"),
    ("notice not taken, will be sent again", "warning"),
    ("notice dead", "warning"),
    ("answer to a notice refused", "warning"),
}
"""Lines whose message or level is chosen when they are written."""


def _lines_of(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                args=[ast.Constant(value=str(event)), *_],
            ):
                yield event, _LEVELS.get(level, level)
            case _:
                pass
