"""Running programs as another, lesser user of this machine."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from servebench import procfs
from servebench.errors import SetupError

_TIMEOUT_S: Final = 120
_LIMITS: Final = ("--nproc=8192", "--fsize=4294967296", "--core=0")
"""Threads and bytes of one file: far above what any server here needs, far below the machine's."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ATTEMPTS: Final = 20
_KILL_ALL: Final = "kill -KILL -1"  # all that the user may signal, but for this shell


class OtherUser:
    """One user of this machine, and everything that can be done as them.

    As root, the change is made without sudo; programs can never gain privileges back.
    """

    def __init__(self, name: str) -> None:
        """Find the user.

        Raises:
            SetupError: There is none of that name, or it is root, or ourselves.
        """
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise SetupError(
                f"this machine has no user {name!r} for foreign code: scripts/prepare_runner.py "
                "makes one"
            ) from error
        if entry.pw_uid in {0, os.geteuid()}:
            raise SetupError(
                f"foreign code would run as {name}, who is "
                f"{'root' if entry.pw_uid == 0 else 'ourselves'}: expected a lesser user"
            )
        self.name, self.uid, self.gid = name, entry.pw_uid, entry.pw_gid

    def command(
        self, argv: Sequence[str | Path], env: Mapping[str, str], folder: Path
    ) -> list[str | Path]:
        """The command line that runs a program as that user.

        Args:
            argv: The program and its arguments.
            env: Its whole environment.
            folder: Where it is started; that user must be able to enter it.
        """
        change: list[str | Path] = ["sudo", "-n", "-u", self.name, "--"]
        change += ["setpriv", "--no-new-privs", "--"]
        if os.geteuid() == 0:
            change = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}"]
            change += ["--clear-groups", "--no-new-privs", "--"]
        variables = [f"{name}={value}" for name, value in env.items()]
        # The folder is entered as that user: it may be closed to us.
        return [*change, "env", "-i", "-C", folder, *variables, "prlimit", *_LIMITS, "--", *argv]

    def run(
        self, argv: Sequence[str | Path], given: bytes = b"", *, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a short program and wait for it.

        Raises:
            SetupError: It cannot be started, takes too long, or (with `check`) fails.
        """
        command = self.command(argv, {"PATH": PATH, "LANG": "C.UTF-8"}, Path("/"))
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, check=False, timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SetupError(f"{argv[0]} could not be run as {self.name}: {error}") from error
        if check and done.returncode != 0:
            said = ascii(done.stderr.decode("utf-8", "replace").strip()[-200:])
            raise SetupError(
                f"{argv[0]}, run as {self.name}, ended with exit code {done.returncode}; it said: "
                f"{said}. May this user become {self.name} (scripts/prepare_runner.py)?"
            )
        return done

    def start(
        self, argv: Sequence[str | Path], env: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program; what it says comes through a pipe of ours.

        Raises:
            SetupError: It cannot be started.
        """
        try:
            return subprocess.Popen(
                self.command(argv, env, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise SetupError(f"nothing can be run as {self.name}: {error}") from error

    def end_all(self) -> None:
        """End everything that runs as that user, however it was started.

        Raises:
            SetupError: Nothing can be run as that user, or something goes on all the same.
        """
        for _ in range(_ATTEMPTS):  # who forks fast enough escapes the first ones
            # Ends with 1 where there is nobody to end.
            self.run(["/bin/sh", "-c", f"{_KILL_ALL} 2>/dev/null; exit 0"])
            left = self.running()
            if not left:
                return
            procfs.wait_ended(left, 1.0)
        raise SetupError(
            f"processes of {self.name} go on whatever is done (pids {sorted(self.running())}): "
            "restart this machine"
        )

    def running(self) -> set[int]:
        """The pids of what runs as that user."""
        found = psutil.process_iter(["uids", "status"])
        return {
            process.pid
            for process in found
            if process.info["uids"] is not None
            and self.uid in process.info["uids"]
            and process.info["status"] not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        }
