"""Processes that an earlier duetbench left behind: who they are, and ending only those.

Every session is recorded, one JSON file each, before its first process starts, and forgotten when
its end is proven. Its processes carry the record's id in their environment. When a record's owner
is dead (kill -9, power cut), whatever carries that id is an orphan, and nothing else is.
"""

import os
import shlex
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal
from uuid import UUID

import psutil
from pydantic import ValidationError

from duetbench.core.errors import LaunchError
from duetbench.core.flags import FlagName
from duetbench.core.model import Frozen
from duetbench.host import proc
from duetbench.host.paths import state_dir

MARKER: Final = "DUETBENCH_SESSION"
"""Environment variable that every process of a session carries, with the session's id."""

Role = Literal["server", "client"]


class SessionRecord(Frozen):
    """One session that its owner has not yet ended."""

    marker: str
    role: Role
    argv: tuple[str, ...]
    recorded: str
    boot: str
    namespace: str
    owner_pid: int
    owner_start: int
    pid: int | None = None
    sid: int | None = None
    start: int | None = None


def new_record(marker: UUID, role: Role, argv: tuple[str, ...]) -> SessionRecord:
    """Describe a session that this process is about to start."""
    me = proc.stat(os.getpid())
    if me is None:
        raise LaunchError(FlagName.HARNESS_ERROR, "/proc does not show this process; mount /proc")
    return SessionRecord(
        marker=str(marker),
        role=role,
        argv=argv,
        recorded=datetime.now(UTC).isoformat(timespec="seconds"),
        boot=proc.boot_id(),
        namespace=proc.pid_namespace(),
        owner_pid=me.pid,
        owner_start=me.start,
    )


def record(session: SessionRecord) -> None:
    """Write or renew the record of a session; LaunchError harness_error if that fails."""
    path = _file(session.marker)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(session.model_dump_json(indent=1), "utf-8")
        draft.replace(path)
    except OSError as error:
        raise LaunchError(
            FlagName.HARNESS_ERROR,
            f"cannot record the session in {path.parent}: {error.strerror}; "
            "make the folder writable, free some disk space, or set XDG_STATE_HOME",
        ) from error


def forget(marker: str) -> None:
    """Remove the record of a session whose end is proven."""
    for path in (_file(marker), _file(marker).with_suffix(".new")):
        path.unlink(missing_ok=True)


def reap() -> list[str]:
    """End what dead duetbench processes left behind; one sentence per session found."""
    boot, namespace = proc.boot_id(), proc.pid_namespace()
    sentences: list[str] = []
    for path in sorted(_folder().glob("*.json")):
        try:
            session = SessionRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:  # its owner, or another reaper, has just forgotten it
            continue
        except (ValidationError, OSError):
            # A power cut can leave an empty file; nothing of before the boot can still be running.
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME):
                    path.unlink(missing_ok=True)
                else:
                    problem = "is no session record that this duetbench understands; left alone"
                    sentences.append(f"{path} {problem}")
            continue
        if session.boot != boot:
            forget(session.marker)
        elif session.namespace == namespace and not proc.lives(
            session.owner_pid, session.owner_start
        ):
            sentences += _end(session)
    return sentences


def carriers(marker: str) -> list[proc.Stat]:
    """List the live processes that carry the id of a session, this process and its parents not.

    Those can carry it only if duetbench itself was started inside an orphaned session.
    """
    ours = {os.getpid(), *(ancestor.pid for ancestor in psutil.Process().parents())}
    return [
        item
        for item in proc.stats()
        if item.pid not in ours and proc.carries(item.pid, MARKER, marker)
    ]


def _end(session: SessionRecord) -> list[str]:
    ended: set[int] = set()
    left = proc.kill_all(lambda: carriers(session.marker), ended)
    about = f"({shlex.join(session.argv)}, started {session.recorded})"
    if left:
        pids = ", ".join(str(item.pid) for item in left)
        return [f"could not end process {pids}, left by an earlier run {about}; end it by hand"]
    forget(session.marker)
    processes = "process" if len(ended) == 1 else "processes"
    return [f"ended {len(ended)} {processes} left by an earlier run {about}"] if ended else []


def _folder() -> Path:
    return state_dir() / "sessions"


def _file(marker: str) -> Path:
    return _folder() / f"{marker}.json"
