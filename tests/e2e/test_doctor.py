"""`signoff doctor`: what it finds, what it says to do, and how it ends."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from app.cli.exits import ExitCode
from app.cli.findings import State, look_at_clock
from app.storage.checkup import Checkup
from app.storage.migrate import Standing
from tests.service import Processes, processes

SHOP = "tests.workflows.clerks:shop"
REMOTE = "tests.workflows.clerks:remote"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
WELL = {
    "channels__bots__url": "https://127.0.0.1:9/hook",
    "channels__bots__secrets": f'["{SECRET}"]',
}


def at(folder: Path, url: str | None, workflows: str = SHOP, **environment: str) -> Any:
    return processes(folder, workflows=workflows, database_url=url, environment=environment)


async def found(own: Processes, code: ExitCode, **settings: object) -> dict[str, list[Any]]:
    """The findings of a doctor that ends with this code, by what they are about."""
    looked = await own.command("doctor", "--json", **settings)
    assert await looked.exit_code() == code, (looked.said, looked.complaints)
    findings: dict[str, list[Any]] = {}
    for each in orjson.loads(looked.said):
        findings.setdefault(each["about"], []).append(each)
    return findings


async def test_where_all_is_well_it_says_so_of_each(tmp_path: Path, database_url: str) -> None:
    with at(tmp_path, database_url, f"{SHOP},{REMOTE}", OPENAI_API_KEY="sk-secret") as own:
        findings = await found(own, ExitCode.DONE, **WELL)
        assert set(findings) == {
            "settings",
            "database",
            "migrations",
            "clock",
            "workflows",
            "channels",
            "models",
        }
        assert {each["state"] for several in findings.values() for each in several} == {State.FINE}
        looked = await own.command("doctor", **WELL)
        assert "bots: signed notices to 127.0.0.1" in looked.said
        assert "openai:gpt-5-mini: its key is set" in looked.said
        assert SECRET not in looked.said
        assert "sk-secret" not in looked.said


async def test_tables_that_are_missing_are_migrated_as_it_says(
    tmp_path: Path, empty_database_url: str
) -> None:
    with at(tmp_path, empty_database_url) as own:
        (migrations,) = (await found(own, ExitCode.FAILED))["migrations"]
        assert (migrations["state"], migrations["do"]) == ("wrong", "run signoff migrate")
        await own.command("migrate")
        (migrations,) = (await found(own, ExitCode.DONE))["migrations"]
        assert migrations["state"] == "fine"


async def test_a_database_that_is_away_is_told_without_its_password(tmp_path: Path) -> None:
    with at(tmp_path, "postgresql://ann:pa55word@127.0.0.1:1/desk") as own:
        (database,) = (await found(own, ExitCode.FAILED))["database"]
        assert database["so"].startswith("at 127.0.0.1:1/desk: it cannot be reached")
        assert database["do"] == "start it, or correct DATABASE_URL"
        assert "pa55word" not in (await own.command("doctor")).said


async def test_a_password_that_is_refused_is_told(tmp_path: Path, database_url: str) -> None:
    with at(tmp_path, database_url.replace("postgres@", "nobody_here@")) as own:
        (database,) = (await found(own, ExitCode.FAILED))["database"]
        assert "nobody_here" in database["so"]


async def test_a_model_without_its_key_and_a_channel_without_an_address_are_found(
    tmp_path: Path, database_url: str
) -> None:
    with at(tmp_path, database_url, REMOTE, OPENAI_API_KEY="") as own:
        findings = await found(own, ExitCode.FAILED)
        (model,), (channel,) = findings["models"], findings["channels"]
        assert (model["state"], model["do"]) == ("wrong", "set OPENAI_API_KEY")
        assert (channel["state"], channel["do"]) == (
            "doubtful",
            "set SIGNOFF_CHANNELS__BOTS__URL",
        )


@pytest.mark.parametrize(
    ("url", "secrets", "state", "so"),
    [
        ("https://10.1.2.3/", f'["{SECRET}"]', "wrong", "10.0.0.0/8"),
        ("ftp://127.0.0.1/", f'["{SECRET}"]', "wrong", "not an https URL"),
        ("https://bot.invalid/", f'["{SECRET}"]', "wrong", "does not resolve"),
        ("https://127.0.0.1/", '["whsec_short"]', "wrong", "bots"),
        ("https://127.0.0.1/", "[]", "doubtful", "are not signed"),
    ],
)
async def test_an_address_that_notices_cannot_go_to_is_found_without_sending_any(
    tmp_path: Path, database_url: str, url: str, secrets: str, state: str, so: str
) -> None:
    with at(tmp_path, database_url, REMOTE, OPENAI_API_KEY="sk-1") as own:
        code = ExitCode.FAILED if state == "wrong" else ExitCode.DONE
        settings = {"channels__bots__url": url, "channels__bots__secrets": secrets}
        (channel,) = (await found(own, code, **settings))["channels"]
        assert channel["state"] == state
        assert so in channel["so"]


async def test_workflows_that_cannot_be_served_are_told_beside_those_that_can(
    tmp_path: Path, database_url: str
) -> None:
    broken = tmp_path / "broken_desk.py"
    broken.write_text("desk = 1 / 0\n")
    named = f"{SHOP},broken_desk:desk,{SHOP}"
    with at(tmp_path, database_url, named, PYTHONPATH=str(tmp_path)) as own:
        states = [each["state"] for each in (await found(own, ExitCode.FAILED))["workflows"]]
        assert states == ["fine", "wrong", "wrong"]


async def test_it_changes_nothing_and_leaves_a_service_alone_that_runs(tmp_path: Path) -> None:
    with at(tmp_path, None) as own:
        (database,) = (await found(own, ExitCode.DONE))["database"]
        assert "the first start makes one" in database["so"]
        assert not own.data.exists()
        served = await own.serve()
        findings = await found(own, ExitCode.DONE, url=served.url)
        assert f"(pid {served.pid})" in findings["database"][0]["so"]
        assert findings["service"][0]["state"] == "fine"
        gone = await found(own, ExitCode.FAILED, url="http://127.0.0.1:1")
        assert gone["service"][0]["state"] == "wrong"


async def test_a_setting_that_is_wrong_is_the_only_thing_told(tmp_path: Path) -> None:
    with at(tmp_path, None) as own:
        findings = await found(own, ExitCode.FAILED, lease_seconds=0)
        assert list(findings) == ["settings"]
        assert "SIGNOFF_LEASE_SECONDS" in findings["settings"][0]["so"]


@pytest.mark.parametrize(
    ("ahead", "state", "so"),
    [
        (0.4, State.FINE, "agrees"),
        (30, State.DOUBTFUL, "30 s ahead of"),
        (-3700, State.WRONG, "1 h 1 min behind"),
    ],
)
def test_a_clock_that_is_off_is_found(ahead: float, state: State, so: str) -> None:
    checkup = Checkup(postgres="18", round_trip=0.001, ahead=ahead, standing=Standing.CURRENT)
    finding = look_at_clock(checkup)
    assert finding.state is state
    assert so in finding.so
