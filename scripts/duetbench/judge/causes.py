"""Which commit did it, and which release: the two rows that are searched, state by state.

In a mixed lock some packages have their later versions, and all others the earlier ones. A package
that the later ones require in a newer version moves too, at most to its later version. uv resolves
the lock; which packages have really moved is read from it, and the environment has exactly that.
"""

import glob
from functools import cache
from pathlib import Path

from packaging.version import Version

from duetbench.app import revisions, stacks
from duetbench.app.setting import Contrast
from duetbench.app.subject import Subject
from duetbench.core.change import Cause, Commit, Release
from duetbench.core.comparison import Comparison, differences
from duetbench.core.errors import SetupError, UsageError
from duetbench.host import git
from duetbench.host.console import Console
from duetbench.host.machine import measuring
from duetbench.judge import preparation
from duetbench.judge.bisection import MEANS, Budget, Means, Search, State
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.pairs import Sides
from duetbench.judge.preparation import Scope


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
) -> Cause:
    """Search the commits between GOOD and BAD on this machine, which nothing else may use.

    `select` is a glob over the ids of cases, `seconds` of load are used at most. Raises as
    `list_commits` and `Search.run`.
    """
    commits = list_commits(project.root, *ends)
    quiet = Reporter(Console(quiet=True))
    budget = Budget(seconds, len(commits))

    names = [ends[0], *(commit.id for commit in commits)]

    def look(before: State, after: State, means: Means, case: str) -> Comparison:
        extent = budget.extent(means, glob.escape(case) if case else select)
        told = reporter if extent.seconds else quiet
        return compare(project, Contrast((names[len(before)], names[len(after)])), extent, told)

    items = {commit.id: commit for commit in commits}
    return Search("commits", items, look, reporter.say).run()


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
    locks: tuple[str, str],
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
    mixed = MixedLocks(subject, stack, locks, reporter)
    if not mixed.moves:
        raise UsageError("both locks have the same versions: there is nothing to search")
    if not mixed.releases:
        reason = "packages were only added or removed, which mixed locks cannot separate"
        return Cause(suspects=tuple(move.package for move in mixed.moves), reason=reason)
    reporter.say(f"{len(mixed.moves)} packages moved, {len(mixed.releases)} can be the cause")
    budget, quiet = Budget(seconds, len(mixed.releases)), Reporter(Console(quiet=True))

    def look(before: State, after: State, means: Means, case: str) -> Comparison:
        def prepare(_project: object, _contrast: Contrast, scope: Scope) -> Sides:
            states = mixed.state(before), mixed.state(after)
            return preparation.of_locks(subject, stack, *states, scope)

        extent = budget.extent(means, glob.escape(case) if case else select)
        told = reporter if extent.seconds else quiet
        comparison = compare(subject, Contrast(), extent, told, prepare=prepare)
        findings = [row for row in comparison.findings if metric in ("", row.subject)]
        return comparison.model_copy(update={"findings": tuple(findings)})

    with measuring():
        found = Search("releases", mixed.releases, look, reporter.say)
        return found.run(MEANS[2:] if metric else MEANS)


class MixedLocks:
    """The mixed locks between the two locks of a change."""

    def __init__(
        self, subject: Subject, stack: str, ends: tuple[str, str], reporter: Reporter
    ) -> None:
        self.subject, self.stack, self.ends, self.reporter = subject, stack, ends, reporter
        self._text = cache(self._lock)
        self._before, self._after = map(self._versions, ends)
        self.moves = differences(stack, self._before, self._after)
        self.releases = {
            move.package: Release(package=move.package, version=move.head, previous=move.base)
            for move in self.moves
            if move.base and move.head
        }

    def state(self, moving: State) -> tuple[str, str]:
        """Return the label and the text of a mixed lock.

        Raises SetupError if there is none, or if a package has neither of its versions there.
        """
        text = self._text(moving)
        versions = self._versions(text)
        for name in self.releases:
            if versions.get(name) not in {self._before[name], self._after[name]}:
                raise SetupError(f"{name} would be {versions.get(name, 'gone')}")
        return f"{self.stack} with {', '.join(sorted(moving)) or 'nothing'} moved", text

    def _versions(self, lock: str) -> dict[str, str]:
        return stacks.parse(lock, f"lock of {self.stack}", self.subject.version)

    def _lock(self, moving: State) -> str:
        """Return a mixed lock: for none and all of the row, base's and head's own locks."""
        if not moving or moving.issuperset(self.releases):
            return self.ends[bool(moving)]
        names, pins = ", ".join(sorted(moving)), self._pins(moving)
        with self.reporter.step(f"stack {self.stack}", f"with {names} moved") as tick:
            keep = self.ends[0]
            return self.subject.resolve(self.stack, None, tick, keep=keep, pins=pins)

    def _pins(self, moving: State) -> list[str]:
        """Pin `moving` to the later versions; other packages keep theirs, or move up to the later.

        A package with several versions, one per platform, cannot be pinned to one of them, nor one
        that is a commit.
        """
        before, after = self._before, self._after
        several = {
            name
            for text in self.ends
            for name, version in stacks.versions(text).items()
            if " and " in version
        }
        commits = {n for v in (self._before, self._after) for n in v if v[n].startswith(stacks.GIT)}
        pins = []
        for name in sorted({**before, **after}.keys() - several - commits):
            old, new = {**after, **before}[name], {**before, **after}[name]
            if name in moving or old == new:
                pins.append(f"{name}=={new}")
            else:
                low, high = sorted((old, new), key=Version)
                pins.append(f"{name}>={low},<={high}")
        return pins
