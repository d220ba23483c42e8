"""The library that gives the counted program the same random numbers every time.

Python's own hashes get their seed from PYTHONHASHSEED; compiled packages ask the kernel. With
another seed the keys of a hash table collide elsewhere: 0.1 % of Pydantic's JSON parser.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from servebench.icount.phases import LIBRARY

_SOURCE: Final = Path(__file__).with_name("fixed_random.c")
_COMPILE_S: Final = 60.0  # 0.1 s measured


def build(folder: Path) -> Path | None:
    """Compile the library for LD_PRELOAD into a folder; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / LIBRARY
    # Some libcs have dlsym in a library of its own.
    argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    try:
        subprocess.run(argv, capture_output=True, check=True, timeout=_COMPILE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return library
