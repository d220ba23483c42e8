"""Source builds of what cannot be downloaded: a program beside duetbench makes them.

It is `scripts/build_from_source.py` of a checkout, whose docstring says how it is started.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from duetbench.core.errors import SetupError
from duetbench.host import command, paths
from duetbench.host.command import Tick

BUILDER: Final = "DUETBENCH_BUILDER"
"""Variable with another program that builds interpreters and oha."""

ARCHIVE: Final = "DUETBENCH_CPYTHON_ARCHIVE"
"""Variable with the path or address of a source archive to use instead of the mirror's."""

_CHECK_TIMEOUT_S: Final = 60

Request = dict[str, Any]


def _builder() -> list[str]:
    """Return the words that start the builder; empty if there is none."""
    if program := os.environ.get(BUILDER):
        return [program]
    return [sys.executable, str(paths.SOURCE_BUILDER)] if paths.SOURCE_BUILDER.is_file() else []


def _encode(request: Request) -> str:
    return json.dumps({**request, "cache": str(paths.cache_dir())})


def faults(request: Request) -> list[str]:
    """List what is missing here to build a program: a builder, or the tools that it needs."""
    what, builder = f"{request['program']} {request['version']}", _builder()
    remedy = f"set {BUILDER} to a program that builds it, as scripts/build_from_source.py does"
    if not builder:
        return [f"{what} cannot be downloaded: connect to the network, or {remedy}"]
    try:
        answer = subprocess.run(
            [*builder, "check", _encode(request)],
            capture_output=True,
            text=True,
            check=True,
            timeout=_CHECK_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return [f"{builder[-1]} cannot build {what} ({error}): {remedy}"]
    return answer.stdout.splitlines()


def build(request: Request, folder: Path, *, log: Path, tick: Tick) -> None:
    """Build a program into a folder; raises SetupError with what is missing."""
    what = f"building {request['program']} {request['version']}"
    if not (builder := _builder()):
        raise SetupError(*faults(request))
    argv: list[str | Path] = [*builder, "build", _encode(request), folder]
    command.run(argv, what=what, log=log, tick=tick)
