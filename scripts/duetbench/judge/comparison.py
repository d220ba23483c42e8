"""Compares as people ask for it: what differs, which cases can differ, and what that did to them.

`session` does the measuring, of sides that are prepared. Here they are prepared, and the change
between them decides what is worth measuring.
"""

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Final

from duetbench.core.errors import CountError, UsageError
from duetbench.core.metrics import Concern
from duetbench.core.model import Profile
from duetbench.host import paths
from duetbench.judge import (
    affected,
    counted,
    coverage,
    deployment,
    effects,
    live,
    preparation,
    revisions,
    session,
)
from duetbench.judge.duet_loop import Reporter
from duetbench.judge.instruments import Real, Starts
from duetbench.judge.pairs import Pair, Sides
from duetbench.judge.preparation import Scope
from duetbench.judge.repetition import command
from duetbench.judge.session import Question, empty_comparison
from duetbench.measure.instructions import counting
from duetbench.project import configuration, setting
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.project import Project
from duetbench.project.setting import AS_DECLARED, SERVED, Setting
from duetbench.project.subject import Subject
from duetbench.project.target import STACK
from duetbench.store.comparison import COMPARISONS, Comparison

DEFAULT_SEED: Final = 1

IDLE: Final = (
    "Nothing to judge: nothing that changed runs, so there is nothing to measure "
    "(--all measures anyway)"
)
"""The answer where neither requests nor servers run what differs."""

_SHARE: Final = 1 / 8
"""Share of a budget that an answer of an idle server may take."""

_LEAST: Final = 5.0  # s that it may take of any budget


@dataclass(frozen=True, slots=True)
class Contrast:
    """How base and head differ, in one way.

    By default head is the files as they are, and base the revision where its branch left main.

    Attributes:
        revisions: Of the repository.
        days: Packages as of two days; None: as locked.
        pins: Packages in other versions, such as `granian==2.7.8`.
        lock: Two lock files: FILE, or FILE@REV as of a revision.
        pythons: Two interpreters. Those of a target are in its key.
        settings: How the application is served.
    """

    revisions: tuple[str | None, str | None] = (None, None)
    days: tuple[date | None, date | None] | None = None
    pins: tuple[Sequence[str], Sequence[str]] = ((), ())
    lock: tuple[str, str] | None = None
    pythons: tuple[str, str] | None = None
    settings: tuple[Setting, Setting] = (AS_DECLARED, AS_DECLARED)

    def prepare(self, project: Project, scope: Scope) -> Sides:
        """Prepare both sides; raises as `preparation`, and UsageError for several differences."""
        kinds = {
            "BASE": self.revisions[0], "--stack-as-of": self.days, "--with": any(self.pins),
            "--lock": self.lock, "--python": self.pythons,
            " and ".join(setting.options(*self.settings)): any(self.settings),
        }  # fmt: skip
        chosen = [name for name, value in kinds.items() if value]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} were given: choose one kind of comparison")
        subject: Subject = project
        if project.target is not None and chosen and not self.revisions[0]:
            subject = self._deploy(project, scope)
        if self.days is not None:
            return preparation.of_dates(subject, *self.days, scope)
        if any(self.pins):
            return preparation.of_packages(subject, *self.pins, scope)
        if self.lock is not None:
            return self._of_locks(project, subject, *self.lock, scope)
        if any(self.settings):
            return preparation.of_settings(subject, *self.settings, scope)
        if self.pythons is not None:
            if isinstance(subject, DeployedTarget):
                # It names its interpreters by the versions that were found.
                both = tuple(subject.interpreters)
            else:
                both, subject = self.pythons, replace(project, extra_pythons=self.pythons)
            if len(both) != 2:
                raise UsageError(
                    f"--python: expected two different interpreters, found {both[0]} twice"
                )
            return preparation.of_interpreters(subject, *both, scope)
        return preparation.of_revisions(project, *self.revisions, scope)

    def _deploy(self, project: Project, scope: Scope) -> DeployedTarget:
        """Copy a project whose target both sides share."""
        base_lock, lock = self.lock or (None, None)
        ways = self.settings if any(self.settings) else self.settings[:1]
        pins = list(self.pins[1] or self.pins[0])
        return deployment.working(
            project, scope.narrator, scope.copies, lock, pins, ways, base_lock
        )

    @staticmethod
    def _of_locks(project: Project, subject: Subject, base: str, head: str, scope: Scope) -> Sides:
        if isinstance(subject, DeployedTarget):
            narrator, copies, stack = scope.narrator, scope.copies, STACK
            earlier = deployment.other_text(project, subject, narrator, copies, lock=base)
            later = deployment.text_of(subject)
        else:
            stack = Path(head.rpartition("@")[0] or head).stem
            earlier, later = (revisions.lock_text(project.root, name) for name in (base, head))
        return preparation.of_locks(subject, stack, (base, earlier), (head, later), scope)


@dataclass(frozen=True, slots=True)
class Extent:
    """Which cases are compared, for how long, and what matters.

    Attributes:
        select: Globs over the ids of cases; none: all.
        seconds: Time budget; None: until all is decided.
        everything: Cases that the change cannot affect, too.
        start: Compare how servers start, without load.
        counts_only: Count instructions, and load no server.
        effects_only: Observe what a request does, and neither count nor load.
        rough: Count in half the time, with more scatter.
        material: Smallest sizes that somebody acts on, instead of the repository's.
        seed: Of the order of the duets.
    """

    select: tuple[str, ...] = ()
    profile: Profile = "quick"
    seconds: float | None = None
    everything: bool = False
    start: bool = False
    counts_only: bool = False
    effects_only: bool = False
    rough: bool = False
    material: Mapping[Concern, float] = field(default_factory=dict)
    seed: int = DEFAULT_SEED

    def require_sense(self, contrast: Contrast) -> None:
        """Refuse what contradicts itself; raises UsageError, or CountError without Valgrind."""
        if self.start and self.counts_only:
            raise UsageError("--start and --counts-only were given: choose one")
        if self.counts_only:
            require_code("--counts-only", contrast)
            if lacking := counting.missing():
                raise CountError(lacking)


def require_code(option: str, contrast: Contrast) -> None:
    """Refuse an option about the code if both sides execute the same; raises UsageError."""
    if any(contrast.settings) and setting.crossing(*contrast.settings) <= SERVED:
        raise UsageError(f"{option}: both sides execute the same for a request: leave it out")


def compare(
    project: Project,
    contrast: Contrast,
    extent: Extent,
    reporter: Reporter,
    *,
    words: Sequence[str] | None = None,
    notes: tuple[str, ...] = (),
    first: effects.Early = lambda _case, _effects: None,
    announce: Callable[[Question], object] = id,
    then: Callable[[Comparison, Sides], object] = lambda _comparison, _sides: None,
) -> Comparison:
    """Compare on this machine, which nothing else may use meanwhile; save the result.

    `words` are the options of a command that repeats it, and `notes` say what they lack. `first`
    gets what requests do differently at first sight. `announce` is called when the sides are
    prepared, and `then` while they still exist.

    Raises:
        InterruptedComparison: It was interrupted; the partial result is saved.
        DuetbenchError: As `Contrast.prepare` and `session.compare`.
    """
    extent.require_sense(contrast)
    with revisions.copies() as copies:
        logs = paths.state_dir() / "logs"
        patience = math.inf if extent.seconds is None else max(_LEAST, _SHARE * extent.seconds)
        scope = Scope(extent.profile, extent.select, logs, reporter, copies, patience=patience)
        both = contrast.prepare(project, scope)
        reproduce = command(both.base.record, both.head.record, words or ()) if words else None
        question = replace(
            _question(project, both, extent, reporter, first),
            reproduce=(reproduce,) if reproduce else (),
            notes=notes if reproduce else (),
        )
        announce(question)
        if question.sides.empty_reason:
            comparison = empty_comparison(question)
        else:
            instruments = (Starts if extent.start else Real)(
                logs, rough=extent.rough, apart=question.seen.apart
            )
            place = paths.project_state(project.root) / COMPARISONS
            comparison = session.compare(question, reporter, instruments, place)
        then(comparison, both)
    return comparison


def starting(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Choose the first case of each server, to compare starts."""
    first: dict[Hashable, Pair] = {}
    for start in (replace(pair, start=True) for pair in pairs):
        first.setdefault(start.server, start)
    return tuple(first.values())


def _question(
    project: Project, both: Sides, extent: Extent, reporter: Reporter, first: effects.Early
) -> Question:
    """Choose what can differ, and find how much of the change the requests enter."""
    began, diff = time.monotonic(), affected.difference(both)
    touched = affected.find(both, diff, everything=extent.everything)
    declared = configuration.load(project.root)
    material = {**declared.material, **extent.material}
    if extent.start:
        pairs = starting(touched.pairs)
        imported = () if touched.cross else live.imports(pairs)
        touched = replace(touched, pairs=pairs, notes=(*touched.notes, *imported))
        return Question(touched, (), extent.seconds, extent.seed, material, start=True)
    with reporter.when_long("what one request does: still observed"):
        seen = effects.observe(touched.pairs, first, budget=extent.seconds)
    if extent.effects_only:
        return Question(touched, seen=seen, effects_only=True)
    executed = (pair.sides for pair in touched.pairs if not pair.executes_alike)
    jobs = counted.jobs(executed, both.head.subject.units)
    same = not jobs and all(found.same for found in seen.effects.values())
    covered = coverage.find(touched, diff, seen.entered, everything=extent.everything or not same)
    if covered and covered.idle:
        untouched = touched.untouched + len(touched.pairs)
        touched = replace(touched, pairs=(), untouched=untouched, empty_reason=IDLE)
        return Question(touched, coverage=covered)
    return Question(
        touched,
        jobs,
        extent.seconds,
        extent.seed,
        material,
        counts_only=extent.counts_only,
        limits=declared.limits,
        coverage=covered,
        seen=seen,
        spent=time.monotonic() - began,
    )
