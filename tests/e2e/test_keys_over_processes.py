"""Keys from the command line, and services that ask for them."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

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
    assert "It asks for keys" in served.said
    made = await embedded.command(
        *("keys", "create", "--name", "ann", "--groups", "finance,it"),
        *("--scopes", "runs:read,decisions:write", "--expires-in", "30d"),
    )
    assert await made.exit_code() == 0, made.complaints
    (secret,) = made.said.split()
    assert await status(served, secret) == 200
    listed = await embedded.command("keys", "list")
    row = listed.said.strip().split("\t")
    assert row[1:5] == ["default", "ann", "finance,it", "runs:read,decisions:write"]
    assert row[5].startswith("good until ")
    assert secret not in listed.said
    revoked = await embedded.command("keys", "revoke", "ann")
    assert revoked.said == f"{row[0]} is revoked.\n"
    await asyncio.sleep(5)
    assert await status(served, secret) == 401
    assert "revoked" in (await embedded.command("keys", "list")).said
    again = await embedded.command("keys", "revoke", "ann")
    assert await again.exit_code() == 1
    wrong = await embedded.command("keys", "create", "--name", "ann", "--scopes", "everything")
    assert await wrong.exit_code() == 1
    assert wrong.complaints[-1].startswith("There is no scope 'everything'")
    everything = [*served.complaints, served.said, *made.complaints, *revoked.complaints]
    assert all(secret not in line for line in everything)


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
            "The channel 'approvers' has no address: set SIGNOFF_CHANNELS__APPROVERS__URL."
        )
