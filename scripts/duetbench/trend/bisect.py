"""Searches for the cause of a change on real stacks: mixtures of its two states, played by duets.

In a mixture some packages have their later versions, all others the earlier ones, or what the moved
ones need: at most the later version. uv resolves it; what has really moved is read from its lock,
and an environment is installed from exactly that.

Each duet of a search is appended to a file as soon as it is over: the same search, begun again
after whatever ended it, takes its answers from there and goes on.
"""

import glob
import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from packaging.version import Version

from duetbench.core.errors import SetupError, UsageError
from duetbench.core.metrics import CPU
from duetbench.host import cache, machine, paths
from duetbench.host.console import Narrator
from duetbench.host.machine import measuring
from duetbench.judge import affected, change_locks, counted, revisions
from duetbench.judge import sides as sides_
from duetbench.judge.change_locks import find_locks
from duetbench.judge.counted import PROFILES, START_SECONDS, carrier, unit_of
from duetbench.judge.dependencies import Dependencies, Reader
from duetbench.judge.duet_loop import Loop, MakeInstruments, Reporter, duet_seconds
from duetbench.judge.pairs import Pair, Side
from duetbench.judge.sides import Scope
from duetbench.measure.testbed import SideCase
from duetbench.project import stacks
from duetbench.project.project import Project
from duetbench.store.change import Cause, Change, Release, SeriesName
from duetbench.store.comparison import Comparison, differences
from duetbench.store.files import Journal
from duetbench.trend.culprits import TIME_IS_UP, Names, Search, TimeIsUpError

FOLDER: Final = "searches"  # folder of searches under way, below the state folder


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A change whose cause is searched for: texts of the locks before and after it.

    `size` is its log ratio, where it was measured before.
    """

    series: SeriesName
    stack: str
    base: str
    head: str
    size: float | None = None

    @property
    def id(self) -> str:
        return cache.digest(*self.series.model_dump().values(), self.base, self.head)


COUNT_LIMIT: Final = 300.0  # seconds after which a count of both sides has failed


def of_record(project: Project, record: Change, narrator: Narrator) -> SearchTask:
    """A confirmed change; errors as of `change_locks.find_locks`."""
    texts = find_locks(project, record, narrator)
    stack, size = record.base.stack, math.log(record.ratio)
    return SearchTask(record.series, stack, texts.base, texts.head, size)


def of_comparison(
    project: Project, comparison: Comparison, select: str | None, narrator: Narrator
) -> SearchTask:
    """The case of a comparison that moved most surely, or the one selected.

    Raises:
        UsageError: No packages moved there, nothing moved, or no case is selected.
        HistoryError, SetupError: As of `change_locks.find_locks`.
    """
    if (here := machine.fingerprint().id) != comparison.machine.id:
        raise UsageError(f"{comparison.id} was made on {comparison.machine.id}, and this is {here}")
    judged = [
        (case.case, judgement)
        for case in comparison.cases
        for judgement in case.judgements
        if (judgement.moved or select) and judgement.ratio and judgement.low and judgement.high
        if select is None or fnmatchcase(case.case.id, select)
        if any(move.stack == case.case.stack for move in comparison.packages)
    ]
    if not judged:
        raise UsageError(
            f"{comparison.id}: expected a case that moved where packages did"
            + (f", and that {select!r} selects" if select else "")
        )
    case, moved = max(
        judged,
        key=lambda judgement: (judgement[1].moved, change_locks.least(judgement[1])),
    )
    texts = find_locks(project, change_locks.between(comparison, case.stack), narrator)
    series = SeriesName(machine=here, case=case.id, metric=moved.metric)
    return SearchTask(series, case.stack, texts.base, texts.head, math.log(moved.ratio or 1.0))


def of_locks(project: Project, select: str, base: str, head: str) -> SearchTask:
    """The case that a glob selects between the texts of two locks of its stack.

    UsageError: it selects none, or several.
    """
    cases = {
        case.id: case
        for profile in PROFILES
        for case in project.cases(profile)
        if fnmatchcase(case.id, select)
    }
    if len(cases) != 1:
        some = ", ".join(sorted(cases)[:3]) or "none"
        raise UsageError(f"--select {select!r}: expected one case, found {len(cases)}: {some}")
    ((name, case),) = cases.items()
    series = SeriesName(machine=machine.fingerprint().id, case=name, metric=CPU)
    return SearchTask(series, case.stack, base, head)


def find(
    project: Project,
    task: SearchTask,
    reporter: Reporter,
    seconds: float,
    seed: int,
    make: MakeInstruments,
) -> Cause:
    """Search on this machine within so many seconds; what an interruption leaves is gone on with.

    Of a target, `project` is a copy that was prepared for it.

    Raises:
        UsageError: The case or benchmark is not declared any more.
        SetupError: The stacks cannot be made or played.
        InterruptedRun: It was stopped.
    """
    with measuring(), revisions.copies() as copies:
        ends = time.monotonic() + seconds
        mixtures = Mixtures(project, task, reporter, copies, ends, seed, make)
        moves, row = mixtures.moves, mixtures.row
        if not row:
            reason = "the case loads none of them"
            if any(move.base is None or move.head is None for move in moves):
                reason = "packages only came or went, which cannot be tried apart"
            suspects = tuple(sorted(move.package for move in moves))
            return Cause(whole=None, shares=(), rest=None, suspects=suspects, reason=reason)
        reporter.start(
            f"{task.series.case}: {len(moves)} packages moved, {len(row)} of them can be the cause",
            seconds,
        )
        releases = {
            move.package: Release(package=move.package, version=move.head, previous=move.base)
            for move in moves
            if move.package in row and move.head
        }
        try:
            cause = Search(releases, mixtures, reporter.say, task.size).run()
        finally:
            reporter.end()
        if cause.reason != TIME_IS_UP:
            mixtures.journal.forget()
        return cause


class Mixtures:
    """Plays mixtures of the stacks of a change, until `ends` on the monotonic clock."""

    def __init__(
        self,
        project: Project,
        task: SearchTask,
        reporter: Reporter,
        copies: Path,
        ends: float,
        seed: int,
        make: MakeInstruments,
    ) -> None:
        self.project, self.task, self.reporter = project, task, reporter
        self._copies, self._ends = copies, ends
        self._logs = paths.state_dir() / "logs"
        self._job = unit_of(task.series.case)
        self.case, self._profile = carrier(project, task.series.case)
        self.journal = Journal(paths.state_dir() / FOLDER / f"{task.id}.jsonl")
        self._known: dict[str, deque[float | None]] = defaultdict(deque)
        for question, log in self.journal.lines:
            self._known[question].append(log)
        self._loop = Loop(make(self._logs), reporter, seed)
        self._texts: dict[Names, str] = {}
        self._pairs: dict[tuple[Names, Names], Pair] = {}
        self._packages = [
            stacks.parse(text, f"lock of {task.stack}", project.version)
            for text in (task.base, task.head)
        ]
        self.moves = differences(task.stack, self._packages[0], self._packages[1])
        self._pinned = frozenset(move.package for move in self.moves if move.base and move.head)
        self.row = tuple(sorted(self._pinned))
        self.row = self._loaded()
        self.seconds = START_SECONDS if self._job else sum(duet_seconds(self.case))

    def moved(self, moving: Names) -> Names:
        """Resolve and install a mixture: the packages of the row that moved in it.

        SetupError: There is none, or one of them has neither of its versions there.
        """
        text = self._text(moving)
        versions = stacks.parse(text, "mixture", self.project.version)
        before, after = self._packages
        if odd := [p for p in self.row if versions.get(p) not in {before[p], after[p]}]:
            raise SetupError(f"{odd[0]} would be {versions.get(odd[0], 'gone')}")
        stack = self.project.keep_lock(self.task.stack, text)
        python = self.project.interpreter(self.case.python)
        stacks.make_environment(stack, python, self.reporter)
        return frozenset(p for p in self.row if versions[p] == after[p])

    def duet(self, purpose: str, base: Names, head: Names) -> float | None:
        """Play a duet, or take it from an earlier, interrupted search."""
        question = " ".join((purpose, *sorted(base), "→", *sorted(head)))
        if self._known[question]:
            return self._known[question].popleft()
        left = self._ends - time.monotonic()
        if self.seconds > left:
            raise TimeIsUpError
        log = self._play(base, head, left)
        self.journal.add([question, log])
        return log

    def _play(self, base: Names, head: Names, left: float) -> float | None:
        if (base, head) not in self._pairs:
            sides = self._sides(base, head)
            before, after = (SideCase(self.case, side.testbed, self._job) for side in sides)
            self._pairs[base, head] = Pair(before, after)
        pair = self._pairs[base, head]
        if self._job:
            (counts,) = counted.instructions([pair.sides], COUNT_LIMIT)
            if isinstance(counts, str):
                raise SetupError(counts)
            return math.log(counts.head / counts.base)
        self._loop.launch([[pair]], lambda _, duet: pair.duets.add(duet), left)
        if reason := pair.duets.void:
            raise SetupError(reason)
        if not pair.duets.all[-1].usable:
            return None
        return float(pair.duets.logs(self.task.series.metric)[-1])

    def _text(self, moving: Names) -> str:
        """The lock of a mixture: base's and head's own for none and all of the row."""
        if not moving or moving.issuperset(self.row):
            return self.task.head if moving else self.task.base
        if moving not in self._texts:
            stack, names = self.task.stack, ", ".join(sorted(moving))
            with self.reporter.step(f"stack {stack}", f"with {names} moved") as tick:
                pins = self._pins(moving)
                self._texts[moving] = self.project.resolve(
                    stack, None, tick, keep=self.task.base, pins=pins
                )
        return self._texts[moving]

    def _pins(self, moving: Names) -> list[str]:
        """Later versions of what is wanted; all else keeps its version, or moves up to the later.

        A package with several versions, one per platform, cannot be pinned to one of them.
        """
        before, after = self._packages
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
            elif name in self._pinned:
                low, high = sorted((low, high), key=Version)
                pins.append(f"{name}>={low},<={high}")
            else:
                pins.append(f"{name}=={low}")
        return pins

    def _sides(self, base: Names, head: Names) -> tuple[Side, Side]:
        def state(moved: Names) -> tuple[str, str]:
            name = f"{self.task.stack} with {', '.join(sorted(moved)) or 'nothing'} moved"
            return name, self._text(moved)

        only = (glob.escape(self.case.id),)
        scope = Scope(self._profile, only, self._logs, self.reporter, self._copies)
        both = sides_.of_locks(self.project, self.task.stack, state(base), state(head), scope)
        return both.base, both.head

    def _loaded(self) -> tuple[str, ...]:
        """The packages, in order, that moved to another version and that the case may load."""
        sides = self._sides(frozenset(), self._pinned)
        readers = [Reader(side.root, side.testbed) for side in sides]
        moves = [move for move in self.moves if move.package in self._pinned]

        def among(loaded: Dependencies) -> tuple[str, ...]:
            diffs = {move.package: affected.Diff(packages=(move,)) for move in moves}
            return tuple(
                name for name, diff in diffs.items() if affected.reason_for(self.case, diff, loaded)
            )

        read = [reader.read(self.case) for reader in readers]
        loaded = read[0] | read[1]
        if len(among(loaded)) < len(moves):  # some code is loaded where it is installed
            seen = [reader.watch([self.case]) for reader in readers]
            loaded |= seen[0] | seen[1]
        return among(loaded)
