"""A PgBouncer of the tests' own, in transaction mode, before a Postgres that is reached over a socket or a port."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

IS_POOLED = os.environ.get("SIGNOFF_TEST_PGBOUNCER") == "1"
"""Whether services of the tests reach Postgres through a pooler."""
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
READY_WITHIN = 10.0

_CONFIGURATION = """
[databases]
* = {place} user={account}{password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 5
server_reset_query_always = 0
"""


@contextmanager
def pgbouncer(folder: Path, url: str) -> Generator[str]:
    """Where the Postgres at `url` is reached through a pooler; any of its databases may be named there."""
    if PGBOUNCER is None:
        raise FileNotFoundError("pgbouncer is not installed")
    port, parts = _free_port(), urlsplit(url)
    query = parse_qs(parts.query)
    host = query["host"][0] if "host" in query else parts.hostname or "127.0.0.1"
    server_port = query["port"][0] if "port" in query else str(parts.port or 5432)
    configuration = folder / "pgbouncer.ini"
    configuration.write_text(
        _CONFIGURATION.format(
            place=f"host={host} port={server_port}",
            account=parts.username or "postgres",
            password=f" password={parts.password}" if parts.password else "",
            port=port,
        )
    )
    process = _launch(configuration, host)
    try:
        _wait_for(process, port)
        yield f"postgresql://anybody@127.0.0.1:{port}{parts.path}"
    finally:
        process.kill()
        process.wait()


def _launch(configuration: Path, host: str) -> subprocess.Popen[bytes]:
    """It refuses to be root; where Postgres lends itself an account, only that one may enter its socket."""
    account = Path(host).stat().st_uid if host.startswith("/") else None
    user = account if os.geteuid() == 0 and account else None
    with configuration.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            [str(PGBOUNCER), str(configuration)], stdout=log, stderr=log, user=user
        )


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + READY_WITHIN
    while time.monotonic() < ends:
        assert process.poll() is None, "pgbouncer ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError("pgbouncer is not ready")


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
