"""A server or load generator in a session of its own: started pinned, and proven to have ended.

Pinning sets the affinity of the thread that starts the command, for this moment. The child and its
own children inherit it. Setting it afterwards would race with the first workers. A Ctrl-C may fall
between the fork and the record of its pid: then what carries the session's mark is ended. It may
fall between that record and the code that stops the session: then the session ends with this
process.

The master is not reaped before the session has ended: as long as it is at least a zombie, the
kernel gives neither its pid nor its session id to another process.

Every session has a record, a JSON file, from before its first process starts until its end is
proven. Its processes carry the record's mark in RLIMIT_LOCKS, a limit that Linux has not enforced
since 2.4: processes inherit it, so a daemon that leaves its parent and session and cleans its
environment still has the mark. The owner locks the file, and the kernel releases it: processes that
carry the mark of a record without lock are orphans, and no others are; `reap` ends them.

Source: pidfd_open(2), flock(2), prlimit(2).
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import resource
import secrets
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, Self

import psutil
from pydantic import Field, ValidationError

from duetbench.core.errors import FlagName, LaunchError
from duetbench.core.model import Frozen
from duetbench.core.units import utc_now
from duetbench.host.paths import state_dir

Role = Literal["server", "client", "command"]

_RLIMIT_LOCKS: Final = 10  # Python's `resource` does not name it
_MARKS: Final = 2**62  # of 2**63 values: large ones mean "unlimited"
_MARKING: Final = threading.Lock()
_STRAGGLERS_SECONDS: Final = 2.0  # for members to end after the master
_KILL_SECONDS: Final = 10.0  # for processes to end after SIGKILL; they may be in a system call
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)  # `InterruptedRun` among them


class SessionRecord(Frozen):
    """One session that its owner has not yet ended."""

    mark: int = Field(default_factory=lambda: secrets.randbelow(_MARKS))
    argv: tuple[str, ...]
    recorded: str = Field(default_factory=utc_now)

    @property
    def path(self) -> Path:
        return _folder() / f"{self.mark}.json"

    def save(self) -> IO[bytes]:
        """Write its file, and lock it until the result is closed; raises OSError."""
        draft = self.path.with_suffix(".new")
        draft.parent.mkdir(parents=True, exist_ok=True)
        file = draft.open("wb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(self.model_dump_json(indent=1).encode())
        draft.replace(self.path)
        return file

    def spawn(
        self, argv: Sequence[str], cores: Sequence[int] | None, **how: Any
    ) -> subprocess.Popen[bytes]:
        """Start a process on these cores with the record's mark, as `subprocess.Popen` does.

        What another thread starts at the same moment without a record gets the mark, too.
        """
        with _MARKING:
            limits, pinned = resource.getrlimit(_RLIMIT_LOCKS), os.sched_getaffinity(0)
            try:
                os.sched_setaffinity(0, pinned if cores is None else cores)  # this thread only
                with suppress(ValueError, OSError):  # a lower hard limit
                    resource.setrlimit(_RLIMIT_LOCKS, (self.mark, limits[1]))
                return subprocess.Popen(
                    tuple(argv),
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **how,
                )
            finally:
                os.sched_setaffinity(0, pinned)
                with suppress(ValueError, OSError):
                    resource.setrlimit(_RLIMIT_LOCKS, limits)

    def processes(self) -> list[psutil.Process]:
        """List the live processes that carry its mark, except this process and its parents.

        Those can carry it only if duetbench itself was started inside an orphaned session.
        """
        ours = {ancestor.pid for ancestor in psutil.Process().parents()}
        return _living(lambda pid: pid not in ours and _mark(pid) == self.mark)


def reap() -> list[str]:
    """End the processes that dead duetbench processes left; return a sentence per session."""
    sentences: list[str] = []
    for path in sorted(_folder().glob("*.json")):
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                session = SessionRecord.model_validate_json(file.read())
        except (ValidationError, OSError):  # its owner lives; just deleted; of another version
            continue
        ended: set[int] = set()
        about = f"({shlex.join(session.argv)}, started {session.recorded})"
        if survivors := kill_all(session.processes, ended):
            pids = ", ".join(str(item.pid) for item in survivors)
            words = f"could not end process {pids}, left by an earlier run {about}; end it by hand"
            sentences.append(words)
            continue
        path.unlink(missing_ok=True)
        if ended:
            processes = "process" if len(ended) == 1 else "processes"
            sentences.append(f"ended {len(ended)} {processes} left by an earlier run {about}")
    return sentences


def describe(pid: int) -> str:
    """Name a process and its command, if it still exists."""
    try:
        return f"process {pid} ({shlex.join(psutil.Process(pid).cmdline())})"
    except psutil.NoSuchProcess:
        return f"process {pid} (it has just ended)"


def kill_all(find: Callable[[], list[psutil.Process]], killed: set[int]) -> list[psutil.Process]:
    """Kill what `find` lists until it lists nothing, adding to `killed`; return survivors."""
    deadline = time.monotonic() + _KILL_SECONDS
    # Repeated, as a process may fork between the listing and its end.
    while (survivors := find()) and time.monotonic() < deadline:
        for process in survivors:
            with suppress(psutil.Error):
                process.kill()  # not another one that has got its pid
                killed.add(process.pid)
        _wait_ended((item.pid for item in survivors), max(0.0, deadline - time.monotonic()))
    return survivors


def _wait_ended(pids: Iterable[int], timeout: float) -> bool:
    """Wait until all processes have ended, reaped or not; False after `timeout` seconds."""
    deadline, descriptors = time.monotonic() + timeout, list[int]()
    with ExitStack() as stack:
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(pid))
                stack.callback(os.close, descriptors[-1])
        for descriptor in descriptors:
            left = min(max(0.0, deadline - time.monotonic()), 1e6)  # no select is endless
            if not select.select([descriptor], [], [], left)[0]:
                return False
    return True


def _living(belongs: Callable[[int], bool]) -> list[psutil.Process]:
    """List the processes whose pid `belongs`, except this one and those that have ended."""
    processes: list[psutil.Process] = []
    for pid in psutil.pids():
        with suppress(psutil.NoSuchProcess, OSError):
            if pid != os.getpid() and belongs(pid):
                process = psutil.Process(pid)
                if process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
                    processes.append(process)
    return processes


def _mark(pid: int) -> int | None:
    """The mark of a process of any user; None: unlimited. Raises OSError if it is gone."""
    try:
        return resource.prlimit(pid, _RLIMIT_LOCKS)[0]
    except PermissionError:  # another user's, whose limits everybody may read
        limits = Path(f"/proc/{pid}/limits").read_text("utf-8")
        match = re.search(r"^Max file locks +(\d+)", limits, re.MULTILINE)
        return int(match[1]) if match else None


def _folder() -> Path:
    return state_dir() / "sessions"


class Session:
    """A running command with all the processes that it starts, as a context that ends them."""

    def __init__(
        self, popen: subprocess.Popen[bytes], record: SessionRecord, held: IO[bytes], log: Path
    ) -> None:
        self.pid: Final = popen.pid  # also the session's id, as the master leads it
        self.record: Final = record
        self.log: Final = log
        self.started: Final = time.monotonic()
        self._popen, self._held, self._owner = popen, held, os.getpid()
        self._lock = threading.RLock()
        self._exit_code: int | None = None
        self._exited = False
        self._killed: set[int] = set()
        self._ended = False
        atexit.register(self._leave)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        role: Role,
        cores: Sequence[int] | None,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        recorded: Sequence[str] | None = None,
        append: bool = False,
    ) -> Session:
        """Start a command: stdin empty, output to `log`, pinned to `cores` unless None.

        `env` is its whole environment. `recorded` replaces the command in records and errors if it
        contains private values. `append`: what the log has already stays.

        LaunchError load_failed (client) or not_ready if it cannot be started, and OSError if it
        cannot be recorded.
        """
        record = SessionRecord(argv=tuple(argv if recorded is None else recorded))
        held = record.save()
        try:
            log.touch(0o600)  # it may get private values
            with log.open("ab" if append else "wb") as output:
                popen = record.spawn(argv, cores, env=env, cwd=cwd, stdout=output)
                return cls(popen, record, held, log)
        except BaseException as error:
            kill_all(record.processes, set())
            record.path.unlink(missing_ok=True)
            held.close()
            if isinstance(error, OSError | ValueError):
                what = f"cannot start the {role} {shlex.join(record.argv)}: {error}"
                flag = FlagName.LOAD_FAILED if role == "client" else FlagName.NOT_READY
                raise LaunchError(flag, what) from error
            raise

    def poll(self) -> int | None:
        """Return the master's exit code (negative for a signal); None: it lives, or is unknown."""
        return self._observe(os.WNOHANG)

    def wait(self, timeout: float) -> int | None:
        """Wait for the master to end; None if it still lives after `timeout` seconds."""
        if not self._exited:
            _wait_ended([self.pid], max(0.0, timeout))
        return self.poll()

    def stop(self, grace: float) -> list[int]:
        """End the session and prove it; return the pids that got SIGKILL, ascending.

        SIGTERM goes to the master alone (a group-wide one has hung servers whose master waits for
        its workers). All get up to `grace` seconds to end, then each process that is left gets
        SIGKILL. An exception in between, such as Ctrl-C, cuts the grace short.

        Raises:
            LaunchError: stray_process if a process survives; a later call tries again.
        """
        with self._lock:
            if not self._ended:
                try:
                    self._ask(time.monotonic() + grace)
                finally:
                    try:
                        self._end()
                    except _INTERRUPTS:  # during the end itself
                        self._end()
                        raise
            return sorted(self._killed)

    def _end(self) -> None:
        if survivors := kill_all(self.members, self._killed):
            names = "; ".join(describe(item.pid) for item in survivors)
            raise LaunchError(
                FlagName.STRAY_PROCESS,
                f"expected the session of {shlex.join(self.record.argv)} to end, but SIGKILL did "
                f"not end {names}; end it by hand before measuring again",
            )
        self._observe(0)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        # Popen has nothing left to wait for.
        self._popen.returncode = self._exit_code or 0
        self._ended = True
        self.record.path.unlink(missing_ok=True)
        self._held.close()
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        """End the session if nobody has stopped it; a fork of this process does nothing."""
        if os.getpid() == self._owner:
            with suppress(LaunchError):
                self.stop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(0)

    def members(self) -> list[psutil.Process]:
        """List all live processes of the session, the master first if it lives.

        Members have its session id, or carry its record's mark.
        """
        if self._ended:  # other processes may have the ids by now
            return []
        mine = _living(lambda pid: os.getsid(pid) == self.pid or _mark(pid) == self.record.mark)
        return sorted(mine, key=lambda item: (item.pid != self.pid, item.pid))

    def _observe(self, options: int) -> int | None:
        # WNOWAIT leaves the zombie, which keeps the pid and the session id.
        if not self._exited:
            try:
                result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | options)
            except ChildProcessError:  # other code in this process has reaped it
                self._exited = True
                return None
            if result is None:
                return None
            by_signal = result.si_code != os.CLD_EXITED
            self._exit_code = -result.si_status if by_signal else result.si_status
            self._exited = True
        return self._exit_code

    def _ask(self, deadline: float) -> None:
        self.poll()
        if self._exited:
            return  # its orphans will not end by themselves
        os.kill(self.pid, signal.SIGTERM)
        if not _wait_ended([self.pid], max(0.0, deadline - time.monotonic())):
            return
        deadline = min(deadline, time.monotonic() + _STRAGGLERS_SECONDS)
        while members := self.members():
            if not _wait_ended((i.pid for i in members), deadline - time.monotonic()):
                return
