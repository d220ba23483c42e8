"""Mixtures of two states of a stack, resolved by uv, installed, and played against each other.

In a mixture some packages have their later versions, all others the earlier ones, or what the moved
ones need: at most the later version. What has really moved is read from the mixture's lock, and an
environment is installed from exactly that.

Each duet of a search is appended to a file as soon as it is over: the same search, begun again
after whatever ended it, takes its answers from there and goes on.
"""

import glob
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import Version

from duetbench.core.errors import SetupError
from duetbench.host import cache, paths
from duetbench.judge import affected, change_locks, counted
from duetbench.judge import sides as sides_
from duetbench.judge.counted import START_SECONDS, carrier, unit_of
from duetbench.judge.dependencies import Reader
from duetbench.judge.instruments import Real
from duetbench.judge.loop import Loop, Reporter, duet_seconds
from duetbench.judge.pairs import Pair, Side
from duetbench.judge.sides import Scope
from duetbench.measure.testbed import SideCase
from duetbench.project import stacks
from duetbench.project.project import Project
from duetbench.store.change import SeriesName
from duetbench.store.comparison import PackageChange
from duetbench.store.files import Journal
from duetbench.trend.bisect.cause import Names
from duetbench.trend.bisect.decision import TimeIsUpError

FOLDER: Final = "searches"
"""Folder of searches under way, below the state folder."""


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


def moves(project: Project, task: SearchTask) -> tuple[PackageChange, ...]:
    """Packages whose versions differ between both locks, by name."""
    before, after = (
        stacks.parse(text, f"lock of {task.stack}", project.version)
        for text in (task.base, task.head)
    )
    return tuple(
        PackageChange(stack=task.stack, package=move.package, base=move.before, head=move.after)
        for move in stacks.moves(before, after)
    )


COUNT_LIMIT: Final = 300.0
"""Seconds after which a count of both sides has failed."""


class Mixtures:
    """Plays mixtures of the stacks of a change, until `clock` says `ends`."""

    def __init__(
        self,
        project: Project,
        task: SearchTask,
        reporter: Reporter,
        copies: Path,
        ends: float,
        seed: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.project, self.task, self.reporter = project, task, reporter
        self._copies, self._ends, self._clock = copies, ends, clock
        self._logs = paths.state_dir() / "logs"
        self._job = unit_of(task.series.case)
        self.case, self._profile = carrier(project, task.series.case)
        self.journal = Journal(paths.state_dir() / FOLDER / f"{task.id}.jsonl")
        self._logs_of: dict[str, list[float | None]] = defaultdict(list)
        for question, log in self.journal.lines:
            self._logs_of[question].append(log)
        self._asked: Counter[str] = Counter()
        self._loop = Loop(Real(self._logs), reporter, seed, clock)
        self._texts: dict[Names, str] = {}
        self._pairs: dict[tuple[Names, Names], Pair] = {}
        self._packages = [
            stacks.parse(text, f"lock of {task.stack}", project.version)
            for text in (task.base, task.head)
        ]
        before, after = self._packages
        common = before.keys() & after.keys()
        self._pinned = frozenset(name for name in common if before[name] != after[name])
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
        stack = change_locks.kept(self.project, self.task.stack, text)
        python = self.project.interpreter(self.case.python)
        stacks.make_environment(stack, python, self.reporter)
        return frozenset(p for p in self.row if versions[p] == after[p])

    def duet(self, purpose: str, base: Names, head: Names) -> float | None:
        """Play a duet, or take it from an earlier, interrupted search."""
        question = " ".join((purpose, *sorted(base), "→", *sorted(head)))
        logs, place = self._logs_of[question], self._asked[question]
        self._asked[question] += 1
        if place == len(logs):
            left = self._ends - self._clock()
            if self.seconds > left:
                raise TimeIsUpError
            logs.append(self._play(base, head, left))
            self.journal.add([question, logs[-1]])
        return logs[place]

    def _play(self, base: Names, head: Names, left: float) -> float | None:
        if (base, head) not in self._pairs:
            self._pairs[base, head] = self._pair(*self._sides(base, head))
        pair = self._pairs[base, head]
        if self._job:
            return _counted(pair.sides)
        self._loop.launch([pair], lambda _, duet: pair.duets.add(duet), left)
        if reason := pair.duets.void():
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
        read = [Reader(side.root, side.testbed).read(self.case) for side in sides]
        loaded = read[0] | read[1]
        return tuple(
            move.package
            for move in moves(self.project, self.task)
            if move.package in self._pinned
            and affected.reason_for(self.case, affected.Diff(packages=(move,)), loaded)
        )

    def _pair(self, base: Side, head: Side) -> Pair:
        before, after = (SideCase(self.case, side.testbed, self._job) for side in (base, head))
        return Pair(before, after)


def _counted(sides: tuple[SideCase, SideCase]) -> float:
    """Count a job on both sides: the log ratio; SetupError: it cannot be counted."""
    (counts,) = counted.instructions([sides], COUNT_LIMIT)
    if isinstance(counts, str):
        raise SetupError(counts)
    return math.log(counts.head / counts.base)
