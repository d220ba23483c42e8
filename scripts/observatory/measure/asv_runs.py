"""A quick run of the in-process suites: asv itself with few samples.

Benchmarks run in a stack's environment, which contains only the stack. They import `asv_runner`,
pure Python without dependencies, from a folder on the search path that contains nothing else.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Any, Final

from duetbench.app.testbed import INHERITED
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Machine
from duetbench.host import cache, command, git, machine, paths
from duetbench.host.command import Tick, last_words
from duetbench.host.machine import HOLDER
from duetbench.host.process_session import Session
from observatory.matrix.checkout import Checkout
from observatory.matrix.published import read_suites

CONFIGURATION: Final = "asv.conf.json"
_FOLDERS: Final = ("repo", "benchmark_dir", "results_dir", "env_dir", "html_dir")
_POLL_S: Final = 0.25
_FAILED: Final = 2  # exit code of asv when a benchmark failed

_INHERITED_FAMILIES: Final = ("ASV_", "DUETBENCH_")  # beside what servers inherit

GUARD: Final = "guard"
"""A suite that checks interpreter and packages of every stack whose results are recorded."""

FEW_SAMPLES: Final = ("rounds=1", "repeat=(2,5,0.5)")
"""One process per benchmark, with as many samples as fit into half a second: two to five."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One call of asv: a suite, expressions for `name(parameters)`, and environments."""

    suite: str
    benches: tuple[str, ...]
    environments: tuple[str, ...]


def steps(selected: Sequence[str] = (), *, guarded: bool = False) -> tuple[SuiteRun, ...]:
    """What to run: all suites, or the matches of globs like `gil.Cpu*`, `gil.Cpu.time_tasks(*, 4)`.

    `guarded` runs begin with the guard. Raises UsageError if a glob names no suite.
    """
    project = Checkout.here()
    suites = {suite.suite: suite for suite in read_suites(project.root)}
    selected = [f"{glob}.*" if glob in suites else glob for glob in selected or ["*"]]
    guard = SuiteRun(GUARD, (expression("*", GUARD),), environments(project, project.stacks))
    runs = [guard] if guarded else []
    unmatched = set(selected)
    for name, suite in suites.items():
        globs = [glob for glob in selected if fnmatchcase(name, glob.partition(".")[0])]
        if globs:
            benches = tuple(expression(glob, name) for glob in globs)
            runs.append(SuiteRun(name, benches, environments(project, suite.stacks)))
        unmatched -= set(globs)
    if unmatched:
        raise UsageError(
            f"{' and '.join(sorted(unmatched))}: expected globs over benchmark names, which begin "
            f"with {', '.join(f'{name}.' for name in suites)}, for example 'gil.Cpu*'"
        )
    return tuple(runs)


def expression(glob: str, suite: str) -> str:
    """Convert a glob over a suite's benchmarks into asv's expression; without parameters: any."""
    # `translate` ends in an anchor, but parameters may follow a name.
    inner = re.sub(r"\\[Zz]$", "", translate(glob))
    params = "" if "(" in glob else r"(\(.*\))?"
    return rf"^(?={suite}\.){inner}{params}$"


def environments(project: Checkout, on: Iterable[str]) -> tuple[str, ...]:
    """The environments of some stacks, by asv's names."""
    from asv.environment import get_env_name  # noqa: PLC0415 - only runs of asv wait for it

    return tuple(
        str(get_env_name("duetbench", python, {"stack": stack}, {}))
        for stack in on
        for python in project.pythons(stack)
    )


def require_commit(root: Path) -> tuple[str, bool]:
    """The commit that asv would measure, and whether the checkout differs.

    Raises UsageError if there is no commit, or no suite, as in another repository.
    """
    if not (root / CONFIGURATION).is_file():
        raise UsageError(
            f"{root} has no {CONFIGURATION}: the in-process suites are duetbench's own "
            "(benchmarks/), and measure no other repository; run this in a checkout of duetbench. "
            "`observatory measure` and `observatory compare` measure this repository's applications"
        )
    commit, dirty = git.revision(root)
    if commit is None:
        raise UsageError(
            f"{root} is not in a git repository with a commit: asv measures commits; clone "
            "duetbench with git, or commit first"
        )
    return commit, dirty


def configure(project: Checkout, folder: Path, results: Path | None) -> Path:
    """Write a configuration for asv to a folder; SetupError if asv.conf.json is wrong.

    It has absolute folders, the interpreters and stacks that are declared now, and the folder
    `results`, by default the checkout's.
    """
    from asv.util import UserError, load_json  # noqa: PLC0415 - see `environments`

    root, file = project.root, project.root / CONFIGURATION
    try:
        conf: dict[str, Any] = dict(load_json(str(file), js_comments=True))
    except (UserError, OSError, ValueError) as problem:
        raise SetupError(f"{file}: expected asv's configuration, found: {problem}") from problem
    for name in _FOLDERS:
        if name in conf:
            conf[name] = str((root / conf[name]).resolve())
    if results is not None:
        conf["results_dir"] = str(results)
    if not os.access(root, os.W_OK):  # another user's checkout, which we only read
        conf["env_dir"] = str(paths.cache_dir() / "asv")
    pythons, stacks = tuple(project.declared.usual), project.stacks
    conf["pythons"], conf["matrix"] = pythons, {"req": {"stack": list(stacks)}}
    conf["exclude"] = [
        {"python": re.escape(python), "req": {"stack": re.escape(stack)}}
        for stack in stacks
        for python in pythons
        if python not in project.pythons(stack)
    ]
    configuration = folder / CONFIGURATION
    configuration.write_text(json.dumps(conf), "utf-8")
    return configuration


def run(step: SuiteRun, config: Path, root: Path, scratch: Path, log: Path, tick: Tick) -> bool:
    """Let asv measure a step at HEAD, and return whether all benchmarks ran.

    asv and all its processes end with this call. Raises SetupError or LaunchError if asv fails.
    """
    argv = [sys.executable, "-m", "asv", "run", "--config", str(config), "HEAD"]
    for option, values in (
        ("--bench", step.benches),
        ("-E", step.environments),
        ("-a", FEW_SAMPLES),
    ):
        for value in values:
            argv += [option, value]
    argv += ["--record-samples", "--show-stderr"]
    env = {
        **os.environ,
        "DUETBENCH_ROOT": str(root),
        HOLDER: str(os.getpid()),
        "TMPDIR": str(scratch),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    with Session.start(argv, role="client", cores=None, env=env, cwd=root, log=log) as session:
        while session.wait(_POLL_S) is None:
            tick(" ".join(command.read_log(log).split())[-400:])
        code = session.poll()
    if code not in {0, _FAILED}:
        words = last_words(command.read_log(log))
        raise SetupError(f"asv failed on suite {step.suite} ({code}): {words}. Log: {log}")
    return code == 0


def runner_variables(
    inherited: Mapping[str, str], *, executable: Path, python: str, stack: str, checkout: Path
) -> dict[str, str]:
    """Environment of a process that runs benchmarks of `checkout`, with few variables of ours."""
    import asv_runner  # noqa: PLC0415 - only runs of asv wait for it

    inherited = {
        name: value
        for name, value in inherited.items()
        if name in INHERITED or name.startswith(_INHERITED_FAMILIES)
    }
    place = str(cache.isolate(Path(asv_runner.__file__).parent, paths.cache_dir() / "tools"))
    return {
        **inherited,
        "PATH": os.pathsep.join((str(executable.parent), inherited.get("PATH", os.defpath))),
        # asv_runner removes the first variable's folders from the path unless the second has them.
        "PYTHONPATH": place,
        "ASV_PYTHONPATH": place,
        "DUETBENCH_PYTHON": python,
        "DUETBENCH_STACK": stack,
        "DUETBENCH_CHECKOUT": str(checkout),
    }


def profile(host: Machine | None = None) -> dict[str, str]:
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
