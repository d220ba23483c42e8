"""How benchmarks are run in a stack's environment, which holds the stack and nothing else.

`asv_runner`, which finds and runs benchmarks, is pure Python without dependencies. It reaches the
measured interpreter by a folder on the search path that holds nothing but it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import asv_runner

from servebench.host import cache, paths

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
_INHERITED_FAMILIES: Final = ("ASV_", "SERVEBENCH_")
"""What benchmarks get of our environment, as servers do. Anything else (PYTHON_GIL, a proxy,
PYTHONDONTWRITEBYTECODE) could change what is measured without anybody seeing it in the record."""


def folder() -> Path:
    """Make (once) the folder that holds a link to the locked `asv_runner`, and nothing else."""
    source = Path(asv_runner.__file__).parent
    name = f"asv_runner-{asv_runner.__version__}-{cache.digest(str(source))}"
    target = paths.cache_dir() / "tools" / name
    target.mkdir(parents=True, exist_ok=True)
    link = target / source.name
    if not link.is_symlink():
        # Somebody else may be faster, with the same link.
        with contextlib.suppress(FileExistsError):
            link.symlink_to(source, target_is_directory=True)
    return target


def variables(
    inherited: Mapping[str, str], *, executable: Path, python: str, stack: str, checkout: Path
) -> dict[str, str]:
    """Environment of a process that runs benchmarks of `checkout`; only little of ours passes."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name in _INHERITED or name.startswith(_INHERITED_FAMILIES)
    }
    runner = str(folder())
    return {
        **kept,
        "PATH": os.pathsep.join((str(executable.parent), kept.get("PATH", os.defpath))),
        # asv_runner takes the first variable's folders off the path unless the second names them.
        "PYTHONPATH": runner,
        "ASV_PYTHONPATH": runner,
        "SERVEBENCH_PYTHON": python,
        "SERVEBENCH_STACK": stack,
        "SERVEBENCH_CHECKOUT": str(checkout),
    }
