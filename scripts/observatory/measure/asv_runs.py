"""A quick run of the in-process suites: asv itself with few samples.

Benchmarks run in a stack's environment, which contains only the stack. They import `asv_runner`,
pure Python without dependencies, from a folder on the search path that contains nothing else.
"""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from duetbench.app.testbed import INHERITED
from duetbench.core.errors import SetupError
from duetbench.core.model import Machine
from duetbench.host import cache, command, machine, paths
from duetbench.host.command import Tick, last_words
from duetbench.host.machine import LOCK
from duetbench.host.process_session import Session

CONFIGURATION: Final = "asv.conf.json"
_FOLDERS: Final = ("repo", "benchmark_dir", "results_dir", "env_dir", "html_dir")
_POLL_S: Final = 0.25
_FAILED: Final = 2  # exit code of asv when a benchmark failed

_INHERITED_FAMILIES: Final = ("ASV_", "DUETBENCH_")  # beside what servers inherit

FEW_SAMPLES: Final = ("rounds=1", "repeat=(2,5,0.5)")
"""One process per benchmark, with as many samples as fit into half a second: two to five."""


def configure(root: Path, folder: Path, results: Path) -> Path:
    """Write a checkout's configuration for asv to a folder, with absolute folders.

    asv keeps its results in `results`.
    """
    from asv.util import load_json  # noqa: PLC0415 - only runs of asv wait for it

    conf: dict[str, Any] = dict(load_json(str(root / CONFIGURATION), js_comments=True))
    conf |= {name: str((root / conf[name]).resolve()) for name in _FOLDERS if name in conf}
    conf["results_dir"] = str(results)
    if not os.access(root, os.W_OK):  # another user's checkout, which we only read
        conf["env_dir"] = str(paths.cache_dir() / "asv")
    configuration = folder / CONFIGURATION
    configuration.write_text(json.dumps(conf), "utf-8")
    return configuration


def run(benches: Sequence[str], config: Path, root: Path, tick: Tick) -> Path:
    """Let asv measure benchmarks at HEAD, and return its log; one that fails has no figure.

    `benches`: asv's expressions for `name(parameters)`; none: all. asv and all its processes end
    with this call. Raises SetupError or LaunchError if asv fails.
    """
    argv = [sys.executable, "-m", "asv", "run", "--config", str(config), "HEAD"]
    for option, values in (("--bench", benches), ("-a", FEW_SAMPLES)):
        argv += [word for value in values for word in (option, value)]
    argv += ["--record-samples", "--show-stderr"]
    env = {
        **os.environ,
        "DUETBENCH_ROOT": str(root),
        LOCK: f"duetbench-for-{os.getpid()}",
        "TMPDIR": str(config.parent),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    log = paths.state_dir() / "logs" / "inprocess.log"
    paths.make_logs(log.parent)
    with Session.start(argv, role="client", cores=None, env=env, cwd=root, log=log) as session:
        while (code := session.wait(_POLL_S)) is None:
            tick(command.last_line(log))
    if code not in {0, _FAILED}:
        raise SetupError(f"asv failed ({code}): {last_words(command.read_log(log))}. Log: {log}")
    return log


def runner_variables(
    inherited: Mapping[str, str], *, executable: Path, python: str, stack: str, checkout: Path
) -> dict[str, str]:
    """Environment of a process that runs benchmarks of `checkout`, with few variables of ours."""
    import asv_runner  # noqa: PLC0415 - only runs of asv wait for it

    place = str(cache.isolate(Path(asv_runner.__file__).parent, paths.cache_dir() / "tools"))
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
