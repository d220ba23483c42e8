"""Stacks of other times against the anchor: as of dates, or with single releases. Resumable.

Each stack is resolved anew, installed, and played together with a few others, drawn at random, so
that neither time nor neighbours say anything about its date. What cannot be resolved, installed or
started is recorded with the reason.
"""

import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from duetbench.core import __version__
from duetbench.core.errors import HistoryError, SetupError, UsageError
from duetbench.core.protocol import DUET_PROTOCOL
from duetbench.core.text import one_line
from duetbench.host import cache, command, git, machine, paths
from duetbench.host.machine_lock import measuring
from duetbench.host.progress import Narrator, Tick
from duetbench.judge import revisions
from duetbench.judge import sides as sides_
from duetbench.judge.instruments import Real, Reporter
from duetbench.judge.pairs import Pair, paired
from duetbench.judge.sides import Anchored, Scope, Side, Sides
from duetbench.project import locks, metadata
from duetbench.project.anchor import Anchor
from duetbench.project.project import Project
from duetbench.project.stacks import Stack
from duetbench.store import packages
from duetbench.store import points as record
from duetbench.store.change import Release
from duetbench.store.comparison import Missing
from duetbench.store.journal import Journal
from duetbench.store.points import Origin, Points
from duetbench.trend.anchored import Head, Play, Precision

FOLDER: Final = "backfill"
"""Where journals of what is under way are kept, below the state folder."""

AT_ONCE: Final = 3
"""Stacks that are installed at the same time, unless asked otherwise."""

REASON: Final = 1000
"""Characters of a reason for which a case has no point."""

STEPS: Final = {"day": 1, "week": 7}

Newest = Callable[[date, str | None], str | None]
"""Which release of a package is the newest at the end of a day, of all or of those below a version;
None: there is none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stack of another time: as of a date, or the anchor's with one release."""

    when: date
    release: Release | None = None

    @property
    def label(self) -> str:
        if self.release is None:
            return f"as of {self.when}"
        return f"{self.release.package} {self.release.version}"

    def lock(self, project: Project, narrator: Narrator) -> Callable[[str], Stack]:
        """What resolves it for a stack of a checkout; SetupError if uv cannot."""
        if self.release is None:
            return lambda name: revisions.resolved(project, name, narrator, self.when)
        pin = Requirement(f"{self.release.package}=={self.release.version}")

        def with_release(name: str) -> Stack:
            if pin.name not in project.lock(name).packages:
                raise SetupError(f"the stack {name} has no {pin.name}")
            return revisions.resolved(project, name, narrator, pins=[pin])

        return with_release


def dates(first: date, last: date, every: str) -> tuple[date, ...]:
    """Dates from the first to the last, `every` day, week, month, or so many days (`10d`).

    UsageError: there is none, or `every` is none of these.
    """
    if last < first:
        raise UsageError(f"--from {first} --to {last}: expected the earlier date first")
    found = [first]
    if every == "month":
        while True:
            month = first.month + len(found)
            year, month = first.year + (month - 1) // 12, (month - 1) % 12 + 1
            # Of a month that has no such day the last one.
            days = (date(year + month // 12, month % 12 + 1, 1) - date(year, month, 1)).days
            found.append(date(year, month, min(first.day, days)))
            if found[-1] > last:
                return tuple(found[:-1])
    step = STEPS.get(every) or (
        int(every[:-1]) if every[-1:] == "d" and every[:-1].isdigit() else 0
    )
    if step < 1:
        raise UsageError(f"--every {every!r}: expected day, week, month or days such as 10d")
    while found[-1] + timedelta(step) <= last:
        found.append(found[-1] + timedelta(step))
    return tuple(found)


def releases(package: str, first: date, last: date, newest: Newest) -> tuple[Wanted, ...]:
    """The releases of a package in a span of days, in their order.

    The one that was newest at the beginning comes first. What never was the newest, such as a
    release of an older branch, is none of them.
    """
    known: dict[date, str | None] = {}

    def at(day: date) -> str | None:
        if day not in known:
            known[day] = newest(day, None)
        return known[day]

    def between(low: date, high: date) -> Iterator[date]:
        """Days on which it is another than the day before, from after `low` to `high`."""
        if at(low) == at(high):
            return
        if (high - low).days == 1:
            yield high
            return
        middle = low + (high - low) // 2
        yield from between(low, middle)
        yield from between(middle, high)

    def came(day: date, before: str | None) -> Iterator[str]:
        """What came out after `before` up to a day, the newest first."""
        version = at(day)
        # A release that was taken back must not count as one that came out.
        while version is not None and (before is None or Version(version) > Version(before)):
            yield version
            version = newest(day, version) if day != first else None

    found: list[Wanted] = []
    before: str | None = None
    for day in (first, *between(first, last)):
        previous = before
        for version in reversed(list(came(day, before))):
            release = Release(package=package, version=version, previous=previous)
            found.append(Wanted(day, release))
            previous = version
        before = at(day) or before
    return tuple(found)


def newest_of(package: str, tick: Tick) -> Newest:
    """Asks uv."""

    def newest(day: date, below: str | None) -> str | None:
        tick(f"as of {day}")
        return locks.newest(f"{package}<{below}" if below else package, day, tick)

    return newest


@dataclass(frozen=True, slots=True)
class BackfillTask:
    """What is to be measured, and where it is kept."""

    project: Project
    anchor: Anchor
    results: Path
    scope: Scope
    precision: Precision
    seed: int
    at_once: int = AT_ONCE


def backfill(task: BackfillTask, wanted: Sequence[Wanted], reporter: Reporter) -> Iterator[Points]:
    """Measure stacks of other times: the points of each as soon as they are saved.

    Raises:
        HistoryError: The anchor's commit cannot be had.
        SetupError: The anchor cannot be installed.
        RecordError: Points cannot be saved.
        InterruptedRun: What was played is kept, and gone on with.
    """
    done: dict[str, set[str]] = {}
    for one in kept(task):
        done.setdefault(one.label, set()).update(case.case for case in one.cases)
    order = list(wanted)
    random.Random(task.seed).shuffle(order)  # noqa: S311 - an order that can be repeated
    fetch(task.project.root, task.anchor)
    base = sides_.of_anchor(task.project, task.anchor.commit, task.scope)
    verify(task.anchor, base.base)
    with measuring():
        for start in range(0, len(order), task.at_once):
            yield from _batch(task, base, order[start : start + task.at_once], done, reporter)


def present(root: Path, anchor: Anchor) -> bool:
    """Whether the anchor's commit is in this clone."""
    return git.ask_or_none(root, "cat-file", "-e", f"{anchor.commit}^{{commit}}") is not None


def fetch(root: Path, anchor: Anchor) -> None:
    """Fetch the anchor's commit if this clone is too shallow to have it; HistoryError if it fails.

    A commit that nobody has any more can be no anchor.
    """
    if present(root, anchor):
        return
    try:
        git.run(["-C", str(root), "fetch", "--quiet", "--no-tags", "--depth=1", "origin",
                 anchor.commit], {})  # fmt: skip
    except (git.GitError, git.HopelessError) as error:
        raise HistoryError(
            f"the anchor {anchor.name} is the commit {anchor.commit[:12]}, which is neither here "
            f"nor at origin ({error}): fetch the whole history (git fetch --unshallow), or declare "
            "another anchor: duetbench anchor renew NAME --anew"
        ) from error


def verify(anchor: Anchor, side: Side) -> None:
    """Hold what was installed against the anchor's declaration; SetupError if it is another."""
    if anchor.protocol != DUET_PROTOCOL:
        raise SetupError(
            f"the anchor {anchor.name} goes with version {anchor.protocol} of the duets' protocol, "
            f"and this duetbench plays version {DUET_PROTOCOL}: declare another anchor: "
            "duetbench anchor renew NAME --anew"
        )
    found = {stack.name: stack.digest for stack in side.record.stacks}
    wrong = [name for name, digest in found.items() if anchor.stacks.get(name) != digest]
    versions = {one.name: one.version for one in side.record.interpreters}
    wrong += [name for name, one in versions.items() if anchor.interpreters.get(name) != one]
    if wrong:
        raise SetupError(
            f"the anchor {anchor.name} cannot be had any more: at {anchor.commit[:8]} {wrong[0]} "
            "is not what it was; declare another one: duetbench anchor renew NAME --anew"
        )


def kept(task: BackfillTask) -> Iterator[Points]:
    """What was measured on this machine against this anchor, the oldest first."""
    here = machine.fingerprint().id
    for path in record.found(task.results):
        one = record.read(path)
        if (one.machine.id, one.anchor, one.origin) == (here, task.anchor.name, "backfill"):
            yield one


def _batch(
    task: BackfillTask,
    base: Anchored,
    wanted: Sequence[Wanted],
    done: Mapping[str, set[str]],
    reporter: Reporter,
) -> Iterator[Points]:
    heads: dict[Wanted, Head] = {}
    try:
        for one in wanted:
            made = _head(task, base, one, done.get(one.label, set()), reporter)
            if made is not None:
                heads[one] = made
        began = datetime.now(UTC)
        play(list(heads.values()), task.scope, reporter, task.precision, task.seed)
        for one, head in heads.items():
            moment = datetime.combine(one.when, time(23, 59, 59), UTC)
            points = described(task.anchor, head, "backfill", one.label, began, moment, one.release)
            record.save(task.results, points)
            head.journal.forget()
            yield points
    finally:
        # Others of the batch may need the same environment; when it is over nobody does.
        for place in base.made:
            cache.remove(place)
        base.made.clear()


def play(
    heads: Sequence[Head],
    scope: Scope,
    reporter: Reporter,
    precision: Precision,
    seed: int,
    limit: float | None = None,
) -> bool:
    """Play heads in at most so many seconds; whether all was done."""
    ends = math.inf if limit is None else monotonic() + limit
    playing = Play(heads, Real(scope.logs), reporter, precision=precision, seed=seed)
    return playing.run(ends)


def of_checkout(both: Sides) -> Head:
    """A checkout, ready to be held against its anchor, which is base; its journal begins anew."""
    pairs, lost = paired(both.base.cases, both.head.cases)
    journal = Journal(paths.state_dir() / FOLDER / "checkout.jsonl")
    journal.forget()
    label, notes = both.head.record.label, list(both.notes)
    return Head(label, both.base, both.head, journal, pairs, lost, notes=notes)


def _place(anchor: str, label: str) -> Path:
    name = label.replace(" ", "-").replace("/", "_")
    return paths.state_dir() / FOLDER / anchor / f"{name}.jsonl"


def _head(
    task: BackfillTask, base: Anchored, wanted: Wanted, done: Collection[str], reporter: Reporter
) -> Head | None:
    """A stack ready to be played; None if all that is wanted of it was."""
    side, lost = base.head(wanted.label, wanted.lock(base.base.project, reporter))
    for program in side.rig.pythons.values():
        packages.remember(task.results, metadata.of_environment(program))
    every = tuple(Pair(case, case, wanted.label) for case in side.cases)
    pairs = [pair for pair in every if pair.head.id not in done]
    if not pairs and not lost:
        return None
    journal = Journal(_place(task.anchor.name, wanted.label))
    return Head(wanted.label, base.base, side, journal, pairs, lost)


def described(
    anchor: Anchor,
    head: Head,
    origin: Origin,
    label: str,
    began: datetime,
    when: datetime,
    release: Release | None = None,
) -> Points:
    """The file of a head's points."""
    cases, lost = head.points()
    # Servers' and installers' last words are in the reasons, with folders of this machine.
    lost = tuple(
        Missing(case=one.case, reason=one_line(command.scrub(one.reason), REASON)) for one in lost
    )
    name = f"{began:%Y%m%dT%H%M%SZ}-{origin}-{cache.digest(anchor.name, label)[:6]}"
    side = head.side.record
    return Points(
        id=name, anchor=anchor.name, origin=origin, label=label, when=when, release=release,
        started=began, seconds=head.seconds, duetbench=__version__, commit=side.commit,
        machine=head.side.rig.machine, interpreters=side.interpreters, stacks=side.stacks,
        cases=cases, missing=lost, notes=tuple(head.notes),
    )  # fmt: skip
