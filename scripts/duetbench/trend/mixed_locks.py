"""Searches for the release behind a change, by duets of mixed locks of both stacks.

In a mixed lock some packages have their later versions, and all others the earlier ones. A package
that the later ones require in a newer version moves too, at most to its later version. uv resolves
the lock; which packages have really moved is read from it, and the environment has exactly that.

Each duet of a search is appended to a file as soon as it is over. If a search is interrupted, its
next start reads these duets from the file and continues.
"""

import glob
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from packaging.version import Version

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.metrics import CPU, METRICS
from duetbench.host import machine, paths
from duetbench.host.cache import digest
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import change_locks, deployment, preparation, revisions
from duetbench.judge.change_locks import find_locks
from duetbench.judge.duet_loop import Loop, MakeInstruments, Reporter, duet_seconds
from duetbench.judge.instruments import Real
from duetbench.judge.pairs import Pair
from duetbench.judge.preparation import Scope
from duetbench.judge.session import DEFAULT_SEED
from duetbench.measure.testbed import SideCase
from duetbench.project import locks, stacks
from duetbench.project.setting import Contrast
from duetbench.project.subject import Subject
from duetbench.store.change import Cause, Release, SeriesName
from duetbench.store.comparison import Comparison, differences
from duetbench.store.files import Journal
from duetbench.trend.bisection import TIME_IS_UP, Names, ReleaseSearch, StuckError


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A change and the texts of the locks before and after it, whose cause is searched for."""

    series: SeriesName
    stack: str
    base: str
    head: str


def of_comparison(
    subject: Subject, comparison: Comparison, select: str | None, narrator: Narrator
) -> SearchTask:
    """Return the task for the case of a comparison that moved most surely, or the selected one.

    Raises:
        UsageError: Another machine made it, or no selected case moved where packages did.
        HistoryError, SetupError: As `change_locks.find_locks`.
    """
    if (here := machine.fingerprint().id) != comparison.machine.id:
        raise UsageError(f"{comparison.id} was made on {comparison.machine.id}, and this is {here}")
    judged = [
        (case.case, finding)
        for case in comparison.cases
        for finding in comparison.findings
        if finding.case == case.case.id and finding.subject in METRICS
        if (finding.moved or select) and finding.ratio and finding.low and finding.high
        if select is None or fnmatchcase(case.case.id, select)
        if any(move.stack == case.case.stack for move in comparison.packages)
    ]
    if not judged:
        raise UsageError(
            f"{comparison.id}: expected a case that moved in a stack whose packages changed"
            + (f" and that {select!r} selects" if select else "")
        )
    case, finding = max(judged, key=lambda row: (row[1].moved, change_locks.least(row[1])))
    texts = find_locks(subject, change_locks.between(comparison, case.stack), narrator)
    series = SeriesName(machine=here, case=case.id, metric=finding.subject)
    return SearchTask(series, case.stack, texts.base, texts.head)


def of_contrast(
    project: Subject, contrast: Contrast, select: str | None, reporter: Reporter, copies: Path
) -> tuple[Subject, SearchTask]:
    """Return the task between the packages of two sides, and what is measured with them.

    All cases of an application have the same packages, so the first one is searched.

    Raises:
        UsageError: The sides differ in something else, or no case is selected.
        SetupError: As `preparation.prepare`.
    """
    if contrast.kinds != {"stack"}:
        raise UsageError("bisect: expected packages: PACKAGE==VERSION, lock=FILE or as-of=DATE")
    scope = Scope((select or "*",), paths.state_dir() / "logs", reporter, copies)
    both = preparation.prepare(project, contrast, scope)
    if not both.pairs:
        raise UsageError("base and head have no case in common")
    case = both.pairs[0].case
    locks_ = (side.testbed.stacks[case.stack].lock for side in (both.base, both.head))
    base, head = (lock.read_text("utf-8") for lock in locks_)
    series = SeriesName(machine=machine.fingerprint().id, case=case.id, metric=CPU)
    return both.head.subject, SearchTask(series, case.stack, base, head)


def search(
    project: Subject,
    evidence: Comparison | Contrast,
    select: str | None,
    seconds: float,
    reporter: Reporter,
) -> tuple[SearchTask, Cause]:
    """Search for the release behind a comparison, or between two sides, on this machine.

    Args:
        project: The repository, which nothing else may measure meanwhile.
        evidence: A comparison of this machine, or two sides that differ in packages.
        select: A glob over the ids of cases; None: the clearest change.
        seconds: Limit of the search, s.
        reporter: Gets what is done meanwhile.

    Raises:
        UsageError: Nothing is selected, or the comparison has nothing to search.
        SetupError, HistoryError: As `find`.
    """
    with revisions.copies() as copies:
        subject: Subject
        if isinstance(evidence, Contrast):
            subject, task = of_contrast(project, evidence, select, reporter, copies)
        else:
            subject = deployment.working(project, reporter, copies)
            task = of_comparison(subject, evidence, select, reporter)
        return task, find(subject, task, reporter, seconds)


def find(
    subject: Subject,
    task: SearchTask,
    reporter: Reporter,
    seconds: float,
    make: MakeInstruments = Real,
) -> Cause:
    """Search on this machine for `seconds`; an interrupted search is continued.

    Raises:
        UsageError: The case is no longer declared, or no package moved.
        SetupError: The stacks cannot be installed or measured.
        InterruptedRun: A signal stopped the search.
    """
    with measuring(), revisions.copies() as copies:
        ends = time.monotonic() + seconds
        mixed = MixedLocks(subject, task, reporter, copies, ends, make)
        moves, releases = mixed.moves, mixed.releases
        if not moves:
            raise UsageError("both locks have the same versions: there is nothing to search")
        if not releases:
            reason = "packages were only added or removed, which mixed locks cannot separate"
            suspects = tuple(move.package for move in moves)
            return Cause(whole=None, shares=(), rest=None, suspects=suspects, reason=reason)
        reporter.start(
            f"{task.series.case}: {len(moves)} packages moved, {len(releases)} can be the cause",
            seconds,
        )
        try:
            metric, say = task.series.metric, reporter.say
            cause = ReleaseSearch(releases, mixed.resolve, mixed.duet, metric, say).run()
        finally:
            reporter.end()
        if cause.reason != TIME_IS_UP:
            mixed.journal.forget()
        return cause


class MixedLocks:
    """Runs duets of mixed locks of a change, until `ends` on the monotonic clock."""

    def __init__(
        self,
        subject: Subject,
        task: SearchTask,
        reporter: Reporter,
        copies: Path,
        ends: float,
        make: MakeInstruments,
    ) -> None:
        self.subject, self.task, self.reporter, self._ends = subject, task, reporter, ends
        known = (case for case in subject.cases() if case.id == task.series.case)
        if (case := next(known, None)) is None:
            raise UsageError(f"no case here is {task.series.case}, so there is nothing to measure")
        self.case, logs = case, paths.state_dir() / "logs"
        self._scope = Scope((glob.escape(case.id),), logs, reporter, copies)
        self._loop = Loop(make(logs), reporter, DEFAULT_SEED)
        name = digest(*task.series.model_dump().values(), task.base, task.head)
        self.journal = Journal(paths.state_dir() / "searches" / f"{name}.jsonl")
        self._known: dict[str, deque[float | None]] = defaultdict(deque)
        for key, log in self.journal.lines:
            self._known[key].append(log)
        self._text, self._pair = cache(self._lock), cache(self._prepare)
        self._before, self._after = self._versions(task.base), self._versions(task.head)
        self.moves = differences(task.stack, self._before, self._after)
        self.releases = {
            move.package: Release(package=move.package, version=move.head, previous=move.base)
            for move in self.moves
            if move.base and move.head
        }

    def resolve(self, moving: Names) -> Names:
        """Resolve a mixed lock; return which packages of the row moved in it.

        Raises SetupError if that fails, or if one of them has neither of its versions there.
        """
        versions = self._versions(self._text(moving))
        for name in self.releases:
            if versions.get(name) not in {self._before[name], self._after[name]}:
                raise SetupError(f"{name} would be {versions.get(name, 'gone')}")
        return frozenset(name for name in self.releases if versions[name] == self._after[name])

    def duet(self, base: Names, head: Names) -> float | None:
        """Run a duet, or take its result from an interrupted search; None: it was not usable."""
        key = " ".join((*sorted(base), "→", *sorted(head)))
        if self._known[key]:
            return self._known[key].popleft()
        left, pair = self._left(), self._pair(base, head)
        self._loop.launch([pair], lambda _, duet: pair.duets.add(duet), left)
        if reason := pair.duets.void:
            raise SetupError(reason)
        usable = pair.duets.all[-1].usable
        log = float(pair.duets.logs(self.task.series.metric)[-1]) if usable else None
        self.journal.add([key, log])
        return log

    def _left(self) -> float:
        """Return how many seconds are left; raises StuckError if they are too few for a duet."""
        left = self._ends - time.monotonic()
        if sum(duet_seconds(self.case)) > left:
            raise StuckError(TIME_IS_UP)
        return left

    def _versions(self, lock: str) -> dict[str, str]:
        return stacks.parse(lock, f"lock of {self.task.stack}", self.subject.version)

    def _lock(self, moving: Names) -> str:
        """Return a mixed lock: for none and all of the row, base's and head's own locks."""
        if not moving or moving.issuperset(self.releases):
            return self.task.head if moving else self.task.base
        self._left()
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
        for name in sorted((before.keys() | after.keys()) - several):
            low, high = before.get(name, after.get(name, "")), after.get(name, before.get(name, ""))
            if name in moving:
                pins.append(f"{name}=={high}")
            elif name in self.releases:
                low, high = sorted((low, high), key=Version)
                pins.append(f"{name}>={low},<={high}")
            else:
                pins.append(f"{name}=={low}")
        return pins

    def _prepare(self, base: Names, head: Names) -> Pair:
        def state(moved: Names) -> tuple[str, str]:
            name = f"{self.task.stack} with {', '.join(sorted(moved)) or 'nothing'} moved"
            return name, self._text(moved)

        both = preparation.of_locks(
            self.subject, self.task.stack, state(base), state(head), self._scope
        )
        before, after = (SideCase(self.case, side.testbed) for side in (both.base, both.head))
        return Pair(before, after)
