"""What one launch has for itself: scratch folder, working copy, variables, and its own commands.

An application that keeps a data base finds it as it was, or made anew, at each start: a target is
started in a fresh copy of its files, `{tmp}` is an empty folder, and the commands `before` make in
it what the application needs. What they leave running, such as a data base's server, belongs to the
launch: it runs on the server's cores, is no noise of the machine's, and ends with the launch.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from duetbench.core.errors import LaunchError
from duetbench.core.flags import FlagName
from duetbench.core.model import Case, Endpoint
from duetbench.host import orphans, proc
from duetbench.host.command import log_tail
from duetbench.measure.testbed import Testbed, fill

COMMAND_SECONDS: Final = 300.0
"""For one command before or after a server: time to fill a data base."""

HIDDEN: Final = 4
"""Letters from which on a private value is taken out of what is said: shorter ones are everywhere,
and no secrets."""

_PREFIX: Final = "duetbench-launch"


class Workspace:
    """The surroundings of one launch; `open` before its server starts, `close` when it is gone."""

    def __init__(self, testbed: Testbed, case: Case, port: int, log: Path) -> None:
        """Make an empty folder; `close` removes it. Cases that share a server share a workspace."""
        self._rig, self._case = testbed, case
        self._log = log.with_suffix(".commands.log")
        self._place = proc.make_scratch(_PREFIX, Path(tempfile.gettempdir()))
        self._tmp = self._place / "tmp"
        self._tmp.mkdir()
        places = {"tmp": str(self._tmp), "port": str(port)}
        self._private = {name: fill(text, places) for name, text in testbed.private.items()}
        self._values = {**self._private, **places}
        self.folder = self._place / "copy" if testbed.target else testbed.folder(case)
        """Where the server and the commands are started."""
        self._marker = ""
        self._opened = self._closed = False

    def environment(self) -> dict[str, str]:
        """The variables of the server."""
        return self._rig.environment(self._case, self.folder, self._values)

    def fill_in(self, endpoint: Endpoint) -> Endpoint:
        """Give an endpoint as it is really asked, with all values in their places."""
        headers = {name: fill(text, self._values) for name, text in endpoint.headers.items()}
        body = fill(endpoint.body, self._values)
        return endpoint.model_copy(update={"headers": headers, "body": body})

    def hide(self, text: str) -> str:
        """Take private values, and the names of this workspace's folders, out of a text."""
        for name, value in sorted(self._private.items(), key=lambda item: -len(item[1])):
            if len(value) >= HIDDEN:
                text = text.replace(value, f"{{{name}}}")
        return text.replace(str(self._tmp), "{tmp}").replace(str(self._place / "copy"), ".")

    def open(self, cores: Sequence[int] | None) -> None:
        """Copy the files and do what is to be done before; LaunchError setup_failed."""
        if self._rig.target:
            shutil.copytree(self._rig.folder(self._case), self.folder, symlinks=True)
        self._log.unlink(missing_ok=True)
        self._opened = True
        for command in self._case.before:
            self._do(command, "before", cores)

    def cpu_seconds(self) -> float:
        """Core time so far of what the commands have left running, s."""
        return sum(process.ticks + process.children_ticks for process in self._left()) * proc.TICK

    def close(self) -> None:
        """Do what is to be done after, end what is left running, and remove all.

        LaunchError setup_failed; again it does nothing.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for command in self._case.after if self._opened else ():
                self._do(command, "after", None)
        finally:
            if self._marker:
                proc.kill_all(self._left, set())
                orphans.forget(self._marker)
            shutil.rmtree(self._place, ignore_errors=True)

    def _left(self) -> list[proc.Stat]:
        """What the commands have left running: who carries their marker, and all descendants.

        Programs that write their state into their command line (PostgreSQL) lose the marker there.
        """
        if not self._marker:
            return []
        everybody = {item.pid: item for item in proc.stats()}
        mine = {item.pid for item in orphans.carriers(self._marker)}
        while children := {p for p, i in everybody.items() if i.parent in mine} - mine:
            mine |= children
        return [everybody[pid] for pid in mine if pid in everybody and everybody[pid].alive]

    def _do(self, command: str, when: str, cores: Sequence[int] | None) -> None:
        argv = ("sh", "-c", fill(command, self._values))
        if not self._marker:
            record = orphans.new_record(uuid4(), "server", ("sh", "-c", command))
            orphans.record(record)
            self._marker = record.marker
        processes: list[subprocess.Popen[bytes]] = []
        # `python` is the application's; the server itself gets no other PATH by it.
        programs = self._rig.pythons[self._case.stack, self._case.python].parent
        variables = self.environment()
        variables["PATH"] = os.pathsep.join((str(programs), variables.get("PATH", os.defpath)))

        def spawn() -> None:
            if cores is not None:
                os.sched_setaffinity(0, cores)  # of this thread, and of what it starts
            with self._log.open("ab") as output:
                processes.append(
                    subprocess.Popen(
                        argv,
                        cwd=self.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env={**variables, orphans.MARKER: self._marker},
                    )
                )

        thread = threading.Thread(target=spawn, name=when)
        thread.start()
        thread.join()
        (process,) = processes
        ended = f"it still running after {COMMAND_SECONDS:.0f} s"
        try:
            ended = f"exit code {process.wait(COMMAND_SECONDS)}"
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            raise LaunchError(
                FlagName.SETUP_FAILED,
                f"{when} {command!r}: expected exit code 0, found {ended}; it said: "
                f"{log_tail(self._log)}",
            )


def sweep() -> None:
    """Remove what the workspaces of killed processes have left."""
    proc.sweep_scratch(_PREFIX, Path(tempfile.gettempdir()))
