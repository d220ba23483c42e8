"""Building one CPython from its source archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from servebench import paths
from servebench.errors import SetupError
from servebench.progress import Tick
from servebench.settings import InterpreterSpec, SourceBuild
from servebench.toolchain import command

_HEADERS: Final = {
    "openssl/ssl.h": ("ssl", "libssl-dev"),
    "zlib.h": ("zlib", "zlib1g-dev"),
    "ffi.h": ("ctypes", "libffi-dev"),
}
"""Header → the module that needs it, and the package it comes in. The servers need these
modules; others (sqlite3, bz2, lzma) may be missing."""
_REMEDY: Final = "install it (on Debian and its relatives: apt-get install build-essential)"


def binary(spec: InterpreterSpec) -> Path:
    """The interpreter's program, relative to its prefix; its own name, never an alias."""
    minor = ".".join(spec.version.split(".")[:2])
    return Path("bin") / f"python{minor}{'t' if spec.free_threaded else ''}"


def no_compiler() -> list[str]:
    """Say that there is no C compiler, which CPython and the load generator need."""
    return command.missing("cc", "to compile what has to be built", _REMEDY)


def faults() -> list[str]:
    """Say what a build lacks that would fail for it a minute later: tools, headers."""
    found = no_compiler()
    lacking = {
        package: module
        for header, (module, package) in _HEADERS.items()
        if not (found or _compiles("cc", header))
    }
    if lacking:
        found.append(
            f"the C headers for Python's {', '.join(lacking.values())} are missing: install "
            f"{' '.join(lacking)} (Debian's names)"
        )
    return found + command.missing("make", "to build CPython", _REMEDY)


def _compiles(compiler: str, header: str) -> bool:
    done = subprocess.run(
        [compiler, "-fsyntax-only", "-x", "c", "-"],
        input=f"#include <{header}>\n".encode(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def build(
    spec: InterpreterSpec,
    recipe: SourceBuild,
    archive: Path,
    *,
    staging: Path,
    home: Path,
    tick: Tick,
) -> None:
    """Build an interpreter into `staging`, made for being renamed to `home`.

    Raises:
        CommandError: A step failed; names the log.
        SetupError: A module that the servers need was not built.
    """
    log = paths.cache_dir() / "logs" / f"source-{home.name}.log"
    log.unlink(missing_ok=True)
    tree, built, root = staging / "source", staging / "build", staging / "root"
    tick("unpacking")
    with tarfile.open(archive) as packed:
        packed.extractall(tree, filter="data")
    (configure,) = tree.glob("*/configure")
    built.mkdir()
    options = [*recipe.configure, *(["--disable-gil"] if spec.free_threaded else [])]
    steps: list[list[str | Path]] = [
        [configure, "-q", f"--prefix={home}", *options],
        ["make", f"-j{len(os.sched_getaffinity(0))}"],
        ["make", "install", f"DESTDIR={root}"],
    ]
    # An outer make's job server is not for us.
    env = {"CFLAGS": recipe.cflags, "MAKEFLAGS": "", "MFLAGS": ""}
    for argv in steps:
        command.run(
            argv, what=f"building CPython {home.name}", log=log, tick=tick, cwd=built, env=env
        )
    for folder in (tree, built):
        shutil.rmtree(folder)
    # Configured for its home and installed below a root: renamed there, every path in it is true.
    for entry in (root / home.relative_to("/")).iterdir():
        entry.rename(staging / entry.name)
    shutil.rmtree(root)
    _require_modules(staging / binary(spec))


def _require_modules(executable: Path) -> None:
    for module, package in _HEADERS.values():
        done = subprocess.run(
            [executable, "-I", "-c", f"import {module}"], capture_output=True, check=False
        )
        if done.returncode != 0:
            raise SetupError(
                f"the built interpreter has no module {module}: install {package} (Debian's name) "
                "and run `make setup` again"
            )
