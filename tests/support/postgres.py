"""A PostgreSQL server of a test's own, on loopback."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from duetbench.host.ports import free_port

_SETTINGS: Final = (
    "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
    "-c fsync=off -c max_connections=300"
)


@contextmanager
def server() -> Iterator[str]:
    """Start a server without data; yield its address, without the name of a database.

    Stop it and remove its files in any case. PostgreSQL refuses to run as root: then its user is
    `postgres`, or `nobody`.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="duetbench-postgres-"))
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = next(u for name in ("postgres", "nobody") if (u := _user(name)))
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_whom = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, "-D", folder / "data", *arguments],
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **as_whom,
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


def psql(address: str, question: str) -> str:
    """Ask a database with the server's own program: a row per line."""
    command = [str(_programs() / "psql"), address, "-XqtAc", question]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _programs() -> Path:
    """Return the folder of initdb: Debian has one for each version, none of them on PATH."""
    result = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda item: int(item.parts[-3])
    )
    initdb = result[-1] if result else shutil.which("initdb")
    assert initdb, "PostgreSQL's server is not here (Debian: postgresql)"
    return Path(initdb).resolve().parent
