"""How a service starts, and what it says where it cannot."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from app.storage.migrate import migrate
from tests.service import Processes, free_port, processes
from tests.workflows.effects import VARIABLE, Effects
from tests.workflows.letters import SERVED


@pytest.fixture
def embedded(tmp_path: Path, effects: Effects) -> Generator[Processes]:
    """Processes that bring their own Postgres."""
    environment = {VARIABLE: str(effects.path)}
    with processes(tmp_path, workflows=SERVED, environment=environment) as begun:
        yield begun


async def test_a_data_folder_outlives_a_kill_and_serves_one_service_at_a_time(
    embedded: Processes, effects: Effects
) -> None:
    service = await embedded.serve()
    async with service.api() as api:
        run = await api.started("letters")
    second = embedded.begin_serving()
    assert await second.exit_code() == 1
    (line,) = _without_log(second.complaints)
    assert str(embedded.data) in line
    assert "in use by another service" in line

    service.kill()
    following = await embedded.serve(port=service.port)
    async with following.api() as api:
        assert (await api.get("/pauses", status="open"))["items"] == [run["pause"]]
        assert (await api.decided(run["pause"]))["status"] == "completed"
    following.tell_to_stop()
    assert await following.exit_code() == 0
    assert effects.of(run) == ["sent work"]
    assert not (embedded.data / "postgres" / "postmaster.pid").exists()


async def test_what_is_in_the_way_of_a_start_is_told_in_one_line(
    embedded: Processes, tmp_path: Path
) -> None:
    file = tmp_path / "a-file"
    file.touch()
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        starts = {
            f"Cannot listen on 127.0.0.1:{port}": embedded.begin_serving(port=port),
            f"The data folder {file}/data cannot be used": embedded.begin_serving(
                data_dir=file / "data"
            ),
            "SIGNOFF_WORKFLOWS: 'nowhere:nothing' cannot be loaded": embedded.begin_serving(
                workflows="nowhere:nothing"
            ),
            "SIGNOFF_LEASE_SECONDS: ": embedded.begin_serving(lease_seconds="soon"),
        }
        assert await asyncio.gather(*(each.exit_code() for each in starts.values())) == [1] * 4
    for beginning, process in starts.items():
        (line,) = _without_log(process.complaints)
        assert line.startswith(beginning)
        assert process.said == ""


def _without_log(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("{")]


async def test_a_service_that_starts_before_the_migrations_waits_for_them(
    tmp_path: Path, empty_database_url: str, effects: Effects
) -> None:
    environment = {VARIABLE: str(effects.path)}
    with processes(
        tmp_path, workflows=SERVED, database_url=empty_database_url, environment=environment
    ) as begun:
        service = begun.begin_serving()

        async def is_unready() -> bool:
            with suppress(httpx.TransportError):
                async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
                    assert (await client.get("/livez")).status_code == 200
                    return (await client.get("/readyz")).status_code == 503
            return False

        await service.until(is_unready)
        await migrate(empty_database_url)
        await service.ready()
        async with service.api() as api:
            run = await api.started("letters")
            assert (await api.decided(run["pause"]))["status"] == "completed"
        waits = [line for line in service.log if line["event"] == "worker waits"]
        assert [line["reason"] for line in waits] == ["migrations are missing"]
