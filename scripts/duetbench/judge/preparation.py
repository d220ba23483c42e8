"""Prepares base and head: revisions, stacks, interpreters or settings, each ready to be measured.

- Two revisions: each has its own applications, locks and interpreters. Head's declarations say what
  is measured of both (see `lending`).
- Two stacks of one checkout: as locked, as of a date, or with some packages in other versions.
- Two interpreters or two settings of one checkout, such as two servers: not a change but a choice;
  all reports say so.

A target (an application that options or a few keys declare) is prepared in copies. Here these are
copies of two revisions; in all other comparisons the project is such a copy (see `deployment`).

Each side has its own copy of the files.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.model import Case, Missing, Profile
from duetbench.host import paths
from duetbench.host.console import Narrator
from duetbench.judge import change_locks, deployment, revisions
from duetbench.judge.lending import Borrower, declares, lend_experiments, lend_module
from duetbench.judge.matching import match_cases
from duetbench.judge.pairs import Pair, Side, Sides
from duetbench.judge.revisions import Revision
from duetbench.measure import assembly, runner
from duetbench.measure.testbed import SideCase
from duetbench.project import interpreters, locks, setting, stacks, tools
from duetbench.project import plan as planning
from duetbench.project.anchor import Anchor
from duetbench.project.configuration import Configuration, Interpreter
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.setting import AS_DECLARED, Setting
from duetbench.project.stacks import Stack
from duetbench.project.subject import Subject
from duetbench.store.comparison import AS_OF, LOCKED, SideRecord


@dataclass(frozen=True, slots=True)
class Scope:
    """Which cases to compare (`select`: globs, or none for all), and how to prepare them.

    Attributes:
        copies: The folder from `revisions.copies`, which must outlive the sides.
        loaded: Whether servers will be loaded, which needs a load generator.
        patience: Most seconds for an answer of an idle server.
    """

    profile: Profile
    select: tuple[str, ...]
    logs: Path
    narrator: Narrator
    copies: Path
    loaded: bool = True
    patience: float = math.inf


@dataclass(frozen=True, slots=True)
class _Part:
    """One side before anything is prepared for it."""

    record: SideRecord
    subject: Subject
    cases: tuple[Case, ...]
    lock: Callable[[str], Stack]
    configuration: Callable[[str], Configuration]
    tree: str | None = None
    source: Borrower | None = None


def of_revisions(project: Project, base: str | None, head: str | None, scope: Scope) -> Sides:
    """Prepare two revisions. None: base where head left the main branch, head as the files are now.

    Raises:
        UsageError: There is no git repository or no such revision, or one cannot be read.
        SetupError: An interpreter or environment cannot be made.
    """
    root = project.root
    if not revisions.is_repository(root):
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: compare stacks or "
            "interpreters instead (--stack-as-of, --with, --python, --server)"
        )
    later = revisions.working(root) if head is None else revisions.resolve(root, head)
    earlier = (
        revisions.where_left_main(root, later) if base is None else revisions.resolve(root, base)
    )
    after, before = (revisions.lay_out(root, state, scope.copies) for state in (later, earlier))
    if project.target is not None:
        return _of_targets(project, (earlier, before), (later, after), scope)
    declaring, label = Project(after), later.label
    if not declares(after):
        # Head is older than the declarations: those of today say what to measure.
        declaring, label = Project(revisions.copy(root, scope.copies)), "the checkout"
        if not declares(declaring.root):
            raise paths.undeclared(root, f"its declarations and {later.label}'s are incomplete")
    _require_readable(declaring, label)

    def part(revision: Revision, place: Path) -> _Part:
        own = Borrower(revision.label, Project(place), declaring, label)
        cases = own.cases(scope.profile)
        return _Part(
            _record(revision), own.project, cases, own.lock, own.configuration, revision.tree, own
        )

    parts = part(earlier, before), part(later, after)
    both = _prepare(*parts, scope, project)
    notes = [note for part in parts if part.source for note in part.source.notes]
    return replace(both, notes=tuple(dict.fromkeys(notes)))


def _of_targets(
    project: Project, base: tuple[Revision, Path], head: tuple[Revision, Path], scope: Scope
) -> Sides:
    """Prepare a target in copies of two revisions."""
    lent, remarks = _lend_app(project, base, head, scope)
    assert project.target is not None  # noqa: S101 - the caller asks before
    lock = deployment.lock_in(base[1], project.target)
    after, of_head = deployment.deploy(project, head[1], scope.narrator, beside=lock)
    scope.narrator.say(deployment.describe(after))
    before, of_base = deployment.deploy(project, base[1], scope.narrator, like=after)
    parts = _itself(base[0], before, scope), _itself(head[0], after, scope)
    notes = tuple(dict.fromkeys((*remarks, *of_head, *of_base)))
    both = _prepare(*parts, scope, project, notes=notes)
    old, new = (replace(s, lent=lent, declared=not lent) for s in (both.base, both.head))
    return replace(both, base=old, head=new)


def _lend_app(
    project: Project, base: tuple[Revision, Path], head: tuple[Revision, Path], scope: Scope
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Lend the module that `--app` names to a side without it; return the files and notes on them.

    Raises UsageError if a side has the module under another name, as it is then not new.
    """
    assert project.target is not None  # noqa: S101 - the caller asks before
    module = project.target.app.partition(":")[0]
    checkout = revisions.copy(project.root, scope.copies)
    files: dict[str, None] = {}
    notes = []
    for (revision, place), (other, source) in ((base, head), (head, base)):
        sources = [(other.label, source), ("the checkout", checkout)]
        for whose, whence in sources[bool(files) :]:  # the other side may have borrowed it
            if lent := lend_module(module, place, whence):
                old = revisions.list_renames(project.root, revision.tree, other.tree)
                name = (revisions.within(project.root) / lent[0]).as_posix()
                if name in old:
                    raise UsageError(
                        f"--app {project.target.app}: {revision.label} has {old[name]} in place "
                        f"of {name}: compare revisions in which it has the same name"
                    )
                files |= dict.fromkeys(lent)
                some = " and ".join(lent)
                notes.append(f"{revision.label} has no module {module}: lent {whose}'s {some}")
                break
    return frozenset(files), tuple(notes)


def _itself(revision: Revision, place: Subject, scope: Scope) -> _Part:
    """Describe a revision whose own declarations say how it is measured."""
    cases = place.cases(scope.profile)
    return _Part(
        _record(revision), place, cases, place.lock, place.configuration_for, revision.tree
    )


def _record(revision: Revision) -> SideRecord:
    return SideRecord(
        label=revision.label, kind="revision", commit=revision.commit, dirty=revision.dirty,
        stacks=(), interpreters=(),
    )  # fmt: skip


def of_dates(subject: Subject, base: date | None, head: date | None, scope: Scope) -> Sides:
    """Prepare the stacks as of two dates, or as locked for None. Raises like `of_revisions`."""

    def part(day: date | None) -> _Part:
        label = LOCKED if day is None else f"{AS_OF}{day}"

        def lock(name: str) -> Stack:
            return locks.resolve_stack(subject, name, scope.narrator, day)

        return _here(subject, label, lock, scope)

    return _prepare(part(base), part(head), scope, subject)


def of_packages(subject: Subject, base: Sequence[str], head: Sequence[str], scope: Scope) -> Sides:
    """Prepare the stacks with other versions of packages, such as `granian==2.7.8`, on each side.

    A side without requirements stays as locked.

    Raises:
        UsageError: A requirement is malformed, or would change no stack.
        SetupError: uv finds no such set of packages, or it cannot be installed.
    """
    plain = _here(subject, LOCKED, subject.lock, scope)
    chosen, _ = _select(plain, plain, scope)
    names = sorted({case.stack for case in chosen})
    notes: list[str] = []

    def part(requirements: Sequence[str]) -> _Part:
        pins = [stacks.read_pin(text) for text in requirements]
        shares, remarks = change_locks.share_out(subject, names, pins)
        notes.extend(remarks)

        def lock(name: str) -> Stack:
            return locks.resolve_stack(subject, name, scope.narrator, pins=shares[name])

        return _here(subject, ", ".join(map(str, pins)) or LOCKED, lock, scope)

    parts = part(base), part(head)
    return _prepare(*parts, scope, subject, notes=tuple(dict.fromkeys(notes)))


def of_locks(
    subject: Subject, stack: str, base: tuple[str, str], head: tuple[str, str], scope: Scope
) -> Sides:
    """Prepare two states (label, text of the lock) of one stack; other stacks stay as locked.

    Raises:
        SetupError: A lock cannot be installed.
    """

    def part(label: str, text: str) -> _Part:
        def lock(name: str) -> Stack:
            return locks.save(subject, name, text) if name == stack else subject.lock(name)

        return _here(subject, label, lock, scope)

    return _prepare(part(*base), part(*head), scope, subject)


def of_interpreters(subject: Subject, base: str, head: str, scope: Scope) -> Sides:
    """Prepare one checkout on two interpreters.

    Raises:
        UsageError: They are the same, or one of them is not declared.
        SetupError: An interpreter or environment cannot be made.
    """
    declared = subject.configuration.interpreters
    for name in (base, head):
        if name not in declared:
            raise UsageError(f"--python: no interpreter {name!r}; declared are {sorted(declared)}")
    if base == head:
        raise UsageError(f"--python: expected two different interpreters, found {base} twice")

    def part(name: str) -> _Part:
        return _here(subject, name, subject.lock, scope, python=name)

    reason = f"Python {head} instead of {base}"
    return _prepare(part(base), part(head), scope, subject, {"python"}, reason)


def of_settings(subject: Subject, base: Setting, head: Setting, scope: Scope) -> Sides:
    """Prepare one checkout under two settings.

    Raises:
        UsageError: No case can be served like this, or only with a package that its lock lacks.
        SetupError: An interpreter or environment cannot be made.
    """
    sides = []
    for own, other in ((base, head), (head, base)):
        part = _here(subject, "", subject.lock, scope, chosen=own)
        locked = {name: part.lock(name) for name in sorted({case.stack for case in part.cases})}
        lacking = [(case, _lacking(case, locked[case.stack])) for case in part.cases]
        cases = tuple(case for case, names in lacking if not names)
        if part.cases and not cases:
            case, names = lacking[0]
            raise UsageError(
                f"{own.label(other)}: the lock of stack {case.stack} has no {names}: add "
                f"it to the stack's group in apps/pyproject.toml, and call `observatory stack lock "
                f"{case.stack}`"
            )
        version = {locked[case.stack].packages[case.server] for case in cases}
        label = own.label(other, version.pop() if len(version) == 1 else "")
        record = part.record.model_copy(update={"label": label, "settings": own.record()})
        sides.append(replace(part, record=record, cases=cases))
    before, after = sides
    reason = f"{after.record.label} instead of {before.record.label}"
    both = _prepare(before, after, scope, subject, setting.crossing(base, head), reason)
    if not both.pairs:
        raise UsageError(f"{reason}: no selected case can be served both ways")
    return both


def _lacking(case: Case, stack: Stack) -> str:
    """List the packages that a case needs to be served and its stack lacks."""
    needs = {case.server, *SERVERS[case.server].loads(case)}
    return ", ".join(sorted(needs - stack.packages.keys()))


@dataclass(frozen=True, slots=True)
class Anchored:
    """A revision ready to be measured as base, which also prepares heads with other locks of it."""

    base: Side
    missing: tuple[Missing, ...]  # cases that cannot be served on this machine
    _part: _Part
    _scope: Scope
    _generator: Path
    notes: tuple[str, ...] = ()  # on what it uses of the checkout
    environments: list[Path] = field(default_factory=list)  # those that were not there before

    def head(self, label: str, lock: Callable[[str], Stack]) -> tuple[Side, tuple[Missing, ...]]:
        """Prepare the same applications with another lock of each stack, from `lock` by its name.

        If a stack cannot be resolved or installed, its cases are missing, with the reason.
        """
        reasons: dict[tuple[str, str], str] = {}
        locked: dict[str, Stack] = {}
        pairs = sorted({(case.stack, case.python) for case in self.base.cases})
        for name, python in pairs:
            try:
                if name not in locked:
                    locked[name] = lock(name)
                interpreter = self.base.testbed.interpreters[python]
                if stacks.make_environment(locked[name], interpreter, self._scope.narrator):
                    self.environments.append(stacks.place(locked[name], interpreter))
            except SetupError as error:
                reasons[name, python] = str(error)
        cases = [case for case in self.base.cases if (case.stack, case.python) not in reasons]
        record = self._part.record.model_copy(update={"label": label, "kind": "stack"})
        part = replace(self._part, record=record, lock=locked.__getitem__)
        lost = tuple(
            Missing(case=case.id, reason=reason)
            for case in self.base.cases
            if (reason := reasons.get((case.stack, case.python)))
        )
        side = _side(part, tuple(cases), cases, self._scope, self._generator)
        return side, (*self.missing, *lost)


def of_anchor(project: Project, anchor: Anchor, scope: Scope) -> Anchored:
    """Prepare the revision that stacks of other times are measured against.

    Raises:
        UsageError: There is no such revision, or it cannot be read.
        SetupError: An interpreter or environment cannot be made.
    """
    generator = _generator(project, scope)
    revision = revisions.resolve(project.root, anchor.commit)
    place = Project(revisions.lay_out(project.root, revision, scope.copies))
    _require_readable(place, revision.label)
    # Only packages will differ, so both sides may use a selected experiment of the checkout.
    state, known = revisions.working(project.root), {*anchor.stacks, *anchor.interpreters}
    lent: tuple[Case, ...] = ()
    if scope.select:
        checkout = Project(revisions.lay_out(project.root, state, scope.copies))
        lent = lend_experiments(checkout, place, scope.profile)
    lent = tuple(case for case in lent if {case.stack, case.python} <= known)
    part = _itself(revision, place, scope)
    part = replace(part, cases=(*part.cases, *lent))
    cases, _ = _select(part, part, scope)
    notes = tuple(
        f"the anchor has no experiment {name}: both sides use that of {state.label}, {state.commit}"
        for name in sorted({case.experiment for case in cases if case in lent})
    )
    lost = assembly.unattainable(cases, part.configuration, part.lock, scope.narrator)
    cases = tuple(case for case in cases if case.id not in lost)
    missing = tuple(Missing(case=case, reason=reason) for case, reason in lost.items())
    base = _side(part, cases, cases, scope, generator)
    return Anchored(base, missing, part, scope, generator, notes)


def _here(
    subject: Subject,
    label: str,
    lock: Callable[[str], Stack],
    scope: Scope,
    python: str | None = None,
    chosen: Setting | None = None,
) -> _Part:
    """Describe the checkout of the command, with the given stacks, interpreter or settings."""
    commit, dirty = runner.revision(subject.repository)
    record = SideRecord(
        label=label, kind="interpreter" if python else "stack" if chosen is None else "setting",
        commit=commit, dirty=dirty, stacks=(), interpreters=(),
    )  # fmt: skip
    if isinstance(subject, Project):
        _require_readable(subject, "the checkout")
    cases = subject.cases(scope.profile, chosen or AS_DECLARED)
    cases = tuple(case for case in cases if python in {None, case.python})
    within = subject.within if isinstance(subject, DeployedTarget) else None
    place = replace(subject, root=revisions.copy(subject.root, scope.copies, inside=within))
    return _Part(record, place, cases, lock, subject.configuration_for)


def _generator(subject: Subject, scope: Scope) -> Path:
    """Find the load generator, and install it first; a bare name if no server will be loaded."""
    if not scope.loaded:
        return Path("oha")
    tools.ensure_oha(subject.configuration.oha, scope.narrator)
    return tools.find_oha(subject.configuration.oha)


def _require_readable(project: Project, whose: str) -> None:
    try:
        _ = project.experiments
    except DeclarationError as error:
        raise UsageError(f"this duetbench cannot read {whose}: {error}") from error


def _prepare(
    base: _Part,
    head: _Part,
    scope: Scope,
    subject: Subject,
    crossing: Collection[str] = (),
    reason: str = "",
    *,
    notes: tuple[str, ...] = (),
) -> Sides:
    """Prepare what both sides need for the cases that they have in common.

    `crossing`: fields in which the sides differ on purpose; then all cases are judged.
    """
    generator = _generator(subject, scope)
    cases = _select(base, head, scope, crossing)
    common, missing = match_cases(*cases, crossing)
    if "python" not in crossing:
        lost: dict[str, str] = {}
        for part in (base, head):
            rest = [new for _, new in common if new.id not in lost]
            lost |= assembly.unattainable(rest, part.configuration, part.lock, scope.narrator)
        common = tuple(pair for pair in common if pair[1].id not in lost)
        missing += tuple(Missing(case=case, reason=reason) for case, reason in lost.items())
    before = _side(base, cases[0], [old for old, _ in common], scope, generator)
    after = _side(head, cases[1], [new for _, new in common], scope, generator)
    pairs = tuple(
        Pair(SideCase(old, before.testbed), SideCase(new, after.testbed), reason)
        for old, new in common
    )
    return Sides(before, after, subject.root, pairs, missing, bool(crossing), notes)


def _select(
    base: _Part, head: _Part, scope: Scope, crossing: Collection[str] = ()
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Select the cases whose id matches a glob on either side."""
    if not scope.select:
        return base.cases, head.cases
    chosen: set[str] = set()
    names = [case.id for case in (*base.cases, *head.cases)]
    for glob in scope.select:
        matching = {name for name in names if fnmatchcase(name, glob)}
        if not matching:
            label = head.record.label
            # Raises an error that suggests what may have been meant.
            planning.make_plan(head.subject.cases, scope.profile, [glob], None, 0)
            raise UsageError(f"--select {glob!r} selects no case of {base.record.label} or {label}")
        chosen |= matching
    for old, new in match_cases(base.cases, head.cases, crossing)[0]:
        if chosen & {old.id, new.id}:
            chosen |= {old.id, new.id}
    before, after = (tuple(c for c in part.cases if c.id in chosen) for part in (base, head))
    return before, after


def _side(
    part: _Part, cases: tuple[Case, ...], needed: Sequence[Case], scope: Scope, generator: Path
) -> Side:
    pythons = sorted({case.python for case in needed})

    def interpreter(name: str) -> Interpreter:
        settings = part.configuration(name).adding(pythons)
        try:
            return interpreters.locate(name, settings)
        except SetupError:  # it is not installed yet
            interpreters.ensure(settings, scope.narrator)
            return interpreters.locate(name, settings)

    subject, source = part.subject, part.source
    testbed = assembly.assemble(
        subject, needed, scope.logs, scope.narrator,
        generator=generator, lock=part.lock, interpreter=interpreter,
    )  # fmt: skip
    testbed = replace(testbed, patience=scope.patience)
    for python in testbed.interpreters.values():
        stacks.compile_code(subject.code, python)
    records = {
        "stacks": tuple(stack.record() for stack in testbed.stacks.values()),
        "interpreters": tuple(map(interpreters.record, testbed.interpreters.values())),
    }
    return Side(
        part.record.model_copy(update=records), testbed, cases, subject, part.tree,
        lent=frozenset(source.files) if source else frozenset(),
        declared=source is None or source.declared,
    )  # fmt: skip
