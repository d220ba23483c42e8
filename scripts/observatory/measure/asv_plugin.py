"""asv's environments: each commit is measured with the packages of its own lock.

asv checks the measured commits out below its `env_dir`, one checkout per combination of interpreter
and stack. The benchmarks run in an environment from the commit's `apps/stacks/<stack>.txt`, made by
set-up in duetbench's cache, with the locked packages only. asv loads this module because
`asv.conf.json` names it as a plugin.
"""

import atexit
import contextlib
import functools
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import asv_runner
from asv import util
from asv.console import log
from asv.environment import Environment, EnvironmentUnavailable
from asv.machine import Machine, MachineCollection
from rich.console import Console

from duetbench.app import stacks
from duetbench.app.in_process import isolate
from duetbench.app.stacks import Stack
from duetbench.app.testbed import INHERITED
from duetbench.core.errors import DuetbenchError
from duetbench.core.model import Machine as Host
from duetbench.host import machine, paths
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from observatory.matrix.checkout import Checkout

_NOT_MEASURING: Final = ("discover", "check")  # commands of asv's `benchmark.py`
_INHERITED_FAMILIES: Final = ("ASV_", "DUETBENCH_")  # beside what servers inherit


def setup() -> None:
    """Name results after this machine's id; asv calls this on load, and knows only the host's."""
    try:
        _ = Checkout.here().configuration  # report mistakes before anything is measured
        fields = profile()
    except DuetbenchError as error:
        raise util.UserError(str(error)) from error
    MachineCollection.save(fields["machine"], fields)  # to asv's list, as it is now
    Machine.hardcoded_machine_name = fields["machine"]


class StackEnvironment(Environment):  # type: ignore[misc]  # asv has no types
    """One interpreter with one stack: the packages of each commit's lock."""

    tool_name: ClassVar[str] = "duetbench"

    def __init__(
        self,
        conf: Any,
        python: str,
        requirements: dict[str, str],
        tagged_env_vars: dict[tuple[str, str], str],
    ) -> None:
        self._checkout = Checkout.here()  # asv's own constructor names a project
        declared = self._checkout.declared.interpreters
        if python not in declared or "stack" not in requirements:
            raise EnvironmentUnavailable(
                f"no environment for Python {python} and stack {requirements.get('stack')}"
            )
        self._stack_name = requirements["stack"]
        # asv's own constructor uses the name, which needs these, before it sets them.
        self._python = python
        self._requirements = requirements
        self._tagged_env_vars = tagged_env_vars
        super().__init__(conf, python, requirements, tagged_env_vars)

    def check_presence(self) -> bool:
        """Whether asv has used this folder, which has the checkout but not the packages."""
        return (Path(self._path) / "asv-env-info.json").is_file()

    def _setup(self) -> None:
        Path(self._path).mkdir(parents=True, exist_ok=True)

    def _uninstall_project(self) -> None:
        """Do nothing: applications are imported from the checkout."""

    def _build_project(self, repo: Any, commit_hash: str, build_dir: str) -> None:
        """Do nothing."""

    def _install_project(self, _repo: Any, commit_hash: str, _build_dir: str) -> None:
        try:
            stack, python = self._locked(), self._checkout.interpreter(self._python)
            stacks.make_environment(stack, python, Narrator(Console(quiet=True)))
        except (DuetbenchError, OSError) as error:
            reason = str(error).replace(f"{self._build_root}{os.sep}", "")
            sentence = f"{self.name} cannot be made for commit {commit_hash[:8]}: {reason}"
            # asv only reports that it skips the environment, and goes on with others.
            log.error(sentence)
            raise util.ProcessError([self.name], 1, "", sentence) from error

    def _get_installed_commit_hash(self) -> None:
        """Report nothing as installed, so each run checks out the commit and its packages."""
        return

    def run(self, args: Sequence[str], **kwargs: Any) -> Any:
        try:
            executable = stacks.executable(self._locked(), self._checkout.interpreter(self._python))
        except DuetbenchError as error:
            raise util.UserError(f"{self.name}: {error}") from error
        env = {
            **runner_variables(
                kwargs.pop("env", os.environ),
                executable=executable,
                python=self._python,
                stack=self._stack_name,
                checkout=Path(self._build_root),
            ),
            **self.env_vars,
            **self._global_env_vars,
        }
        if args[1] not in _NOT_MEASURING:
            _lock_machine()
        log.debug(f"Running '{' '.join(args)}' in {self.name}")
        return util.check_output([str(executable), *args], env=env, **kwargs)

    def _locked(self) -> Stack:
        lock = Path(self._build_root) / "apps" / "stacks" / f"{self._stack_name}.txt"
        return self._checkout.read_lock(self._stack_name, lock)


@functools.cache
def _lock_machine() -> None:
    """Lock the machine until asv ends; asv stops if another measurement is running."""
    lock = contextlib.ExitStack()
    try:
        lock.enter_context(measuring())
    except (DuetbenchError, OSError) as error:
        raise util.UserError(str(error)) from error
    atexit.register(lock.close)


def runner_variables(
    inherited: Mapping[str, str], *, executable: Path, python: str, stack: str, checkout: Path
) -> dict[str, str]:
    """Environment of a process that runs benchmarks of `checkout`, with few variables of ours.

    Its environment has only a stack's packages. It imports `asv_runner`, pure Python without
    dependencies, from a folder on the search path that contains nothing else.
    """
    place = str(isolate(Path(asv_runner.__file__).parent, paths.cache_dir() / "tools"))
    return {
        **{
            name: value
            for name, value in inherited.items()
            if name in INHERITED or name.startswith(_INHERITED_FAMILIES)
        },
        "PATH": os.pathsep.join((str(executable.parent), inherited.get("PATH", os.defpath))),
        # asv_runner removes the first variable's folders from the path unless the second has them.
        "PYTHONPATH": place,
        "ASV_PYTHONPATH": place,
        "DUETBENCH_PYTHON": python,
        "DUETBENCH_STACK": stack,
        "DUETBENCH_CHECKOUT": str(checkout),
    }


def profile(host: Host | None = None) -> dict[str, str]:
    """Describe a machine (this one if None) in asv's fields, which no update changes.

    asv uses every field as a key of its graphs, so a changed field would split every line. By
    default it takes the host's name and the kernel's version. Here the name is that of run files,
    and all other fields are parts of it.
    """
    host = host or machine.fingerprint()
    return {
        "machine": host.id,
        "os": platform.system(),
        "arch": platform.machine(),
        "cpu": host.cpu,
        "num_cpu": str(host.cores),
        # Rounded as in the machine's id, as the kernel reserves varying amounts.
        "ram": f"{round(host.memory / 2**30)} GiB",
    }
