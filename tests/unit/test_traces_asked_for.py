"""Whether traces are kept, as the environment says."""

import sys
from contextlib import AsyncExitStack

import pytest

import app.watching
from app.main import traces
from app.watching.traces import exporters_named


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "desk"}, []),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ["otlp", "console"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "true"}, []),
    ],
    ids=str,
)
def test_traces_are_kept_where_the_variables_of_opentelemetry_ask_for_them(
    variables: dict[str, str], named: list[str]
) -> None:
    assert exporters_named(variables) == named


async def test_an_installation_without_the_extra_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)  # as if it were not there
    monkeypatch.delitem(sys.modules, "app.watching.otel", raising=False)
    monkeypatch.delattr(app.watching, "otel", raising=False)

    found = await traces(AsyncExitStack())

    assert found.provider is None
    [line] = caplog.records
    assert (line.message, vars(line)["reason"], vars(line)["to_do"]) == (
        "traces are not kept",
        "opentelemetry.sdk.resources is not installed",
        "pip install 'signoff[otel]'",
    )


async def test_an_exporter_that_there_is_not_is_said_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    assert (await traces(AsyncExitStack())).provider is None
    [line] = caplog.records
    assert vars(line)["reason"] == "no exporter 'pigeon' is installed"
