"""`observatory inprocess`: a quick run of the in-process suites, which asv measures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from asv.util import load_json
from cyclopts import Parameter

from duetbench.cli.options import Words
from duetbench.core.errors import UsageError
from duetbench.host import git, paths

CONFIGURATION: Final = "asv.conf.json"
_FOLDERS: Final = ("repo", "benchmark_dir", "env_dir", "html_dir")
_FAILED: Final = 2  # exit code of asv when a benchmark failed

FEW_SAMPLES: Final = ("rounds=1", "repeat=(2,5,0.5)")
"""One process per benchmark, with as many samples as fit into half a second: two to five."""


def inprocess_command(
    *,
    bench: Annotated[Words, Parameter(metavar="REGEX")] = (),
    to: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
) -> int:
    """Measure inside one process, with few samples: threads, handlers, Pydantic.

    $ observatory inprocess --bench ^gil
    $ observatory inprocess --to results

    asv measures the last commit's applications and locks by the suites of the working tree, and
    prints the figures. Exit code 0: everything applicable was measured. 1: a benchmark failed,
    which with --to counts as a result. 3: asv could not measure.

    Args:
        bench: Only benchmarks that match, as in asv: '^gil', 'gil.Cpu'; repeatable.
        to: Keep the results among asv's, in its asv/.
    """
    root = paths.project_root()
    if git.revision(root)[0] is None or not (root / CONFIGURATION).is_file():
        raise UsageError(f"{root}: expected {CONFIGURATION} and a commit, which asv measures")
    with paths.scratch() as folder:
        config = _configure(root, folder, ((to or folder) / "asv").resolve())
        argv = [sys.executable, "-m", "asv", "run", "--config", str(config), "HEAD"]
        for option, values in (("--bench", bench), ("-a", FEW_SAMPLES)):
            argv += [word for value in values for word in (option, value)]
        argv += ["--record-samples", "--show-stderr"]
        env = {**os.environ, "DUETBENCH_ROOT": str(root)}
        code = subprocess.run(argv, cwd=root, env=env, check=False).returncode
    if code == _FAILED:
        return 0 if to else 1
    return 3 if code else 0


def _configure(root: Path, folder: Path, results: Path) -> Path:
    """Write a checkout's configuration for asv to a folder, with absolute folders."""
    conf: dict[str, Any] = dict(load_json(str(root / CONFIGURATION), js_comments=True))
    conf |= {name: str((root / conf[name]).resolve()) for name in _FOLDERS if name in conf}
    conf["results_dir"] = str(results)
    if not os.access(root, os.W_OK):  # another user's checkout, which we only read
        conf["env_dir"] = str(paths.cache_dir() / "asv")
    configuration = folder / CONFIGURATION
    configuration.write_text(json.dumps(conf), "utf-8")
    return configuration
