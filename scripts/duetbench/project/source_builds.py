"""Source builds of what cannot be downloaded: a program beside duetbench makes them.

It is `scripts/build_from_source.py` of a checkout, whose docstring says how it is started.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from duetbench.host import command, paths
from duetbench.host.command import Tick

ARCHIVE: Final = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive to use instead of the mirror's."""

_CHECK_TIMEOUT_S: Final = 60

Request = dict[str, Any]


def _argv(verb: str, request: Request) -> list[str | Path]:
    words = json.dumps({**request, "cache": str(paths.cache_dir())})
    return [sys.executable, paths.SOURCE_BUILDER, verb, words]


def faults(request: Request) -> list[str]:
    """List what is missing here to build a program: the builder, or the tools that it needs."""
    if not paths.SOURCE_BUILDER.is_file():
        what = f"{request['program']} {request['version']}"
        return [f"{what} cannot be downloaded: connect to the network, or put it on PATH"]
    argv, timeout = _argv("check", request), _CHECK_TIMEOUT_S
    answer = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=timeout)
    return answer.stdout.splitlines()


def build(request: Request, folder: Path, *, log: Path, tick: Tick) -> None:
    """Build a program into a folder; raises SetupError if it fails."""
    what = f"building {request['program']} {request['version']}"
    command.run([*_argv("build", request), folder], what=what, log=log, tick=tick)
