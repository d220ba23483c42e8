"""What base and head are: revisions, stacks or interpreters, each ready to be measured.

- Two revisions: each with its own applications, locks and interpreters. What is measured of them
  (`pairs`) is head's business.
- Two stacks of one checkout: as locked, as of a date, or with some packages in other versions.
- Two interpreters of one checkout: no change, but a choice; said so wherever it is shown.

A target (an application that is declared by options or few keys) is declared by copies: revisions
get it when they are laid out, and for all else `root` is such a copy (see `targets`).

Each side has a copy of the files for itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from duetbench.core.errors import DeclarationError, SetupError, UsageError
from duetbench.core.model import Case, Profile
from duetbench.host import paths
from duetbench.host.progress import Narrator
from duetbench.judge import revisions, targets
from duetbench.judge.pairs import Borrower, Lender, declares, paired
from duetbench.judge.revisions import Revision
from duetbench.judge.targets import Told
from duetbench.measure import runner
from duetbench.measure.testbed import Rig, equip
from duetbench.project import cpython, interpreters, oha, settings, stacks
from duetbench.project import run_plan as planning
from duetbench.project.experiments import Experiment, expand_all, load_experiments, registered
from duetbench.project.settings import Settings
from duetbench.project.stacks import Stack
from duetbench.project.target import is_laid_out
from duetbench.store.comparison import Missing, SideRecord
from duetbench.store.reproduce import AS_OF, LOCKED


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head, ready to be measured."""

    record: SideRecord
    rig: Rig  # for the cases that both sides have
    cases: tuple[Case, ...]
    root: Path  # the copy that its applications (and benchmarks) are read from
    tree: str | None = None  # the git tree of `root`; None: it is no revision's
    lent: frozenset[str] = frozenset()  # files in `root` that are not its own; see `pairs`
    declared: bool = True  # whether it declares itself what is measured of it


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides; `repository` is the checkout around us, `cross`: they are two interpreters."""

    base: Side
    head: Side
    repository: Path
    cross: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Which cases are to be compared (`select`: globs, none: all), and how they are prepared.

    Attributes:
        copies: `revisions.copies`, to outlive the sides.
        told: A target, if it is one.
        loaded: Servers will be loaded, for which a load generator is needed.
    """

    profile: Profile
    select: tuple[str, ...]
    logs: Path
    narrator: Narrator
    copies: Path
    told: Told | None = None
    loaded: bool = True

    @property
    def private(self) -> Mapping[str, str]:
        return self.told.private if self.told else {}


@dataclass(frozen=True, slots=True)
class _Part:
    """One side before anything is made for it."""

    record: SideRecord
    root: Path
    cases: tuple[Case, ...]
    lock: Callable[[str], Stack]
    settings: Callable[[str], Settings]
    tree: str | None = None
    borrower: Borrower | None = None


def of_revisions(root: Path, base: str | None, head: str | None, scope: Scope) -> Sides:
    """Prepare two revisions; None: where head left the main branch, and the files as they are.

    Raises:
        UsageError: No git repository, no such revision, or one that cannot be read.
        SetupError: An interpreter or environment cannot be made.
    """
    if (top := revisions.top(root)) not in (None, root.resolve()):
        raise UsageError(
            f"{root} is a folder of the repository {top}, and revisions are compared of whole "
            "ones: change there, or compare packages or interpreters (--with, --lock, --python)"
        )
    if not revisions.is_repository(root):
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: compare stacks or "
            "interpreters instead (--stack-as-of, --with, --python)"
        )
    later = revisions.working(root) if head is None else revisions.resolve(root, head)
    earlier = (
        revisions.where_left_main(root, later) if base is None else revisions.resolve(root, base)
    )
    after = revisions.lay_out(root, later, scope.copies)
    before = revisions.lay_out(root, earlier, scope.copies)
    said: list[str] = []
    if scope.told is not None:
        said += targets.lay_out(after, scope.told, scope.narrator)
        scope.narrator.say(targets.describe(after))
        said += targets.lay_out(before, scope.told, scope.narrator, like=after)
    declaring, label = after, later.label
    if not declares(after):
        # Of before there were declarations: those of today say what to measure.
        declaring, label = revisions.copy(root, scope.copies), "the checkout"
        if not declares(declaring):
            raise paths.undeclared(root, f"not all of it, and as little in {later.label}")
    lender = Lender(label, declaring, _experiments(declaring, label))

    def part(revision: Revision, place: Path) -> _Part:
        own = Borrower(revision.label, place, lender)
        record = SideRecord(
            label=revision.label, kind="revision", commit=revision.commit, dirty=revision.dirty,
            stacks=(), interpreters=(),
        )  # fmt: skip
        cases = own.cases(scope.profile)
        return _Part(record, place, cases, own.lock, own.settings, revision.tree, own)

    parts = part(earlier, before), part(later, after)
    both = _prepared(*parts, scope, root)
    said += [note for one in parts if one.borrower for note in one.borrower.notes]
    return replace(both, notes=tuple(dict.fromkeys(said)))


def of_target(root: Path, cases: Sequence[Case], scope: Scope) -> Side:
    """Prepare cases of a copy that a target was laid out in, to be measured alone.

    Raises:
        SetupError: An interpreter or environment cannot be made.
        UsageError: Nobody gives a private variable that they want.
    """
    part = _here(root, "", lambda name: stacks.read(name, root), scope)
    return _side(part, tuple(cases), cases, scope)


def of_dates(root: Path, base: date | None, head: date | None, scope: Scope) -> Sides:
    """Prepare the stacks as of two dates; None: as they are locked. Errors as `of_revisions`."""

    def part(day: date | None) -> _Part:
        label = LOCKED if day is None else f"{AS_OF}{day}"
        return _here(
            root, label, lambda name: revisions.resolved(root, name, scope.narrator, day), scope
        )

    return _prepared(part(base), part(head), scope, root, notes=revisions.surroundings())


def of_packages(root: Path, base: Sequence[str], head: Sequence[str], scope: Scope) -> Sides:
    """Prepare the stacks with packages in other versions, such as `granian==2.7.8`, on either side.

    A side without any is as locked.

    Raises:
        UsageError: A requirement is none, or would change no stack.
        SetupError: uv finds no such set of packages, or it cannot be installed.
    """
    plain = _here(root, LOCKED, lambda name: stacks.read(name, root), scope)
    chosen, _ = _selected(plain, plain, scope, cross=False)
    names = sorted({case.stack for case in chosen})
    notes: list[str] = []

    def part(requirements: Sequence[str]) -> _Part:
        pins = [revisions.read_pin(text) for text in requirements]
        shares, kept = revisions.share_out(root, names, pins)
        notes.extend(kept)

        def lock(name: str) -> Stack:
            return revisions.resolved(root, name, scope.narrator, pins=shares[name])

        return _here(root, ", ".join(map(str, pins)) or LOCKED, lock, scope)

    parts = part(base), part(head)
    said = (*dict.fromkeys(notes), *revisions.surroundings())
    return _prepared(*parts, scope, root, notes=said)


def of_locks(
    root: Path, stack: str, base: tuple[str, str], head: tuple[str, str], scope: Scope
) -> Sides:
    """Prepare two states (label, text of the lock) of one stack; other stacks are as locked.

    Raises:
        SetupError: A lock cannot be installed.
    """

    def part(label: str, text: str) -> _Part:
        def lock(name: str) -> Stack:
            return revisions.kept(root, name, text) if name == stack else stacks.read(name, root)

        return _here(root, label, lock, scope)

    return _prepared(part(*base), part(*head), scope, root)


def of_interpreters(root: Path, base: str, head: str, scope: Scope) -> Sides:
    """Prepare one checkout on two interpreters.

    Raises:
        UsageError: They are the same, or one of them is not declared.
        SetupError: An interpreter or environment cannot be made.
    """
    declared = interpreters.declared(root)
    for name in (base, head):
        if name not in declared:
            raise UsageError(f"--python: no interpreter {name!r}; declared are {sorted(declared)}")
    if base == head:
        raise UsageError(f"--python: expected two different interpreters, found {base} twice")

    def part(name: str) -> _Part:
        return _here(root, name, lambda stack: stacks.read(stack, root), scope, python=name)

    return _prepared(part(base), part(head), scope, root, cross=True)


@dataclass(frozen=True, slots=True)
class Anchored:
    """A revision, ready to be measured, and what makes heads of it with other locks."""

    base: Side
    _part: _Part
    _scope: Scope
    made: list[Path] = field(default_factory=list)  # environments that were not there before

    def head(self, label: str, lock: Callable[[str], Stack]) -> tuple[Side, tuple[Missing, ...]]:
        """The same applications with another lock of each stack, which `lock` finds by its name.

        Cases whose stack cannot be resolved or installed are missing, with the reason.
        """
        reasons: dict[tuple[str, str], str] = {}
        locked: dict[str, Stack] = {}
        pairs = sorted({(case.stack, case.python) for case in self.base.cases})
        for name, python in pairs:
            try:
                if name not in locked:
                    locked[name] = lock(name)
                interpreter = self.base.rig.interpreters[python]
                if stacks.make_environment(locked[name], interpreter, self._scope.narrator):
                    self.made.append(stacks.place(locked[name], interpreter))
            except SetupError as error:
                reasons[name, python] = str(error)
        cases = [case for case in self.base.cases if (case.stack, case.python) not in reasons]
        record = self._part.record.model_copy(update={"label": label, "kind": "stack"})
        part = replace(self._part, record=record, lock=locked.__getitem__)
        lost = tuple(
            Missing(case=case.id, reason=reasons[case.stack, case.python])
            for case in self.base.cases
            if (case.stack, case.python) in reasons
        )
        return _side(part, tuple(cases), cases, self._scope), lost


def of_anchor(root: Path, commit: str, scope: Scope) -> Anchored:
    """Prepare the revision that stacks of other times are held against.

    Raises:
        UsageError: There is no such revision, or it cannot be read.
        SetupError: An interpreter or environment cannot be made.
    """
    revision = revisions.resolve(root, commit)
    place = revisions.lay_out(root, revision, scope.copies)
    lender = Lender(revision.label, place, _experiments(place, revision.label))
    own = Borrower(revision.label, place, lender)
    record = SideRecord(
        label=revision.label, kind="revision", commit=revision.commit, stacks=(), interpreters=()
    )
    part = _Part(
        record, place, own.cases(scope.profile), own.lock, own.settings, revision.tree, own
    )
    cases, _ = _selected(part, part, scope, cross=False)
    return Anchored(_side(part, cases, cases, scope), part, scope)


def _here(
    root: Path, label: str, lock: Callable[[str], Stack], scope: Scope, python: str | None = None
) -> _Part:
    """The checkout around us, with stacks, or on an interpreter, of one's choice."""
    commit, dirty = runner.revision(scope.told.repository if scope.told else root)
    record = SideRecord(
        label=label, kind="interpreter" if python else "stack", commit=commit, dirty=dirty,
        stacks=(), interpreters=(),
    )  # fmt: skip
    cases = expand_all(_experiments(root, "the checkout"), scope.profile)
    cases = tuple(case for case in cases if python in {None, case.python})
    folder = revisions.copy(root, scope.copies)
    own = is_laid_out(root)  # whose interpreters need not be of one origin
    return _Part(
        record, folder, cases, lock,
        settings=lambda name: interpreters.alone(name, root) if own else settings.load(root),
    )  # fmt: skip


def _experiments(root: Path, whose: str) -> tuple[Experiment, ...]:
    try:
        return load_experiments(root, registered(root))
    except DeclarationError as error:
        raise UsageError(f"{whose} cannot be read by this duetbench: {error}") from error


def _prepared(
    base: _Part,
    head: _Part,
    scope: Scope,
    root: Path,
    *,
    cross: bool = False,
    notes: tuple[str, ...] = (),
) -> Sides:
    """Make what both sides need for the cases that they have in common."""
    cases = _selected(base, head, scope, cross=cross)
    common, _ = paired(*cases, cross=cross)
    before = _side(base, cases[0], [pair.base for pair in common], scope)
    after = _side(head, cases[1], [pair.head for pair in common], scope)
    return Sides(before, after, root, cross, notes)


def _selected(
    base: _Part, head: _Part, scope: Scope, *, cross: bool
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The cases that globs select, by the id on either side."""
    if not scope.select:
        return base.cases, head.cases
    chosen: set[str] = set()
    names = [case.id for case in (*base.cases, *head.cases)]
    for glob in scope.select:
        found = {name for name in names if fnmatchcase(name, glob)}
        if not found:
            label = head.record.label
            # Says what may have been meant.
            planning.make_plan(scope.profile, [glob], None, 0, _experiments(head.root, label))
            raise UsageError(f"--select {glob!r} selects no case of {base.record.label} or {label}")
        chosen |= found
    for pair in paired(base.cases, head.cases, cross=cross)[0]:
        if chosen & {pair.base.id, pair.head.id}:
            chosen |= {pair.base.id, pair.head.id}
    before, after = (tuple(c for c in part.cases if c.id in chosen) for part in (base, head))
    return before, after


def _side(part: _Part, cases: tuple[Case, ...], needed: Sequence[Case], scope: Scope) -> Side:
    names = sorted({case.python for case in needed})
    if scope.loaded:
        oha.ensure(settings.load(), scope.narrator)
    try:
        found = {name: interpreters.locate(name, part.settings(name)) for name in names}
    except SetupError:  # they are not there yet
        for name in names:
            cpython.ensure(part.settings(name), scope.narrator)
        found = {name: interpreters.locate(name, part.settings(name)) for name in names}
    locked = {name: part.lock(name) for name in sorted({case.stack for case in needed})}
    for stack, python in sorted({(case.stack, case.python) for case in needed}):
        stacks.make_environment(locked[stack], found[python], scope.narrator)
    rig = equip(
        needed, scope.logs, apps=part.root / "apps", locked=locked, found=found,
        private=scope.private, imports=targets.imports(part.root), loaded=scope.loaded,
    )  # fmt: skip
    made = {
        "stacks": tuple(stack.record() for stack in locked.values()),
        "interpreters": tuple(interpreter.record() for interpreter in found.values()),
    }
    record, borrower = part.record.model_copy(update=made), part.borrower
    lent = frozenset(borrower.files) if borrower else frozenset()
    declared = borrower is None or borrower.declared
    return Side(record, rig, cases, part.root, part.tree, lent, declared=declared)
