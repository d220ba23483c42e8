"""What one launch has for itself: scratch folder, working copy, variables, and its own commands.

An application that keeps a data base finds it as it was, or made anew, at each start: a target is
started in a fresh copy of its files, `{tmp}` is an empty folder, and the commands `before` make in
it what the application needs. What they leave running, such as a data base's server, belongs to the
launch: it runs on the server's cores, is no noise of the machine's, and ends with the launch.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from duetbench.core.errors import LaunchError
from duetbench.core.flags import FlagName
from duetbench.core.model import Case, Endpoint
from duetbench.host import proc
from duetbench.host.command import log_tail
from duetbench.host.process_group import Session
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
        self._testbed, self._case = testbed, case
        self._log = log
        self._place = proc.make_scratch(_PREFIX, Path(tempfile.gettempdir()))
        self._tmp = self._place / "tmp"
        self._tmp.mkdir()
        places = {"tmp": str(self._tmp), "port": str(port)}
        self._private = {name: fill(text, places) for name, text in testbed.private.items()}
        self._values = {**self._private, **places}
        self.folder = self._place / "copy" if testbed.target else testbed.folder(case)
        """Where the server and the commands are started."""
        self._commands: list[Session] = []
        self._opened = self._closed = False

    def environment(self) -> dict[str, str]:
        """The variables of the server."""
        return self._testbed.environment(self._case, self.folder, self._values)

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
        if self._testbed.target:
            shutil.copytree(self._testbed.folder(self._case), self.folder, symlinks=True)
        self._opened = True
        for command in self._case.before:
            self._do(command, "before", cores)

    def cpu_seconds(self) -> float:
        """Core time so far of what the commands have left running, s."""
        left = (stat for command in self._commands for stat in command.stats())
        return sum(process.ticks + process.children_ticks for process in left) * proc.TICK

    def close(self) -> None:
        """Do what is to be done after, end what is left running, and remove all.

        LaunchError setup_failed, or not_stopped; again it does nothing.
        """
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self._place, ignore_errors=True)
            try:
                for command in self._case.after if self._opened else ():
                    self._do(command, "after", None)
            finally:
                for session in self._commands:
                    stack.callback(session.stop, 0)

    def _do(self, command: str, when: str, cores: Sequence[int] | None) -> None:
        """Run a command to its end; what it leaves running stays until the workspace is closed."""
        # `python` is the application's; the server itself gets no other PATH by it.
        programs = self._testbed.pythons[self._case.stack, self._case.python].parent
        variables = self.environment()
        variables["PATH"] = os.pathsep.join((str(programs), variables.get("PATH", os.defpath)))
        log = self._log.with_suffix(f".command-{len(self._commands)}.log")
        session = Session.start(
            ("sh", "-c", fill(command, self._values)),
            recorded=("sh", "-c", command),
            role="server",
            cores=cores,
            env=variables,
            cwd=self.folder,
            log=log,
        )
        self._commands.append(session)
        code = session.wait(COMMAND_SECONDS)
        if code != 0:
            still = f"it still running after {COMMAND_SECONDS:.0f} s"
            found = still if code is None else f"exit code {code}"
            raise LaunchError(
                FlagName.SETUP_FAILED,
                f"{when} {command!r}: expected exit code 0, found {found}; it said: "
                f"{log_tail(log)}",
            )


def sweep() -> None:
    """Remove what the workspaces of killed processes have left."""
    proc.sweep_scratch(_PREFIX, Path(tempfile.gettempdir()))
