"""Whether a machine is prepared as a runner: hook, users, walls and clock, looked at one by one."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.github.runner import hook
from duetbench.github.runner.room import LIBRARY, OtherUser, Room, config_file, read_config
from duetbench.host import machine, paths
from duetbench.project.doctor import Finding, State

LISTENER: Final = "Runner.Listener"
"""Name of the process that waits for jobs; one per registered runner."""

VARIABLE: Final = "ACTIONS_RUNNER_HOOK_JOB_STARTED"
_REMEDY: Final = "sudo sh scripts/prepare-runner.sh repository=OWNER/NAME"
_OTHERS_WRITE: Final = 0o022
_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class RunnerPaths:
    """Where things are on a prepared machine."""

    policy: Path
    library: Path  # the folder of the hook and its launcher
    root: Path
    owner: int = 0  # who must own the files: root


def here() -> RunnerPaths:
    """This machine."""
    return RunnerPaths(config_file(), LIBRARY, paths.project_root())


def findings(where: RunnerPaths) -> tuple[Finding, ...]:
    """Look at everything; what is wrong becomes a finding, never an error."""
    looks: dict[str, Callable[[RunnerPaths], str]] = {
        "policy": _policy,
        "hook": _hook,
        "hook is asked": _asked,
        "one runner": _one_runner,
        "rights of our own": _no_root,
        "user of foreign code": _foreign,
        "clock": _clock,
    }
    found = []
    for what, look in looks.items():
        try:
            found.append(Finding(what=what, state="ok", detail=look(where)))
        except DuetbenchError as error:
            state: State = "missing" if isinstance(error, SetupError) else "wrong"
            found.append(Finding(what=what, state=state, detail=str(error), remedy=_REMEDY))
    return tuple(found)


def _policy(where: RunnerPaths) -> str:
    _require_roots(where.policy, where)
    try:
        policy = hook.read_policy(where.policy.read_text("utf-8"))
    except hook.PolicyError as error:
        raise DuetbenchError(f"{where.policy}: {error}") from error
    return (
        f"{policy.repository}: {', '.join(policy.workflows)} at {policy.ref} by "
        f"{' or '.join(policy.events)}"
    )


def _hook(where: RunnerPaths) -> str:
    ours = Path(hook.__file__).parent
    for name in ("hook.py", "job-started.sh"):
        file = where.library / name
        _require_roots(file, where)
        if not os.access(file, os.X_OK):
            raise DuetbenchError(f"{file}: expected an executable file")
        if file.read_bytes() != (ours / name).read_bytes():
            raise DuetbenchError(f"{file} is not that of this checkout")
    return f"{where.library} has this checkout's; nobody but root can change it"


def _require_roots(file: Path, where: RunnerPaths) -> None:
    """The file and the folders above it must be root's: a job could otherwise change its judge."""
    for entry in (file, *file.parents):
        try:
            status = entry.lstat()
        except OSError as error:
            raise SetupError(f"{entry}: {error.strerror}") from error
        if status.st_uid not in {0, where.owner}:
            raise DuetbenchError(f"{entry}: expected root as its owner, found uid {status.st_uid}")
        sticky = entry.is_dir() and status.st_mode & 0o1000
        if status.st_mode & _OTHERS_WRITE and not sticky:
            raise DuetbenchError(f"{entry}: others than its owner can write to it")


def _asked(where: RunnerPaths) -> str:
    """Inside a job the runner's variable is seen; elsewhere its unit is read."""
    launcher = str(where.library / "job-started.sh")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        found = os.environ.get(VARIABLE)
        if found != launcher:
            raise DuetbenchError(f"{VARIABLE}: expected {launcher}, found {found!r}")
        return f"{VARIABLE} names {launcher}"
    unit = Path("/etc/systemd/system/duetbench-runner.service")
    try:
        text = unit.read_text("utf-8")
    except OSError as error:
        raise SetupError(f"{unit}: {error.strerror}") from error
    if f"Environment={VARIABLE}={launcher}" not in text.splitlines():
        raise DuetbenchError(f"{unit} does not name {launcher} as the hook")
    return f"{unit} names {launcher}"


def _one_runner(_: RunnerPaths) -> str:
    found = [process.pid for process in _listeners()]
    if len(found) > 1:
        raise DuetbenchError(
            f"{len(found)} runners wait for jobs here (pids {found}): two jobs at once would each "
            "measure the other; stop all but one"
        )
    return f"pid {found[0]}" if found else "none is running now"


def _no_root(_: RunnerPaths) -> str:
    if os.geteuid() == 0:
        raise DuetbenchError("jobs would run as root: run the check, and the runner, as its user")
    try:
        done = subprocess.run(
            ["sudo", "-n", "true"], capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except FileNotFoundError:
        return "there is no sudo"
    except (OSError, subprocess.SubprocessError) as error:
        raise DuetbenchError(f"sudo cannot be asked: {error}") from error
    if done.returncode == 0:
        raise DuetbenchError("this user can become root without a password")
    return "this user cannot become root"


def _foreign(where: RunnerPaths) -> str:
    described = read_config(where.policy)
    user = OtherUser(described.user)
    room = Room(user, described.room)
    if user.run(["test", "-w", described.room], check=False).returncode != 0:
        raise SetupError(f"{user.name} cannot write to its room {described.room}")
    room.require_readable(Path(sys.executable), where.root / "pyproject.toml")
    # A runner's credentials are where it is running.
    folders = (process.info["cwd"] for process in _listeners())
    for closed in (Path.home(), *filter(None, folders)):
        if user.run(["test", "-r", closed], check=False).returncode == 0:
            raise DuetbenchError(f"{user.name} can read {closed}: expected it closed (mode 700)")
    return f"{user.name}, with the room {described.room}"


def _listeners() -> list[psutil.Process]:
    """The runners that wait for jobs, with their folders as `cwd` where that can be seen."""
    found = psutil.process_iter(["name", "cwd"])
    return [process for process in found if process.info["name"] == LISTENER]


def _clock(_: RunnerPaths) -> str:
    found = machine.governor(machine.allocate().all)
    if found is None:
        return "this machine shows none"
    if found != "performance":
        raise DuetbenchError(f"the frequency governor is {found}, expected performance")
    return found
