"""Counts both sides of a case, plainly and by function, and says where they differ.

The case is one that is given, or the one that moved most in a change or a comparison.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from duetbench.app import case_names, in_process
from duetbench.app.testbed import BothSides, SideCase
from duetbench.core.comparison import (
    APPLICATION,
    PYTHON,
    Attribution,
    Comparison,
    Instructions,
    row,
)
from duetbench.core.errors import CountError
from duetbench.counts import counted, profiling, ranking
from duetbench.counts.profiling import DRIVER, Name, Profile
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import affected
from duetbench.judge.findings import clearest
from duetbench.judge.pairs import Sides
from duetbench.judge.repetition import can_rank

RUNS: Final = 5
"""Profiles of each side, each in an environment of another length: memory lies elsewhere."""

THRESHOLD: Final = 0.003
"""Share of the total from which on a function is named.

Functions of equal sides differed by up to 0.27 %, and not in the same direction in all runs.
"""

_FROZEN: Final = "<frozen "


def attribute(
    base: SideCase,
    head: SideCase,
    counts: Instructions | str | None,
    narrator: Narrator,
    *,
    runs: int = RUNS,
) -> Attribution:
    """Say which functions the instructions of a case differ in; up to a minute on two cores.

    `counts` are the instructions of both sides, or why there are none.

    Raises:
        CountError: They cannot be counted, or not by function.
    """
    sides, case = (base, head), head.case
    pythons = [side.interpreter for side in sides]
    for python in pythons:
        if not can_rank(python):
            raise CountError(
                f"to count by function, CPython 3.12 or newer is needed, found {python.version}: "
                "repeat it with --with python=3.14"
            )
    if not isinstance(counts, Instructions):
        raise CountError(counts or "its instructions were not counted")
    began = time.monotonic()
    with narrator.step("profiling", "function by function, up to a minute") as show:
        profiles = _profiles(sides, runs, show)
    before, after = map(_named, sides, profiles)
    medians, *each = zip(before, after, strict=True)
    return Attribution(
        case=case.id,
        asked=None if case_names.name(case.id).known else case_names.of(case).what,
        python=" → ".join(dict.fromkeys(f"{python.version}{python.suffix}" for python in pythons)),
        packages=tuple(
            move
            for move in affected.package_changes(base.testbed, head.testbed)
            if move.stack == case.stack
        ),
        instructions=counts,
        counted=medians[0].total,
        threshold=THRESHOLD,
        seconds=time.monotonic() - began,
        rows=tuple(ranking.rank(*medians, THRESHOLD, each)),
    )


def _profiles(
    sides: BothSides, runs: int, show: Callable[[str], object]
) -> Sequence[Sequence[Profile]]:
    """Count instructions by function on both sides at once; `show` is told the progress."""
    turns = []
    for run in range(runs):
        show(f"{run} of {runs} runs of each side")
        with ExitStack() as stack:
            started = [stack.enter_context(in_process.program(side)) for side in sides]
            # The padding is no multiple of what memory is aligned to.
            collect = [
                stack.enter_context(profiling.profile(client, 23 * run)) for client in started
            ]
            turns.append([finish() for finish in collect])
    return list(zip(*turns, strict=True))


def _named(side: SideCase, profiles: Sequence[Profile]) -> list[Profile]:
    """Name the functions of the median of a side's profiles, and of each, as on all machines."""
    packages, standard = profiles[0].packages, profiles[0].standard
    owners = {
        str(file): canonicalize_name(dist.name)
        for dist in distributions(path=[str(packages)])
        for file in dist.files or ()
    }
    folders = {
        standard: PYTHON,
        side.testbed.subject.folder(side.case).resolve(): APPLICATION,
        Path(counted.__file__).resolve().parents[2]: DRIVER,
    }
    name = cache(lambda name: name_of(name, packages, owners, folders))
    return [profile.rename(name) for profile in (profiling.median(profiles), *profiles)]


def name_of(
    code: Name, packages: Path, owners: Mapping[str, str], folders: Mapping[Path, str]
) -> Name:
    """Name a function, or an extension module, as for all machines and interpreters.

    `owners` has the distribution of each file in `packages`; what lies in other `folders` belongs
    to what they stand for. Other files are the application's.
    """
    if code.package:
        return code
    path = Path(code.file)
    if code.file.startswith(_FROZEN):
        module = code.file.removeprefix(_FROZEN).removesuffix(">")
        return Name(code.name, f"{module.replace('.', '/')}.py", PYTHON)
    if path.is_relative_to(packages):
        file = path.relative_to(packages).as_posix()
        package = owners.get(file, file.partition("/")[0].removesuffix(".py"))
        if path.suffix == ".so":
            file = f"{file[: -len(path.name)]}{path.name.partition('.')[0]}.so"
        return Name(code.name, file, package)
    for folder, package in folders.items():
        if path.is_relative_to(folder):
            return Name(code.name, path.relative_to(folder).as_posix(), package)
    file = path.name if path.is_absolute() else code.file
    return Name(code.name, file, PYTHON if code.file.startswith("<") else APPLICATION)


def explain(comparison: Comparison, sides: Sides, narrator: Narrator) -> Attribution | None:
    """Say which code it is, in the case that moved most surely; None: instructions explain none."""
    served = {pair.case.id: pair for pair in sides.pairs}
    moved = clearest(comparison, lambda f: f.case in served and row(f.subject).executes)
    if moved is None:
        return None
    try:
        with measuring():
            pair = served[moved.case]
            return attribute(*pair.sides, pair.counts, narrator)
    except CountError as problem:
        narrator.say(f"which code it is was not found out: {problem}")
        return None
