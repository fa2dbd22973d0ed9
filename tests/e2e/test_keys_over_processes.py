"""Keys from the command line, and services that ask for them."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from app.cli.exits import ExitCode
from tests.keyring import bearer
from tests.service import Processes, Served, processes
from tests.workflows.effects import VARIABLE, Effects
from tests.workflows.letters import SERVED


@pytest.fixture
def embedded(tmp_path: Path, effects: Effects) -> Generator[Processes]:
    """Processes that bring their own Postgres."""
    environment = {
        VARIABLE: str(effects.path),
        "SIGNOFF_CHANNELS__APPROVERS__URL": "https://127.0.0.1:9/hook",
    }
    with processes(tmp_path, workflows=SERVED, environment=environment) as begun:
        yield begun


async def status(served: Served, credential: str) -> int:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as client:
        return (await client.get("/threads", headers=bearer(credential))).status_code


async def test_a_key_is_made_listed_and_revoked_beside_a_running_service(
    embedded: Processes,
) -> None:
    served = await embedded.serve(auth="keys")
    await _assert_it_says_how_to_begin(embedded, served)
    made = await embedded.command(
        *("keys", "create", "--name", "ann", "--groups", "finance,it"),
        *("--scopes", "runs:read,decisions:write", "--expires-in", "30d"),
    )
    assert await made.exit_code() == 0, made.complaints
    (secret,) = made.said.split()
    assert await status(served, secret) == 200
    listed = await embedded.command("keys", "list")
    key_id = _id_of_the_only(listed.said)
    assert secret not in listed.said
    revoked = await embedded.command("keys", "revoke", "ann")
    assert revoked.said == f"{key_id} is revoked.\n"
    await asyncio.sleep(5)
    assert await status(served, secret) == 401
    unknown = await embedded.command("pauses", url=served.url, key=secret)
    assert unknown.complaints[-1].endswith("It came from --key or SIGNOFF_KEY.")
    assert "revoked" in (await embedded.command("keys", "list")).said
    again = await embedded.command("keys", "revoke", "ann")
    assert await again.exit_code() == 1
    wrong = await embedded.command("keys", "create", "--name", "ann", "--scopes", "everything")
    assert await wrong.exit_code() == 1
    assert wrong.complaints[-1].startswith("There is no scope 'everything'")
    _assert_it_warns_of_its_channel(served)
    everything = [*served.complaints, served.said, *made.complaints, *revoked.complaints]
    assert all(secret not in line for line in everything)


async def _assert_it_says_how_to_begin(embedded: Processes, served: Served) -> None:
    make_one = "signoff keys create --name NAME --scopes runs:read,runs:write,decisions:write"
    assert f"It asks for keys; make one with: {make_one}" in served.said
    none = await embedded.command("keys", "list")
    assert (none.said, none.complaints) == ("", [f"There is none. Make one with: {make_one}"])
    keyless = await embedded.command("pauses", url=served.url)
    assert await keyless.exit_code() == ExitCode.REFUSED
    assert keyless.complaints == [
        "The service asks for a key: give yours with --key, or in SIGNOFF_KEY."
    ]


def _id_of_the_only(listed: str) -> str:
    head, line = listed.splitlines()
    assert head.split() == ["id", "tenant", "name", "groups", "scopes", "state"]
    row = line.split()
    assert row[1:5] == ["default", "ann", "finance,it", "runs:read,decisions:write"]
    assert (row[5:7], row[-1]) == (["good", "until"], "UTC")
    return row[0]


def _assert_it_warns_of_its_channel(served: Served) -> None:
    warned = {each["event"]: each for each in served.log if each["level"] == "warning"}
    unsigned = warned["channel has no secrets: its notices are not signed"]
    assert unsigned["setting"] == "SIGNOFF_CHANNELS__APPROVERS__SECRETS"
    untold = warned["channel cannot be told: its address is refused"]
    assert (untold["channel"], untold["setting"]) == ("approvers", "SIGNOFF_ALLOWED_NETWORKS")


async def test_a_service_that_others_reach_does_not_start_open(embedded: Processes) -> None:
    refused = embedded.begin_serving("--host", "0.0.0.0")
    assert await refused.exit_code() == 1
    assert refused.complaints[-1].startswith("Listening on 0.0.0.0 would let everybody")
    made = await embedded.command("keys", "create", "--name", "ann", "--scopes", "runs:read")
    (secret,) = made.said.split()
    served = await embedded.serve("--host", "0.0.0.0")  # there is a key now, so it is asked for
    assert await status(served, "sgk_" + "x" * 43) == 401
    assert await status(served, secret) == 200


async def test_with_keys_a_channel_without_an_address_stops_the_start(
    tmp_path: Path, effects: Effects
) -> None:
    with processes(tmp_path, workflows=SERVED, environment={VARIABLE: str(effects.path)}) as begun:
        refused = begun.begin_serving(auth="keys")
        assert await refused.exit_code() == 1
        assert refused.complaints[-1] == (
            "The channel 'approvers' has no address: set SIGNOFF_CHANNELS__APPROVERS__URL. "
            "A service that asks for keys does not start without."
        )
