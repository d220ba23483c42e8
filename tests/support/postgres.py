"""A PostgreSQL server of a test's own, on loopback."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from duetbench.host.ports import free_port

_SETTINGS: Final = "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"


@contextmanager
def server() -> Iterator[str]:
    """Start a server without data; yield its address, without the name of a database.

    Stop it and remove its files in any case. PostgreSQL refuses to run as root: then its user is
    `postgres`.
    """
    # Debian has programs for each version, none of them on PATH.
    debian = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    path = os.pathsep.join((*debian[::-1], os.environ["PATH"]))
    folder = Path(tempfile.mkdtemp(prefix="duetbench-postgres-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [shutil.which(program, path=path) or program, "-D", folder / "data", *arguments],
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **user,
        )

    try:
        run("initdb", "--username=bench", "--auth=trust", "--no-sync")
        port = free_port()
        run("pg_ctl", "start", "--wait", "-l", str(folder / "log"), "-o", f"-p {port} {_SETTINGS}")
        try:
            yield f"postgresql://bench@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "stop", "--mode=immediate")
    finally:
        shutil.rmtree(folder)
