"""Which commit did it, and which release: the two rows that are searched, state by state.

In a mixed lock some packages have their later versions, and all others the earlier ones. A package
that the later ones require in a newer version moves too, at most to its later version. uv resolves
the lock; which packages have really moved is read from it, and the environment has exactly that.
"""

import glob
import math
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from packaging.version import Version

from duetbench.app import revisions, stacks
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.core.change import Cause, Commit
from duetbench.core.comparison import Comparison, Release, differences
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.host.machine import measuring
from duetbench.judge import preparation, suites
from duetbench.judge.bisection import MEANS, TIME_IS_UP, Means, Search, State, StuckError, means_of
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.findings import clearest
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Extent, Scope

Look = Callable[[State, State, Extent, Reporter], Comparison]
"""Compares two states on this machine."""


def looks(
    compare: Look, states: int, select: str, seconds: float, reporter: Reporter
) -> Callable[[State, State, Means, str], Comparison]:
    """Make the looks of a search in a row of so many states, of the cases that a glob selects.

    Duets share the `seconds` from the first of them on; they decide most questions early, so each
    may take twice its part.
    """
    quiet, most = Reporter(Console(quiet=True)), 2 * seconds / (3 + math.ceil(math.log2(states)))
    ends = cache(lambda: time.monotonic() + seconds)

    def look(before: State, after: State, means: Means, case: str) -> Comparison:
        cases = (glob.escape(case) if case else select,)
        if means != "duets":
            return compare(before, after, Extent(cases, only=means), quiet)
        if (left := ends() - time.monotonic()) < most / 4:
            raise StuckError(TIME_IS_UP)
        return compare(before, after, Extent(cases, min(most, left)), reporter)

    return look


def list_commits(root: Path, good: str, bad: str) -> tuple[Commit, ...]:
    """List the commits after GOOD up to BAD, oldest first, of a merged branch only the merge.

    Raises UsageError if a name is no commit, or there is none between.
    """
    ends = [revisions.resolve(root, name).commit for name in (good, bad)]
    log = ["log", "--first-parent", "--reverse", "--format=%H %s", f"{ends[0]}..{ends[1]}"]
    lines = [line.partition(" ") for line in git.ask(root, *log).splitlines()]
    if not lines:
        raise UsageError(f"no commit is between {good} and {bad}: is {good} the earlier one?")
    return tuple(Commit(id=commit, subject=subject) for commit, _, subject in lines)


def search_commits(
    root: Path,
    ends: tuple[str, str],
    between: Callable[[Contrast, Extent, Reporter], Comparison],
    select: str,
    seconds: float,
    reporter: Reporter,
    means: Sequence[Means] = MEANS,
) -> Cause:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `between` compares two of them, `select` is a glob over the ids of cases, `seconds` of load are
    used at most. Raises as `list_commits` and `Search.run`.
    """
    commits = list_commits(root, *ends)
    names = [ends[0], *(commit.id for commit in commits)]

    def look(before: State, after: State, extent: Extent, reporter: Reporter) -> Comparison:
        return between(Contrast((names[len(before)], names[len(after)])), extent, reporter)

    by_look = looks(look, len(commits), select, seconds, reporter)
    items = {str(commit): commit for commit in commits}
    return Search("commits", items, by_look, reporter.say).run(means)


def by_tests(
    root: Path, tests: Sequence[str], last: str, env: Mapping[str, str]
) -> Callable[[Contrast, Extent, Reporter], Comparison]:
    """Return what compares two revisions by the tests of the `last` one, for a search."""

    def look(contrast: Contrast, extent: Extent, reporter: Reporter) -> Comparison:
        seen = suites.compare(root, contrast, tests, extent, reporter, env=env, tests_of=last)
        chosen = [f for f in seen.findings if any(fnmatchcase(f.case, x) for x in extent.select)]
        return seen.model_copy(update={"findings": tuple(chosen)})

    return look


def clearest_case(comparison: Comparison, select: str) -> tuple[str, str]:
    """Return a glob for the case with the clearest change that duets have shown, and its metric.

    If they have shown none, what a request does and counts are searched, in all that `select`
    matches, and there is no metric.
    """
    change = clearest(comparison, lambda f: means_of(f) == "duets" and fnmatchcase(f.case, select))
    return (glob.escape(change.case), change.subject) if change else (select, "")


def search_packages(
    project: Subject,
    contrast: Contrast,
    select: str,
    seconds: float,
    reporter: Reporter,
    metric: str = "",
) -> Cause:
    """Search for the release that did it between the packages of two sides, on this machine.

    All cases of an application have the same packages. Raises as `preparation.prepare` and
    `search_locks`, which explains the rest.
    """
    with revisions.copies() as copies:
        both = preparation.prepare(project, contrast, Scope((select,), reporter, copies))
        if not both.pairs:
            raise UsageError("base and head have no case in common")
        stack = both.pairs[0].case.stack
        files = (side.testbed.stacks[stack].lock for side in (both.base, both.head))
        base, head = (file.read_text("utf-8") for file in files)
        subject = both.head.subject
        return search_locks(subject, stack, (base, head), select, seconds, reporter, metric)


def search_locks(
    subject: Subject,
    stack: str,
    ends: tuple[str, str],
    select: str,
    seconds: float,
    reporter: Reporter,
    metric: str = "",
) -> Cause:
    """Search between the texts of two locks of a stack, on this machine.

    `select` is a glob over the ids of cases, `seconds` are those of duets at most. Without a
    `metric` of these, all that differs is searched.

    Raises:
        UsageError: The case is no longer declared, or no package moved.
        SetupError: The stacks cannot be installed or measured.
        InterruptedRun: A signal stopped the search.
    """

    def versions(lock: str) -> dict[str, str]:
        return stacks.parse(lock, f"lock of {stack}", subject.version)

    old, new = map(versions, ends)
    moves = differences(stack, old, new)
    # The shortest comes first, which others extend: pydantic, then pydantic-core.
    releases = {
        move.package: Release(package=move.package, version=move.head, previous=move.base)
        for move in sorted(moves, key=lambda move: (len(move.package), move.package))
        if move.base and move.head
    }
    if not moves:
        raise UsageError("both locks have the same versions: there is nothing to search")
    if not releases:
        reason = "packages were only added or removed, which mixed locks cannot separate"
        return Cause(suspects=tuple(move.package for move in moves), reason=reason)
    reporter.say(f"{len(moves)} packages moved, {len(releases)} can be the cause")

    @cache
    def mixed(moving: State) -> str:
        """Return a mixed lock: for none and all of the row, base's and head's own locks."""
        if not moving or moving.issuperset(releases):
            return ends[bool(moving)]
        with reporter.step(f"stack {stack}", f"with {', '.join(sorted(moving))} moved") as tick:
            wanted = pins(ends, old, new, moving)
            return preparation.resolve(subject, stack, None, tick, keep=ends[0], pins=wanted)

    def state(moving: State) -> tuple[str, str]:
        """Label a mixed lock; SetupError: a package has neither of its versions there."""
        locked = versions(text := mixed(moving))
        for name in releases:
            if locked.get(name) not in {old[name], new[name]}:
                raise SetupError(f"{name} would be {locked.get(name, 'gone')}")
        return f"{stack} with {', '.join(sorted(moving)) or 'nothing'} moved", text

    def look(before: State, after: State, extent: Extent, progress: Reporter) -> Comparison:
        def prepare(_project: object, _contrast: Contrast, scope: Scope) -> Sides:
            return preparation.of_locks(subject, stack, state(before), state(after), scope)

        comparison = compare(subject, Contrast(), extent, progress, prepare=prepare)
        findings = [row for row in comparison.findings if metric in ("", row.subject)]
        return comparison.model_copy(update={"findings": tuple(findings)})

    with measuring():
        by_look = looks(look, len(releases), select, seconds, reporter)
        search = Search("releases", releases, by_look, reporter.say)
        return search.run(MEANS[2:] if metric else MEANS)


def pins(
    ends: Sequence[str], old: Mapping[str, str], new: Mapping[str, str], moving: State
) -> list[str]:
    """Pin `moving` to the later versions; other packages keep theirs, or move up to the later.

    `old` and `new` are the versions of both locks, whose texts are the `ends`. A package without
    one version, such as one per platform or a commit, cannot be pinned.
    """
    free = {
        name
        for versions in (old, new, *map(stacks.versions, ends))
        for name, version in versions.items()
        if " and " in version or version.startswith(stacks.GIT)
    }
    words = []
    for name in sorted({*old, *new} - free):
        before, after = {**new, **old}[name], {**old, **new}[name]
        low, high = sorted((before, after), key=Version)
        exact = name in moving or low == high
        words.append(f"{name}=={after}" if exact else f"{name}>={low},<={high}")
    return words
