"""`observatory inprocess`: a quick run of the in-process suites, which asv measures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from asv.util import load_json
from typer import Exit, Option

from duetbench.core.errors import UsageError
from duetbench.host import git, paths

CONFIGURATION: Final = "asv.conf.json"
_FOLDERS: Final = ("repo", "benchmark_dir", "env_dir", "html_dir")
_FAILED: Final = 2  # exit code of asv when a benchmark failed

FEW_SAMPLES: Final = ("rounds=1", "repeat=(2,5,0.5)")
"""One process per benchmark, with as many samples as fit into half a second: two to five."""


def inprocess_command(
    bench: Annotated[
        list[str] | None,
        Option(
            "--bench",
            metavar="REGEX",
            help="Only benchmarks that match, as in asv: '^gil', 'gil.Cpu'; repeatable.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        Option("--to", metavar="FOLDER", help="Keep the results among asv's, in its asv/."),
    ] = None,
) -> None:
    """Measure inside one process, with few samples: threads, handlers, Pydantic.

    $ observatory inprocess --bench ^gil
    $ observatory inprocess --to results

    asv measures the last commit's applications and locks by the suites of the working tree, and
    prints the figures. Exit code 0: everything applicable was measured. 1: a benchmark failed,
    which with --to counts as a result. 3: asv could not measure.
    """
    root = paths.project_root()
    if git.revision(root)[0] is None or not (root / CONFIGURATION).is_file():
        raise UsageError(f"{root}: expected {CONFIGURATION} and a commit, which asv measures")
    with paths.scratch() as folder:
        config = _configure(root, folder, ((to or folder) / "asv").resolve())
        argv = [sys.executable, "-m", "asv", "run", "--config", str(config), "HEAD"]
        for option, values in (("--bench", bench or ()), ("-a", FEW_SAMPLES)):
            argv += [word for value in values for word in (option, value)]
        argv += ["--record-samples", "--show-stderr"]
        env = {**os.environ, "DUETBENCH_ROOT": str(root)}
        code = subprocess.run(argv, cwd=root, env=env, check=False).returncode
    if code and not (code == _FAILED and to):
        raise Exit(1 if code == _FAILED else 3)


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
