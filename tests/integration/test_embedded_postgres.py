"""The embedded Postgres: real processes, killed for real."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from app.storage.embedded import (
    DataFolderInUse,
    DataFolderUnusable,
    EmbeddedPostgres,
    PostgresNotStarted,
)
from tests.postgres import quickest_folder

QUICK = {"fsync": "off"}


@pytest.fixture
def data_folder() -> Generator[Path]:
    # Not pytest's own: each of its sessions closes the folder above those of all others.
    with tempfile.TemporaryDirectory(prefix="signoff-", dir=quickest_folder()) as folder:
        yield Path(folder)


SERVICE = """
import asyncio, sys
from pathlib import Path
from app.storage.embedded import EmbeddedPostgres

async def main():
    server = await EmbeddedPostgres.start(Path(sys.argv[1]), settings={"fsync": "off"})
    print(server.pid, server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()

asyncio.run(main())
"""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A process that has an embedded Postgres."""

    process: subprocess.Popen[str]
    postgres: psutil.Process
    url: str

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


@contextmanager
def service_in(folder: Path) -> Generator[Service]:
    command = [sys.executable, "-c", SERVICE, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, url = process.stdout.readline().split()
        yield Service(process=process, postgres=psutil.Process(int(pid)), url=url)


@asynccontextmanager
async def started(folder: Path) -> AsyncGenerator[EmbeddedPostgres]:
    server = await EmbeddedPostgres.start(folder, settings=QUICK)
    try:
        yield server
    finally:
        await server.stop()


async def write_note(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create table note as select 'still here' as said")
    await connection.close()


async def answer(url: str, query: str = "select said from note") -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_data_survives_a_restart(data_folder: Path) -> None:
    async with started(data_folder) as server:
        await write_note(server.url)
    async with started(data_folder) as server:
        assert await answer(server.url) == "still here"


async def test_stopping_twice_ends_it_once(data_folder: Path) -> None:
    server = await EmbeddedPostgres.start(data_folder, settings=QUICK)
    await server.stop()
    await server.stop()
    assert not psutil.pid_exists(server.pid)


async def test_a_second_service_is_told_who_uses_the_folder(data_folder: Path) -> None:
    with service_in(data_folder) as first:
        with pytest.raises(DataFolderInUse, match=rf"\(pid {first.process.pid}\)"):
            await EmbeddedPostgres.start(data_folder)
        assert await answer(first.url, "select 1") == 1


async def test_a_killed_service_is_followed_by_the_next(data_folder: Path) -> None:
    with service_in(data_folder) as first:
        await write_note(first.url)
        first.kill()
    assert first.postgres.is_running()
    async with started(data_folder) as server:
        assert not first.postgres.is_running()
        assert await answer(server.url) == "still here"


async def test_a_killed_postgres_is_followed_by_the_next(data_folder: Path) -> None:
    with service_in(data_folder) as first:
        await write_note(first.url)
        first.process.send_signal(signal.SIGSTOP)  # so that nobody reaps it
        first.postgres.kill()
        first.kill()
    async with started(data_folder) as server:
        assert await answer(server.url) == "still here"


async def test_a_claim_whose_pid_is_another_process_by_now_is_no_obstacle(
    data_folder: Path,
) -> None:
    async with started(data_folder) as server:
        await write_note(server.url)
        claim = (data_folder / "postgres" / "postmaster.pid").read_text().splitlines()
        account = psutil.Process(server.pid).uids().real
    with ExitStack() as ending:
        bystander = ending.enter_context(subprocess.Popen(["sleep", "60"], user=account))
        ending.callback(bystander.kill)
        claim[0] = str(bystander.pid)
        (data_folder / "postgres" / "postmaster.pid").write_text("\n".join(claim))
        async with started(data_folder) as server:
            assert await answer(server.url) == "still here"
        assert bystander.poll() is None


async def test_half_made_data_is_no_obstacle(data_folder: Path) -> None:
    half_made = data_folder / "unfinished-0"
    half_made.mkdir()
    (half_made / "PG_VERSION").write_text("18\n")
    async with started(data_folder) as server:
        assert await answer(server.url, "select 1") == 1
    assert not half_made.exists()


@pytest.mark.parametrize("name", ["long" * 40, "a b, \"c\" 'd' 100% ü?&#=:@"])
async def test_any_folder_will_do(data_folder: Path, name: str) -> None:
    async with started(data_folder / name) as server:
        assert await answer(server.url, "select 1") == 1
        engine = create_async_engine(server.url.replace("postgresql:", "postgresql+asyncpg:", 1))
        async with engine.connect() as connection:
            assert (await connection.execute(text("select 1"))).scalar_one() == 1
        await engine.dispose()


async def test_the_environment_does_not_lead_the_client_elsewhere(data_folder: Path) -> None:
    script = "import asyncio, asyncpg, sys; asyncio.run(asyncpg.connect(sys.argv[1]))"
    async with started(data_folder) as server:
        elsewhere = {**os.environ, "PGPORT": "1", "PGHOST": "127.0.0.1", "PGDATABASE": "other"}
        command = [sys.executable, "-W", "ignore", "-c", script, server.url]
        assert subprocess.run(command, env=elsewhere, check=False).returncode == 0


async def test_only_its_owner_can_reach_it(data_folder: Path) -> None:
    async with started(data_folder) as server:
        assert await answer(server.url, "show listen_addresses") == ""
        assert (data_folder / "socket").stat().st_mode & 0o777 == 0o700
        assert (data_folder / "postgres").stat().st_mode & 0o777 == 0o700


async def test_folders_above_the_data_stay_closed_to_others(data_folder: Path) -> None:
    closed = data_folder / "closed"
    closed.mkdir(mode=0o700)
    async with started(closed / "data") as server:
        assert await answer(server.url, "select 1") == 1
    assert closed.stat().st_mode & 0o007 == 0


async def test_a_closed_folder_above_the_data_is_said_to_be_opened_once(
    data_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = data_folder / "closed"
    closed.mkdir(mode=0o700)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            async with started(closed / "data"):
                pass
    said = [vars(each)["folder"] for each in caplog.records if each.msg == "let through"]
    assert said.count(str(closed)) == (1 if os.geteuid() == 0 else 0)


async def test_a_folder_that_cannot_be_made_is_told_in_one_line(data_folder: Path) -> None:
    (data_folder / "file").touch()
    with pytest.raises(DataFolderUnusable, match="Set SIGNOFF_DATA_DIR to a folder") as told:
        await EmbeddedPostgres.start(data_folder / "file" / "data")
    assert "\n" not in told.value.message


async def test_data_of_another_release_is_told(data_folder: Path) -> None:
    (data_folder / "postgres").mkdir()
    (data_folder / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(DataFolderUnusable, match="made by Postgres 16"):
        await EmbeddedPostgres.start(data_folder)


async def test_what_postgres_refuses_is_told_and_leaves_the_folder_free(data_folder: Path) -> None:
    with pytest.raises(PostgresNotStarted, match=r"FATAL: .*shared_buffers"):
        await EmbeddedPostgres.start(data_folder, settings={"shared_buffers": "a lot"})
    async with started(data_folder) as server:
        assert await answer(server.url, "select 1") == 1
