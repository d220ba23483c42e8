"""Which commit did it, and which release: the two rows that are searched, state by state.

In a mixed lock some packages have their later versions, and all others the earlier ones. A package
that the later ones require in a newer version moves too, at most to its later version. uv resolves
the lock; which packages have really moved is read from it, and the environment has exactly that.

Each comparison of a search among packages is kept as soon as it is over: if a search is
interrupted, its next start continues with these.
"""

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from packaging.version import Version

from duetbench.app import locks, revisions, stacks
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.core.change import Cause, Commit, Release
from duetbench.core.comparison import Comparison, differences
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import git, paths
from duetbench.host.cache import digest
from duetbench.host.console import Console
from duetbench.host.files import Journal
from duetbench.host.machine import measuring
from duetbench.judge import preparation
from duetbench.judge.bisection import MEANS, TIME_IS_UP, Budget, Means, Search
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope

Names = frozenset[str]
"""Packages that have moved in a mixed lock."""


def list_commits(root: Path, good: str, bad: str) -> tuple[Commit, ...]:
    """List the commits after GOOD up to BAD, oldest first, of a branch merged only the merge.

    Raises UsageError if a name is no commit, or there is none between.
    """
    ends = [revisions.resolve(root, name).commit for name in (good, bad)]
    log = ["log", "--first-parent", "--reverse", "--format=%H %p%x00%s", f"{ends[0]}..{ends[1]}"]
    commits = []
    for line in git.ask(root, *log).splitlines():
        ids, _, subject = line.partition("\0")
        commit, *parents = ids.split()
        commits.append(Commit(id=commit, subject=subject, merge=len(parents) > 1))
    if not commits:
        raise UsageError(f"no commit is between {good} and {bad}: is {good} the earlier one?")
    return tuple(commits)


def search_commits(
    project: Subject,
    ends: tuple[str, str],
    select: str,
    seconds: float,
    reporter: Reporter,
    *,
    start: bool = False,
) -> Cause:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most, or of starts if
    what changed is the `start` of servers. Raises as `list_commits` and `Search.run`.
    """
    commits = list_commits(project.root, *ends)
    quiet = Reporter(Console(quiet=True))
    budget = Budget(seconds, len(commits))

    def look(good: str, commit: str, means: Means, case: str) -> Comparison:
        extent = budget.extent(means, glob.escape(case) if case else select, start=start)
        told = reporter if extent.seconds else quiet
        return compare(project, Contrast((good, commit)), extent, told)

    found = CommitSearch(commits, look, reporter.say)
    return found.run([ends[0], *(commit.id for commit in commits)], MEANS[2:] if start else MEANS)


class CommitSearch(Search[str]):
    """A search in a row of commits, by their ids; of the first one, any name."""

    unit = "commits"

    def __init__(
        self,
        commits: Sequence[Commit],
        look: Callable[[str, str, Means, str], Comparison],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(look, say)
        self.commits = commits
        self.places = {commit.id: place for place, commit in enumerate(commits, 1)}

    def between(self, before: str, after: str, _: Comparison | None = None) -> Sequence[Commit]:
        return self.commits[self.places.get(before, 0) : self.places[after]]

    def apart(
        self, row: Sequence[str], found: Sequence[str]
    ) -> tuple[str, str, Sequence[Sequence[str]]]:
        start, end = row.index(found[0]), row.index(found[-1])
        return row[start - 1], row[end], (row[:start], row[end:])


class PackageSearch(Search[Names]):
    """A search among packages: of the n-th state of the row, the first n of them have moved.

    Fresh comparisons measure what is found alone, since two releases may have an effect only
    together, and then all others on a stack in which it has moved.
    """

    unit = "releases"

    def __init__(
        self,
        releases: Mapping[str, Release],
        look: Callable[[Names, Names, Means, str], Comparison],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(look, say)
        self.releases = releases

    def row(self, base: Names) -> list[Names]:
        """Return the states in which base, and ever more packages, have moved."""
        left = [name for name in self.releases if name not in base]
        return [base.union(left[:number]) for number in range(len(left) + 1)]

    def between(
        self, before: Names, after: Names, shown: Comparison | None = None
    ) -> Sequence[Release]:
        # The shortest comes first, which others extend: pydantic, then pydantic-core.
        names = sorted(after - before, key=lambda name: (len(name), name))
        moved = {move.package for move in shown.packages} if shown else set()
        dragged = sorted(moved & self.releases.keys() - {*names})
        return [self.releases[name] for name in (*names, *dragged)]

    def apart(
        self, row: Sequence[Names], found: Sequence[Names]
    ) -> tuple[Names, Names, Sequence[Sequence[Names]]]:
        head = row[0] | (found[-1] - row[row.index(found[0]) - 1])
        return row[0], head, [self.row(head)]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """The texts of a stack's lock before and after a change, whose cause is searched for.

    `select` is a glob over the ids of cases; without a `metric` of these, all that differs is
    searched.
    """

    stack: str
    base: str
    head: str
    select: str
    metric: str = ""


def search_packages(
    project: Subject,
    contrast: Contrast,
    select: str,
    seconds: float,
    reporter: Reporter,
    metric: str = "",
) -> Cause:
    """Search for the release that did it between the packages of two sides, on this machine.

    All cases of an application have the same packages. `select` is a glob over their ids; without a
    `metric` of theirs, all that differs is searched. Raises as `preparation.prepare` and `find`.
    """
    with revisions.copies() as copies:
        scope = Scope((select,), reporter, copies)
        both = preparation.prepare(project, contrast, scope)
        if not both.pairs:
            raise UsageError("base and head have no case in common")
        stack = both.pairs[0].case.stack
        files = (side.testbed.stacks[stack].lock for side in (both.base, both.head))
        base, head = (file.read_text("utf-8") for file in files)
        task = SearchTask(stack, base, head, select, metric)
        return find(project, both.head.subject, task, reporter, seconds)


def find(
    project: Subject,
    subject: Subject,
    task: SearchTask,
    reporter: Reporter,
    seconds: float,
) -> Cause:
    """Search on this machine for `seconds` of duets; an interrupted search is continued.

    Raises:
        UsageError: The case is no longer declared, or no package moved.
        SetupError: The stacks cannot be installed or measured.
        InterruptedRun: A signal stopped the search.
    """
    mixed = MixedLocks(subject, task, reporter)
    if not mixed.moves:
        raise UsageError("both locks have the same versions: there is nothing to search")
    if not mixed.releases:
        reason = "packages were only added or removed, which mixed locks cannot separate"
        return Cause(suspects=tuple(move.package for move in mixed.moves), reason=reason)
    reporter.say(f"{len(mixed.moves)} packages moved, {len(mixed.releases)} can be the cause")
    budget, quiet = Budget(seconds, len(mixed.releases)), Reporter(Console(quiet=True))
    journal = Journal(paths.state_dir() / "searches" / f"{digest(*astuple(task))}.jsonl")

    def look(before: Names, after: Names, means: Means, case: str) -> Comparison:
        key = [sorted(before), sorted(after), means, case]
        for kept, text in journal.lines:
            if kept == key:
                return Comparison.model_validate_json(text)

        def prepare(_project: object, _contrast: Contrast, scope: Scope) -> Sides:
            states = mixed.state(before), mixed.state(after)
            return preparation.of_locks(subject, task.stack, *states, scope)

        extent = budget.extent(means, glob.escape(case) if case else task.select)
        told = reporter if extent.seconds else quiet
        whole = compare(project, Contrast(), extent, told, prepare=prepare)
        findings = [row for row in whole.findings if task.metric in ("", row.subject)]
        comparison = whole.model_copy(update={"findings": tuple(findings)})
        if extent.seconds in (None, budget.most):  # the end of the time cut others short
            journal.add([key, comparison.model_dump_json()])
        return comparison

    with measuring():
        packages = PackageSearch(mixed.releases, look, reporter.say)
        cause = packages.run(packages.row(Names()), MEANS[2:] if task.metric else MEANS)
    if cause.reason != TIME_IS_UP:
        journal.forget()
    return cause


class MixedLocks:
    """The mixed locks between the two locks of a change."""

    def __init__(self, subject: Subject, task: SearchTask, reporter: Reporter) -> None:
        self.subject, self.task, self.reporter = subject, task, reporter
        self._text = cache(self._lock)
        self._before, self._after = self._versions(task.base), self._versions(task.head)
        self.moves = differences(task.stack, self._before, self._after)
        self.releases = {
            move.package: Release(package=move.package, version=move.head, previous=move.base)
            for move in self.moves
            if move.base and move.head
        }

    def state(self, moving: Names) -> tuple[str, str]:
        """Return the label and the text of a mixed lock.

        Raises SetupError if there is none, or if a package has neither of its versions there.
        """
        text = self._text(moving)
        versions = self._versions(text)
        for name in self.releases:
            if versions.get(name) not in {self._before[name], self._after[name]}:
                raise SetupError(f"{name} would be {versions.get(name, 'gone')}")
        return f"{self.task.stack} with {', '.join(sorted(moving)) or 'nothing'} moved", text

    def _versions(self, lock: str) -> dict[str, str]:
        return stacks.parse(lock, f"lock of {self.task.stack}", self.subject.version)

    def _lock(self, moving: Names) -> str:
        """Return a mixed lock: for none and all of the row, base's and head's own locks."""
        if not moving or moving.issuperset(self.releases):
            return self.task.head if moving else self.task.base
        stack, names = self.task.stack, ", ".join(sorted(moving))
        with self.reporter.step(f"stack {stack}", f"with {names} moved") as tick:
            keep, pins = self.task.base, self._pins(moving)
            return locks.resolve(self.subject, stack, None, tick, keep=keep, pins=pins)

    def _pins(self, moving: Names) -> list[str]:
        """Pin `moving` to the later versions; other packages keep theirs, or move up to the later.

        A package with several versions, one per platform, cannot be pinned to one of them.
        """
        before, after = self._before, self._after
        several = {
            name
            for text in (self.task.base, self.task.head)
            for name, version in stacks.versions(text).items()
            if " and " in version
        }
        pins = []
        for name in sorted({**before, **after}.keys() - several):
            old, new = {**after, **before}[name], {**before, **after}[name]
            if name in moving or old == new:
                pins.append(f"{name}=={new}")
            else:
                low, high = sorted((old, new), key=Version)
                pins.append(f"{name}>={low},<={high}")
        return pins
