"""Counts both sides of a case, plainly and by function, and says where they differ.

The case is one that is given, or the one that moved most in a change or a comparison.
"""

import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from duetbench.core import __version__
from duetbench.core.errors import CountError, UsageError
from duetbench.core.metrics import METRICS
from duetbench.core.text import short
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.judge import change_locks, counted, matching, preparation
from duetbench.judge.change_locks import Between
from duetbench.judge.counted import BothSides
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope
from duetbench.judge.why import ranking
from duetbench.judge.why.ranking import DRIVER, Calls, Fact, Name
from duetbench.measure.instructions import counting, profiling
from duetbench.measure.instructions.profiling import Code, Observed, Place, Profile
from duetbench.measure.testbed import SideCase
from duetbench.project import case_names
from duetbench.project.setting import Contrast
from duetbench.project.subject import Subject
from duetbench.store.attribution import (
    APPLICATION,
    PYTHON,
    Attribution,
    Totals,
)
from duetbench.store.change import StackState
from duetbench.store.comparison import Comparison

RUNS: Final = 5
"""Profiles of each side, each with a path of another length: memory lies elsewhere."""

THRESHOLD: Final = 0.003
"""Share of the total from which on a function is named.

Functions of equal sides differed by up to 0.27 %, and not in the same direction in all runs.
"""

COUNTS_SECONDS: Final = 180.0
"""Limit for the plain counts of both sides."""

CANNOT_SEE: Final = (
    "It counts instructions of one request at a time, without a server: it sees no "
    "contention, no waiting, nothing that the kernel does, no misses of caches, and nothing of "
    "the server's own threads."
)
"""Note of every attribution."""

_FROZEN: Final = "<frozen "

_Facts = Mapping[Place, Observed]


@dataclass(frozen=True, slots=True)
class _Functions:
    """What both sides' functions have, run by run."""

    base: tuple[Profile, ...]
    head: tuple[Profile, ...]
    facts: tuple[_Facts, _Facts]
    unknown: str = ""  # why there are no facts


def attribute(
    base: SideCase, head: SideCase, narrator: Narrator | None = None, *, runs: int | None = None
) -> Attribution:
    """Say which functions the instructions of a case differ in; up to a minute on two cores.

    Raises:
        CountError: They cannot be counted, or not by function.
    """
    began, when = time.monotonic(), datetime.now(UTC)
    with _step(narrator, "counting", "the instructions of a request on both sides"):
        plain = counted.instructions((base, head), COUNTS_SECONDS)
    if isinstance(plain, str):
        raise CountError(plain)
    if narrator:
        narrator.say(f"{plain.base:,.0f} → {plain.head:,.0f} instructions")
    with _step(narrator, "profiling", "function by function, up to a minute") as show:
        both = _counted(base, head, runs or RUNS, show)
    before, after = both.base, both.head
    calls = _calls(base, before, both.facts[0]), _calls(head, after, both.facts[1])
    ranked = ranking.rank(
        calls[0](profiling.median(before)),
        calls[1](profiling.median(after)),
        THRESHOLD,
        [(calls[0](one), calls[1](other)) for one, other in zip(before, after, strict=True)],
    )
    case = head.case
    pythons = [side.testbed.interpreters[side.case.python] for side in (base, head)]
    versions = dict.fromkeys(f"{python.version}{python.suffix}" for python in pythons)
    digest = hashlib.sha256(f"{base.case.id} {case.id}".encode()).hexdigest()[:8]
    return Attribution(
        id=f"{when:%Y%m%dT%H%M%SZ}-why-{digest}",
        when=when,
        duetbench=__version__,
        case=case.id,
        asked=None if case_names.name(case.id).known else case_names.of(case).what,
        python=" → ".join(versions),
        base=StackState(stack=base.case.stack, digest=base.testbed.stacks[base.case.stack].digest),
        head=StackState(stack=case.stack, digest=head.testbed.stacks[case.stack].digest),
        packages=tuple(
            move
            for move in matching.package_changes(base.testbed, head.testbed)
            if move.stack == case.stack
        ),
        totals=Totals(base=plain.base, head=plain.head, spread=plain.spread),
        counted=Totals(
            base=ranked.base, head=ranked.head, spread=max(_spread(before), _spread(after))
        ),
        runs=len(before),
        threshold=THRESHOLD,
        seconds=time.monotonic() - began,
        rows=ranked.rows,
        own=ranked.own,
        tree=ranked.tree,
        notes=(
            *([f"Entries were not counted: {both.unknown}"] if both.unknown else []),
            CANNOT_SEE,
        ),
    )


def _step(
    narrator: Narrator | None, what: str, why: str
) -> AbstractContextManager[Callable[[str], object]]:
    return narrator.step(what, why) if narrator else nullcontext(len)


def _counted(
    base: SideCase, head: SideCase, runs: int, show: Callable[[str], object]
) -> _Functions:
    """Count instructions by function, and entries; `show` is told the progress."""
    with ThreadPoolExecutor(2) as pool:  # each waits for a process of its own
        turns = [
            (pool.submit(_profile, base, run), pool.submit(_profile, head, run))
            for run in range(runs)
        ]
        entries = pool.submit(_entries, base), pool.submit(_entries, head)
        try:
            results = []
            for done, (one, other) in enumerate(turns):
                show(f"{done} of {runs} runs of each side")
                results.append((one.result(), other.result()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # else all others are waited for
            counting.Process.end_all()
            raise
        before, after = zip(*results, strict=True)
        try:
            facts = entries[0].result(), entries[1].result()
        except CountError as error:  # beside none of the other side, entries would seem to change
            return _Functions(before, after, ({}, {}), unknown=short(str(error)))
        return _Functions(before, after, facts)


def _profile(side: SideCase, run: int) -> Profile:
    with counted.program(side) as program:
        start = program.python, program.payload, side.case.endpoint.name
        # The padding is no multiple of what memory is aligned to.
        profile = profiling.profile(*start, env=program.env, padding=23 * run)
    home = _home(side, program)
    chains = {
        tuple(Code(name, home(file)) for name, file in chain): own
        for chain, own in profile.chains.items()
    }
    return replace(profile, chains=chains)


def _entries(side: SideCase) -> _Facts:
    """Count how often each function is entered; CountError if that cannot be counted."""
    with counted.program(side) as program:
        start = program.python, program.payload, [side.case.endpoint.name]
        (observed,) = profiling.count_entries(*start, env=program.env).values()
        if isinstance(observed, str):
            raise CountError(observed)
    home = _home(side, program)
    return {(name, home(file), line): one for (name, file, line), one in observed.items()}


def _home(side: SideCase, program: counted.Program) -> Callable[[str], str]:
    """Map a file of the program's copy of the application to the application's own."""
    copy, own = (
        f"{program.folder}{os.sep}",
        f"{side.testbed.subject.folder(side.case).resolve()}{os.sep}",
    )
    return lambda file: own + file.removeprefix(copy) if file.startswith(copy) else file


def _owners(packages: Path) -> Mapping[str, str]:
    """The distribution of each file in a folder of packages."""
    return {
        str(file): canonicalize_name(dist.name)
        for dist in distributions(path=[str(packages)])
        for file in dist.files or ()
    }


def _calls(
    side: SideCase, profiles: tuple[Profile, ...], entries: _Facts
) -> Callable[[Profile], Calls]:
    """Name the functions of a side's profiles, all of which lie in the same folders."""
    packages, standard = profiles[0].packages, profiles[0].standard
    owners = _owners(packages)
    application = side.testbed.subject.folder(side.case).resolve()
    driver = (Path(counted.__file__).resolve().parents[1],)
    name = cache(lambda code: name_of(code, packages, standard, application, driver, owners))
    places: defaultdict[Name, list[Fact]] = defaultdict(list)
    for (qualified, file, line), one in entries.items():
        places[name(Code(qualified, file))].append(Fact(line, one.entries, one.code))
    facts = {function: _sum(several) for function, several in places.items()}

    def calls(profile: Profile) -> Calls:
        chains = profile.chains.items()
        return Calls({tuple(map(name, chain)): own for chain, own in chains}, facts)

    return calls


def _sum(facts: list[Fact]) -> Fact:
    """One fact of functions that have the same name in the same file."""
    first = min(facts, key=lambda fact: fact.line)
    return Fact(
        line=max(first.line, 1),
        entries=sum(fact.entries for fact in facts),
        code=first.code if len(facts) == 1 else "",
    )


def _spread(profiles: tuple[Profile, ...]) -> float:
    """Largest minus smallest total, as a share."""
    totals = [profile.total for profile in profiles]
    return (max(totals) - min(totals)) / min(totals)


def name_of(
    code: Code,
    packages: Path,
    standard: Path,
    application: Path,
    drivers: tuple[Path, ...],
    owners: Mapping[str, str],
) -> Name:
    """Name a function, or an extension module, which is one for all interpreters.

    Folders are those of its side's packages, standard library and application, and of what sends
    requests; `owners` has the distribution of each file in `packages`.
    """
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
    places = [(standard, PYTHON), (application, APPLICATION)]
    for folder, package in (*places, *((driver.parent, DRIVER) for driver in drivers)):
        if path.is_relative_to(folder):
            return Name(code.name, path.relative_to(folder).as_posix(), package)
    return Name(code.name, path.name, PYTHON if code.file.startswith("<") else APPLICATION)


def sides_of_comparison(
    comparison: Comparison,
    scope: Scope,
    subject: Callable[[], Subject],
    prepare: Callable[[Contrast, Scope], Sides],
) -> Sides:
    """Prepare what was compared: revisions as they are, or else the stack whose packages moved.

    `subject` has cases and locks as of today, and `prepare` makes the sides of others.

    Raises:
        UsageError: Neither can be prepared again.
        HistoryError, SetupError: As of `change_locks.find_locks`, or a stack cannot be made.
    """
    base, head = comparison.base, comparison.head
    if comparison.start:
        raise UsageError(
            f"{comparison.id}: expected a comparison of requests, found one of starts, whose "
            "imports `python -X importtime` times"
        )
    if base.kind == head.kind == "revision" and base.commit and head.commit and not head.dirty:
        return prepare(Contrast((base.commit, head.commit)), scope)
    if comparison.cross or head.kind == "several":
        raise UsageError(
            f"{comparison.id}: expected two versions of the code, found {base.label} and "
            f"{head.label}: give both sides themselves (--base, --head)"
        )
    stacks = dict.fromkeys(move.stack for move in comparison.packages)
    if len(stacks) != 1:
        raise UsageError(
            f"{comparison.id}: expected revisions, or packages of one stack that moved, found "
            f"{len(stacks)} stacks: give both sides themselves (--base, --head)"
        )
    return of_locks(subject(), change_locks.between(comparison, next(iter(stacks))), scope)


def moved_most(comparison: Comparison, sides: Sides) -> BothSides | None:
    """The case that moved most surely in what requests execute, on both sides; None: none did."""
    moved = [
        finding
        for finding in comparison.findings
        if finding.moved and finding.ratio and executes(finding.subject)
    ]
    cases = [finding.case for finding in sorted(moved, key=change_locks.least, reverse=True)]
    served = {pair.case.id: pair.sides for pair in sides.pairs}
    return next((served[case] for case in cases if case in served), None)


def scope(select: Sequence[str], narrator: Narrator, copies: Path) -> Scope:
    """Return the scope of sides that are only looked into: no server of theirs is loaded."""
    return Scope(tuple(select), paths.state_dir() / "logs", narrator, copies, loaded=False)


_MOST: Final = 4
"""Cases that are looked at in one call, half a minute to a minute each."""


def once(sides: Sides) -> list[BothSides]:
    """Return the selected cases, each piece of code once; UsageError: none, or too many."""
    by_code: dict[object, BothSides] = {}
    for pair in sides.pairs:
        case = pair.case
        code = case.python, case.stack, case.experiment, case.endpoint.name
        by_code.setdefault(code, pair.sides)
    if not 1 <= len(by_code) <= _MOST:
        some = ", ".join(head.case.id for _, head in list(by_code.values())[:3]) or "none"
        raise UsageError(f"--select: expected one to {_MOST} cases, found {len(by_code)}: {some}")
    return list(by_code.values())


def executes(metric: str) -> bool:
    """Whether a request's instructions may say something about a metric: not of memory, a start."""
    row = METRICS.get(metric)
    return row is None or (row.unit != "B" and row.concern not in {"start", "idle"})


def of_locks(subject: Subject, moved: Between, scope: Scope) -> Sides:
    """Prepare the stacks on both sides of a change; raises as `change_locks.find_locks`."""
    locks = change_locks.find_locks(subject, moved, scope.narrator)
    stack = moved.base.stack
    before, after = (f"{stack} before", locks.base), (f"{stack} after", locks.head)
    return preparation.of_locks(subject, stack, before, after, scope)
