"""Second installations of a rig: the same files with inodes, places and paths of their own.

What no restart redraws (where files lie in memory, how long their paths are, what the environment
holds) is the same in all launches of one installation. Two of them show what it costs.
"""

import random
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from duetbench.host import cache, command
from duetbench.measure.testbed import Rig
from duetbench.store.trial import Installation

PATHS: Final = (0, 160)
"""Characters by which the paths of an installation are longer, in turns."""

PADDING: Final = 4000
"""Bytes that the environment of a server holds more, at most."""

_VARIABLE: Final = "DUETBENCH_PADDING"
_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "*.a")


def drawn(number: int) -> Installation:
    """The installation of a number: every kind gets its turn, the size of the padding is drawn."""
    padding = random.Random(number).randint(0, PADDING)  # noqa: S311 - it can be repeated
    return Installation(path=PATHS[number % 2], padding=padding, interpreter=number % 4 < 2)


def install(rig: Rig, pairs: Collection[tuple[str, str]], made: Installation, folder: Path) -> Rig:
    """Copy what a rig starts servers from into an empty folder: about 350 MB for one interpreter.

    Applications, benchmarks, the environments of `pairs` (stack, interpreter) and the interpreters
    that set-up has made are real copies, compiled where they are now.

    Raises:
        SetupError: A copy does not run, or not from where it is.
    """
    root = folder / ("x" * made.path) / "copy"
    if rig.target:
        shutil.copytree(rig.apps.parent, root, symlinks=True, ignore=_NOT_COPIED)
    else:
        shutil.copytree(rig.apps, root / "apps", ignore=_NOT_COPIED)
        if (benchmarks := rig.apps.parent / "benchmarks").is_dir():
            shutil.copytree(benchmarks, root / "benchmarks", ignore=_NOT_COPIED)
    interpreters = dict(rig.interpreters)
    for name in sorted({name for _, name in pairs}):
        original = interpreters[name].executable.resolve()
        if made.interpreter and any((above / cache.STAMP).is_file() for above in original.parents):
            prefix = root / "interpreters" / name
            shutil.copytree(original.parent.parent, prefix, symlinks=True, ignore=_NOT_COPIED)
            interpreters[name] = replace(
                interpreters[name], executable=prefix / "bin" / original.name
            )
    pythons = dict(rig.pythons)
    for stack, name in sorted(pairs):
        place = root / "environments" / f"{stack}-{name}"
        pythons[stack, name] = environment(
            pythons[stack, name].parent.parent, place, interpreters[name].executable
        )
    inherited = {**rig.inherited, _VARIABLE: "x" * made.padding} if made.padding else rig.inherited
    return replace(
        rig, apps=root / "apps", pythons=pythons, interpreters=interpreters, inherited=inherited
    )


def environment(original: Path, target: Path, executable: Path) -> Path:
    """Copy an environment for an interpreter, and compile both; its Python.

    Raises:
        SetupError: It does not run.
    """
    shutil.copytree(original, target, symlinks=True, ignore=_NOT_COPIED)
    python, settings = target / "bin" / "python", target / "pyvenv.cfg"
    python.unlink()
    python.symlink_to(executable)
    lines = settings.read_text("utf-8").splitlines()
    home = f"home = {executable.parent}"
    lines = [home if line.startswith("home = ") else line for line in lines]
    settings.write_text("\n".join(lines) + "\n", "utf-8")
    prefix, log = executable.parent.parent, target / "compiled.log"
    proof = "import sys; sys.exit(sys.base_prefix != sys.argv[1])"
    _run([python, "-I", "-c", proof, prefix], f"{python}: its interpreter", log)
    # What of a library is no Python of this version stays as it is.
    compiled = "import compileall, sys\nfor lib in sys.argv[1:]: "
    compiled += "compileall.compile_dir(lib, quiet=2, workers=0)"
    libraries = [target / "lib", *([prefix / "lib"] if target.parents[1] in prefix.parents else [])]
    _run([python, "-I", "-c", compiled, *libraries], f"compiling {target}", log)
    return python


def _run(argv: Sequence[str | Path], what: str, log: Path) -> None:
    command.run(argv, what=what, log=log, tick=lambda _: None)
