"""Measures stacks of other times against the anchor: as of dates, or with single releases.

Each stack is resolved, installed, and measured together with a few others, drawn at random. So
neither the time of the measurement nor the neighbours depend on the stack's date. If a stack cannot
be resolved, installed or started, the reason is recorded. An interrupted backfill is continued.

Servers of single releases can also be started without load. An import beside a second server takes
another time, and readers take a case's newest points. So a case gets only the kind of points, of
loads or of starts, that it has first in a folder of results. Labels tell them apart, and journals.
"""

import functools
import glob
import random
from calendar import monthrange
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from duetbench.app import locks, stacks
from duetbench.app.setting import Contrast
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.testbed import SideCase
from duetbench.core.change import Release
from duetbench.core.comparison import Comparison
from duetbench.core.errors import SetupError, UsageError
from duetbench.core.model import Case, LoadModel
from duetbench.host import cache, files, machine, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.host.files import Journal
from duetbench.host.machine import measuring
from duetbench.judge.comparison import compare
from duetbench.judge.duet_loop import MakeInstruments, Reporter
from duetbench.judge.pairs import Pair
from duetbench.judge.preparation import Scope
from duetbench.judge.session import Extent
from observatory.matrix.anchor import Anchor
from observatory.matrix.checkout import Checkout
from observatory.matrix.sides import Anchored, of_anchor, prepare
from observatory.store import kinds, packages
from observatory.store.points import STARTS, Points
from observatory.trend import anchored
from observatory.trend.anchored import Head, Precision
from observatory.trend.quotes import MEMORY, Quote, sides

AT_ONCE: Final = 3
"""Stacks that are installed at the same time: each takes at most 0.15 GB for an interpreter."""

"""That of the cases whose requests are observed: with the loads that trends have."""

STEPS: Final = {"day": 1, "week": 7}

Newest = Callable[[date, str | None], str | None]
"""Returns a package's newest release at the end of a day, of all or only below a version; None:
there is none."""


@dataclass(frozen=True, slots=True)
class PastStack:
    """A stack of another time: as of a date, or the anchor's with one release."""

    when: date
    release: Release | None = None
    start: bool = False  # whether its servers are started without load

    @property
    def label(self) -> str:
        if self.release is None:
            return f"as of {self.when}"
        return f"{self.release.package} {self.release.version}{STARTS if self.start else ''}"

    def resolve(self, subject: Subject, narrator: Narrator, name: str) -> Stack:
        """Resolve the lock of a stack; SetupError if uv cannot."""
        if self.release is None:
            return locks.resolve_stack(subject, name, narrator, self.when)
        pin = Requirement(f"{self.release.package}=={self.release.version}")
        if pin.name not in subject.lock(name).packages:
            raise SetupError(f"the stack {name} has no {pin.name}")
        return locks.resolve_stack(subject, name, narrator, pins=[pin])


def dates(first: date, last: date, every: str) -> tuple[date, ...]:
    """Return dates from first to last, `every` day, week or month; UsageError if there is none."""
    if last < first:
        raise UsageError(f"--from {first} --to {last}: expected the earlier date first")
    if every in STEPS:
        days = range(0, (last - first).days + 1, STEPS[every])
        return tuple(first + timedelta(number) for number in days)
    if every != "month":
        raise UsageError(f"--every {every!r}: expected day, week or month")
    moments = []
    for number in range((last.year - first.year) * 12 + last.month - first.month + 1):
        years, month = divmod(first.month - 1 + number, 12)
        year, month = first.year + years, month + 1
        # In a month without such a day, its last day.
        moments.append(date(year, month, min(first.day, monthrange(year, month)[1])))
    return tuple(moment for moment in moments if moment <= last)


def releases(package: str, first: date, last: date, newest: Newest) -> tuple[PastStack, ...]:
    """Return the releases of a package in a span of days, in their order.

    The newest at the beginning comes first. A release that was never the newest, such as one of an
    older branch, is left out.
    """
    at = functools.cache(lambda day: newest(day, None))

    def between(low: date, high: date) -> Iterator[date]:
        """Yield days with another newest release than the day before, after `low` to `high`."""
        if at(low) == at(high):
            return
        if (high - low).days == 1:
            yield high
            return
        middle = low + (high - low) // 2
        yield from between(low, middle)
        yield from between(middle, high)

    def released(day: date, before: str | None) -> Iterator[str]:
        """Yield releases after `before` up to a day, the newest first."""
        version = at(day)
        # After a release is yanked, an older one is the newest, but it is not new.
        while version is not None and (before is None or Version(version) > Version(before)):
            yield version
            version = newest(day, version) if day != first else None

    stacks: list[PastStack] = []
    before: str | None = None
    for day in (first, *between(first, last)):
        previous = before
        for version in reversed(list(released(day, before))):
            release = Release(package=package, version=version, previous=previous)
            stacks.append(PastStack(day, release))
            previous = version
        before = at(day) or before
    return tuple(stacks)


def newest(package: str, tick: Tick, day: date, below: str | None) -> str | None:
    """The newest release of a package, as `Newest`, from the index."""
    tick(f"as of {day}")
    asked = f"{package}<{below}" if below else package
    argv = ["--no-deps", "--exclude-newer", day.isoformat()]
    try:
        text = stacks.compile_lock(argv, asked, tick, lines=[asked])
    except SetupError as error:
        if "No solution found" in str(error):  # no release is old enough
            return None
        raise
    return stacks.versions(text).get(canonicalize_name(package))


@dataclass(frozen=True, slots=True)
class BackfillTask:
    """What all stacks of a backfill have in common."""

    project: Checkout
    anchor: Anchor
    results: Path
    scope: Scope
    precision: Precision
    seed: int
    make: MakeInstruments


def backfill(
    task: BackfillTask, stacks: Sequence[PastStack], reporter: Reporter
) -> Iterator[Points]:
    """Measure stacks of other times; yield the points of each as soon as they are saved.

    Raises:
        HistoryError: The anchor's commit cannot be fetched.
        SetupError: The anchor cannot be installed.
        RecordError: Points cannot be saved.
        InterruptedRun: What was measured is kept; the next call continues.
    """
    done: dict[str, set[str]] = {}
    starts, otherwise = any(stack.start for stack in stacks), set[str]()
    origin = (machine.fingerprint().id, task.anchor.name, "backfill")
    for file in kinds.read_all(Points, task.results):
        if (file.machine.id, file.anchor, file.origin) == origin:
            names = {case.case for case in file.cases}
            done.setdefault(file.label, set()).update(names)
            otherwise |= names if file.label.endswith(STARTS) is not starts else set()
    done = {stack.label: done.get(stack.label, set()) | otherwise for stack in stacks}
    order = list(stacks)
    random.Random(task.seed).shuffle(order)  # noqa: S311 - a repeatable order
    anchored.fetch(task.project.root, task.anchor)
    base = of_anchor(task.project, task.anchor, task.scope)
    anchored.verify(task.anchor, base.base)
    if left_out := sum(case.id in otherwise for case in base.base.cases):
        kind = "loads" if starts else "starts"
        reporter.note(f"left out: {left_out} cases with points of {kind}")
    with measuring():
        for start in range(0, len(order), AT_ONCE):
            yield from _batch(task, base, order[start : start + AT_ONCE], done, reporter)


def to_observe(
    quotes: Iterable[Quote], cases: Sequence[Case], known: Iterable[Comparison]
) -> Iterator[tuple[Quote, Case]]:
    """Yield each release that moved requests or starts by their limit, with the case to observe.

    It is the quoted case, or one of its interpreter and stack, of its endpoint first. What a known
    comparison has observed is left out. Pure.
    """
    seen = {
        (comparison.base.label, comparison.head.label, case.case.id)
        for comparison in known
        for case in comparison.cases
        if case.effects
    }
    for quote in quotes:
        if not quote.reaches_limit or quote.metric == MEMORY or quote.previous is None:
            continue
        alike = (case for case in cases if _served(case, quote.case))
        case = min(alike, key=functools.partial(_distance, quote.case), default=None)
        if case and (*sides(quote), case.id) not in seen:
            yield quote, case


def _served(case: Case, name: str) -> bool:
    """Whether a case has this name, or is served with what a benchmark in process ran with."""
    return case.id == name or name.endswith(f"/py{case.python}/{case.stack}")


def _distance(name: str, case: Case) -> tuple[bool, ...]:
    endpoint = f"endpoint={case.experiment}/{case.endpoint.name})"
    return case.id != name, endpoint not in name, case.load.model is not LoadModel.CLOSED


def observe(project: Checkout, quote: Quote, case: Case, reporter: Reporter) -> Comparison:
    """Compare what a request does before and after a release, without load; raises as `compare`."""
    base, head = sides(quote)
    contrast = Contrast(base=(base,), head=(head,))
    extent = Extent(select=(glob.escape(case.id),), only="effects")
    with measuring():
        return compare(project, contrast, extent, reporter, prepare=prepare)


def _batch(
    task: BackfillTask,
    base: Anchored,
    stacks: Sequence[PastStack],
    done: Mapping[str, set[str]],
    reporter: Reporter,
) -> Iterator[Points]:
    heads: dict[PastStack, Head] = {}
    try:
        for stack in stacks:
            head = _head(task, base, stack, done[stack.label], reporter)
            if head is not None:
                heads[stack] = head
        began = datetime.now(UTC)
        anchored.run_duets(
            list(heads.values()),
            task.make(),
            reporter,
            precision=task.precision,
            seed=task.seed,
        )
        for stack, head in heads.items():
            moment = datetime.combine(stack.when, time(23, 59, 59), UTC)
            points = anchored.points_of(task.anchor, head, "backfill", began, moment, stack.release)
            files.save(task.results, points)
            head.journal.forget()
            yield points
    finally:
        # Stacks of one batch may share an environment; after the batch none needs it.
        for place in base.environments:
            cache.remove(place)
        base.environments.clear()


def _head(
    task: BackfillTask, base: Anchored, stack: PastStack, done: Collection[str], reporter: Reporter
) -> Head | None:
    """Prepare a stack for its duets; None if all wanted points of it exist."""
    resolve = functools.partial(stack.resolve, base.base.subject, reporter)
    side, lost = base.head(stack.label, resolve)
    for program in side.testbed.pythons.values():
        packages.remember(task.results, packages.of_folder(program.parents[1]))
    pairs = [
        Pair(SideCase(case, base.base.testbed), SideCase(case, side.testbed), start=stack.start)
        for case in side.cases
        if case.id not in done
    ]
    if not pairs and not lost:
        return None
    place = paths.state_dir() / anchored.FOLDER / task.anchor.name
    journal = Journal(place / f"{stack.label.replace(' ', '-').replace('/', '_')}.jsonl")
    return Head(stack.label, side, journal, pairs, lost)
