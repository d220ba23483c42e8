"""Prepares base and head: two revisions, or one checkout with something else on either side.

- Two revisions: each has its own applications, declarations, locks and interpreters.
- Other packages: as of a date, of a lock, or with some in other versions.
- Two interpreters, or two ways to serve: not a change but a choice; all reports say so.

These may be combined, which reports say as well. A target (an application that options or a few
keys declare) is deployed in both copies (see `deployment`).

Each side has its own copy of the files.
"""

import math
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

from packaging.utils import canonicalize_name

from duetbench.core.errors import UsageError
from duetbench.core.model import Case, Missing
from duetbench.host.console import Narrator
from duetbench.judge import deployment, revisions
from duetbench.judge.matching import match_cases
from duetbench.judge.pairs import Pair, Side, Sides
from duetbench.measure import assembly, runner
from duetbench.measure.testbed import SideCase
from duetbench.project import interpreters, locks, stacks, tools
from duetbench.project import plan as planning
from duetbench.project.configuration import Interpreter
from duetbench.project.project import Project
from duetbench.project.servers import SERVERS
from duetbench.project.setting import LOCKED, Contrast, Setting, read_pin
from duetbench.project.stacks import Stack
from duetbench.project.subject import Subject
from duetbench.project.target_locks import module_files, source_folders
from duetbench.store.comparison import SideRecord


@dataclass(frozen=True, slots=True)
class Scope:
    """Which cases to compare (`select`: globs, or none for all), and how to prepare them.

    Attributes:
        copies: The folder from `revisions.copies`, which must outlive the sides.
        loaded: Whether servers will be loaded, which needs a load generator.
        patience: Most seconds for an answer of an idle server.
    """

    select: tuple[str, ...]
    logs: Path
    narrator: Narrator
    copies: Path
    loaded: bool = True
    patience: float = math.inf


@dataclass(frozen=True, slots=True)
class Part:
    """One side before anything is prepared for it."""

    record: SideRecord
    subject: Subject
    cases: tuple[Case, ...]
    lock: Callable[[str], Stack]
    interpreters: Callable[[Sequence[str]], Mapping[str, Interpreter]]  # by name
    tree: str | None = None
    lent: frozenset[str] = frozenset()  # files of a target's module that it borrows
    python: str = ""  # its interpreter, if the other side may have another one
    lacks: Callable[[Sequence[Case]], Mapping[str, str]] = lambda _cases: {}
    """Makes what some cases need; returns those that cannot be served here, with the reason."""


@dataclass(frozen=True, slots=True)
class State:
    """The files of one side: a copy of a revision, or of the checkout as it is."""

    place: Path
    record: SideRecord
    tree: str | None = None  # of git; None: it is no revision


def prepare(project: Project, contrast: Contrast, scope: Scope) -> Sides:
    """Prepare base and head of a repository with an application; raises as `join`."""
    return join(project.root, contrast, scope, partial(_parts, project, contrast, scope))


def join(
    root: Path,
    contrast: Contrast,
    scope: Scope,
    describe: Callable[[Sequence[State]], tuple[Sequence[Part], Sequence[str]]],
) -> Sides:
    """Prepare base and head of a repository, as `describe` says what is served of their files.

    It gets the files of both, and returns the sides and notes for people.

    Raises:
        UsageError: There is no such revision, lock, package or interpreter, no case can be served
            like this, or the sides are the same by their words.
        SetupError: An interpreter or environment cannot be made.
    """
    settings, crossing, kinds = contrast.settings, contrast.crossing, sorted(contrast.kinds)
    served = "setting" in kinds
    if crossing and settings[0] == settings[1] and not contrast.of_revisions:
        raise UsageError(f"base and head: expected two different sides, found {contrast.head[0]}")
    parts, told = describe(_states(root, contrast, scope))
    notes = [*told]
    if "python" in crossing and parts[0].python == parts[1].python:
        python = parts[0].python
        raise UsageError(f"python: expected two different interpreters, found {python} twice")
    chosen = select(parts[0], parts[1], scope, crossing)
    ready = []
    texts = contrast.base, contrast.head
    for own, other, part, cases, text in zip(
        settings, settings[::-1], parts, chosen, texts, strict=True
    ):
        packed = _with_packages(part, own, {case.stack for case in cases}, scope)
        packages = ", ".join(own.packages) or LOCKED * (kinds == ["stack"])
        words = [part.record.label, part.python * ("python" in crossing), packages]
        if served:
            way, able = _served(packed, own, other)
            words, packed = [*words, way], replace(packed, cases=able)
        update = {
            "label": ", ".join(filter(None, words)) or "as declared",
            "kind": kinds[0] if len(kinds) == 1 else "several",
            "words": tuple(text),
        }
        ready.append(replace(packed, record=part.record.model_copy(update=update)))
    before, after = ready
    reason = f"{after.record.label} instead of {before.record.label}" if crossing else ""
    if kinds == ["interpreter"]:
        reason = f"Python {reason}"
    if len(kinds) > 1:
        notes.append(f"{', '.join(kinds)}: these differ at once, and no finding tells them apart")
    both = pair_up(before, after, scope, root, crossing, reason, mixed=len(kinds) > 1)
    if served and not both.pairs:
        raise UsageError(f"{reason}: no selected case can be served both ways")
    return replace(both, notes=tuple(dict.fromkeys(notes)))


def _states(root: Path, contrast: Contrast, scope: Scope) -> list[State]:
    """Copy the files of both sides; raises UsageError if there is no such revision."""
    if not contrast.of_revisions:
        record = record_of("", *runner.revision(root))
        return [State(revisions.copy(root, scope.copies), record) for _ in range(2)]
    if not revisions.is_repository(root):
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: compare packages, "
            "interpreters or servers instead (--head PACKAGE==VERSION, --head python=3.14)"
        )
    base, head = contrast.revisions
    later = revisions.working(root) if head is None else revisions.resolve(root, head)
    earlier = (
        revisions.where_left_main(root, later) if base is None else revisions.resolve(root, base)
    )
    return [
        State(
            revisions.lay_out(root, state, scope.copies),
            record_of(state.label, state.commit, state.dirty),
            state.tree,
        )
        for state in (earlier, later)
    ]


def _parts(
    project: Project, contrast: Contrast, scope: Scope, states: Sequence[State]
) -> tuple[list[Part], list[str]]:
    """Prepare an application in its copies of both sides; also return notes for people."""
    base, head = settings = contrast.settings
    lent, notes = (
        _lend_app(project, states[0], states[1], scope)
        if contrast.of_revisions
        else (frozenset(), ())
    )
    if any(side.python for side in settings):
        usual = next(iter(project.target.python), None)
        pythons = tuple(side.python or usual for side in settings)
        target = project.target.model_copy(update={"python": pythons})
        project = replace(project, target=target)
    narrator, copies = scope.narrator, scope.copies
    # Head's comes last but one. What neither names is found as declared, with head's variables.
    named = "server" in base.values and "server" in head.values
    shared = {"server": head.values["server"]} if named else {}
    ways = (base, head, Setting(shared, head.env))
    from_lock = [
        deployment.lock_at(project.root, side.lock, copies) if side.lock else None
        for side in settings
    ]
    places = [state.place for state in states]
    deployment.add_uncommitted(project, places, narrator)
    environment = None
    if not any(side.lock or side.pins or side.day for side in settings):
        environment = deployment.environment_of(project, places, narrator)
    of_today = states[1].record
    day = revisions.day(project.root, of_today.commit, dirty=of_today.dirty)
    after, of_head = deployment.deploy(
        project, states[1].place, narrator, lock=from_lock[1], settings=ways,
        environment=environment, day=day,
    )  # fmt: skip
    for side in settings if "setting" in contrast.kinds else (head,):
        narrator.say(deployment.describe(after, side))
    before, of_base = deployment.deploy(
        project, states[0].place, narrator, like=after, lock=from_lock[0], settings=ways,
        environment=environment, day=day,
    )  # fmt: skip
    parts, names = [], tuple(after.interpreters)
    for state, place, side, python in zip(
        states, (before, after), settings, (names[0], names[-1]), strict=True
    ):
        cases = place.cases(side)
        cases = tuple(case for case in cases if case.python == python)
        parts.append(
            Part(
                state.record, place, cases, place.lock, place.find_interpreters, state.tree,
                lent=lent, python=python,
            )
        )  # fmt: skip
    return parts, [*notes, *of_head, *of_base]


def _with_packages(part: Part, setting: Setting, names: Collection[str], scope: Scope) -> Part:
    """Resolve the stacks of a side as of its day, with its pins.

    A pin applies to the stacks that have its package. Raises UsageError if none has, SetupError if
    there is no such set.
    """
    if setting.day is None and not setting.pins:
        return part
    pins = [read_pin(text) for text in setting.pins]
    held = {name: part.subject.lock(name).packages for name in names}
    for pin in pins:
        if not any(canonicalize_name(pin.name) in packages for packages in held.values()):
            some = ", ".join(sorted(names))
            raise UsageError(f"{pin} changes nothing: expected a package of the stacks {some}")

    @cache
    def lock(name: str) -> Stack:
        own = [pin for pin in pins if canonicalize_name(pin.name) in held.get(name, ())]
        return locks.resolve_stack(part.subject, name, scope.narrator, setting.day, own)

    return replace(part, lock=lock)


def _served(part: Part, own: Setting, other: Setting) -> tuple[str, tuple[Case, ...]]:
    """Say how a side is served, and return the cases whose lock has what that needs.

    Raises UsageError if no case has it.
    """
    locked = {name: part.lock(name) for name in sorted({case.stack for case in part.cases})}
    lacking = [(case, _lacking(case, locked[case.stack])) for case in part.cases]
    cases = tuple(case for case, names in lacking if not names)
    if part.cases and not cases:
        case, names = lacking[0]
        raise UsageError(f"{own.label(other)}: the lock of stack {case.stack} has no {names}")
    version = {locked[case.stack].packages[case.server] for case in cases}
    return own.label(other, version.pop() if len(version) == 1 else "", cases), cases


def _lacking(case: Case, stack: Stack) -> str:
    """List the packages that a case needs to be served and its stack lacks."""
    needs = {case.server, *SERVERS[case.server].loads(case)}
    return ", ".join(sorted(needs - stack.packages.keys()))


def _lend_app(
    project: Project, base: State, head: State, scope: Scope
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Lend the module that `--app` names to a side without it; return the files and notes on them.

    Raises UsageError if a side has the module under another name, as it is then not new.
    """
    module = project.target.app.partition(":")[0]
    checkout = revisions.copy(project.root, scope.copies)
    files: dict[str, None] = {}
    notes = []
    for side, other in ((base, head), (head, base)):
        label = side.record.label
        sources = [(other.record.label, other.place), ("the checkout", checkout)]
        for whose, whence in sources[bool(files) :]:  # the other side may have borrowed it
            if lent := _lend_module(module, side.place, whence):
                old = revisions.list_renames(project.root, side.tree or "", other.tree or "")
                name = (revisions.within(project.root) / lent[0]).as_posix()
                if name in old:
                    raise UsageError(
                        f"--app {project.target.app}: {label} has {old[name]} in place "
                        f"of {name}: compare revisions in which it has the same name"
                    )
                files |= dict.fromkeys(lent)
                some = " and ".join(lent)
                notes.append(f"{label} has no module {module}: lent {whose}'s {some}")
                break
    return frozenset(files), tuple(notes)


def _lend_module(module: str, to: Path, source: Path) -> tuple[str, ...]:
    """Copy the module with a target's application to a copy of a revision without that module.

    Returns the files, from the copy's root; none if it has the module, or the source lacks it too.
    """
    files = module_files(module)

    def locate(root: Path) -> Path | None:
        places = (Path(place, file) for place in source_folders(root, module) for file in files)
        return next((place for place in places if (root / place).is_file()), None)

    origin = locate(source)
    if origin is None or locate(to) is not None:
        return ()
    around = [folder / "__init__.py" for folder in origin.parents]
    return tuple(_lend([origin, *around], source, to))


def _lend(places: Iterable[Path], source: Path, to: Path) -> list[str]:
    """Copy files that only the source has, and return them as paths from the copy's root."""
    files = [place for place in places if (source / place).is_file() and not (to / place).exists()]
    for place in files:
        (to / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / place, to / place)
    return [place.as_posix() for place in files]


def record_of(label: str, commit: str | None, dirty: bool) -> SideRecord:
    """Begin the record of a side."""
    return SideRecord(
        label=label, kind="stack", commit=commit, dirty=dirty, stacks=(), interpreters=()
    )


def of_locks(
    subject: Subject, stack: str, base: tuple[str, str], head: tuple[str, str], scope: Scope
) -> Sides:
    """Prepare two states (label, text of the lock) of one stack; other stacks stay as locked.

    Raises:
        SetupError: A lock cannot be installed.
    """
    state = runner.revision(subject.repository)

    def part(label: str, text: str) -> Part:
        def lock(name: str) -> Stack:
            return locks.save(subject, name, text) if name == stack else subject.lock(name)

        place = replace(
            subject, root=revisions.copy(subject.root, scope.copies, inside=subject.inside)
        )
        record = record_of(label, *state)
        return Part(record, place, subject.cases(), lock, subject.find_interpreters)

    return pair_up(part(*base), part(*head), scope, subject.root)


def generator_of(subject: Subject, scope: Scope) -> Path:
    """Find the load generator, and install it first; a bare name if no server will be loaded."""
    if not scope.loaded:
        return Path("oha")
    tools.ensure_oha(subject.configuration.oha, scope.narrator)
    return tools.find_oha(subject.configuration.oha)


def pair_up(
    base: Part,
    head: Part,
    scope: Scope,
    repository: Path,
    crossing: Collection[str] = (),
    reason: str = "",
    *,
    mixed: bool = False,
) -> Sides:
    """Prepare what both sides need for the cases that they have in common.

    `crossing`: fields in which the sides differ on purpose; then all cases are judged.
    """
    generator = generator_of(head.subject, scope)
    cases = select(base, head, scope, crossing)
    common, missing = match_cases(*cases, crossing)
    if "python" not in crossing:
        lost: dict[str, str] = {}
        for part in (base, head):
            lost |= part.lacks([new for _, new in common if new.id not in lost])
        common = tuple(pair for pair in common if pair[1].id not in lost)
        missing += tuple(Missing(case=case, reason=reason) for case, reason in lost.items())
    before = side_of(base, cases[0], [old for old, _ in common], scope, generator)
    after = side_of(head, cases[1], [new for _, new in common], scope, generator)
    pairs = tuple(
        Pair(SideCase(old, before.testbed), SideCase(new, after.testbed), reason, mixed=mixed)
        for old, new in common
    )
    return Sides(before, after, repository, pairs, missing, bool(crossing))


def select(
    base: Part, head: Part, scope: Scope, crossing: Collection[str] = ()
) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Select the cases whose id matches a glob on either side."""
    if not scope.select:
        return base.cases, head.cases
    chosen: set[str] = set()
    names = [case.id for case in (*base.cases, *head.cases)]
    for glob in scope.select:
        matching = {name for name in names if fnmatchcase(name, glob)}
        if not matching:
            planning.select(head.subject.cases(), [glob])  # suggests what may have been meant
            raise UsageError(f"--select {glob!r} selects no case of base or head")
        chosen |= matching
    for old, new in match_cases(base.cases, head.cases, crossing)[0]:
        if chosen & {old.id, new.id}:
            chosen |= {old.id, new.id}
    before, after = (tuple(c for c in part.cases if c.id in chosen) for part in (base, head))
    return before, after


def side_of(
    part: Part, cases: tuple[Case, ...], needed: Sequence[Case], scope: Scope, generator: Path
) -> Side:
    """Make ready what `needed` cases of a side need."""
    pythons = part.interpreters(sorted({case.python for case in needed}))
    testbed = assembly.assemble(
        part.subject, needed, scope.logs, scope.narrator,
        generator=generator, lock=part.lock, interpreter=pythons.__getitem__,
    )  # fmt: skip
    testbed = replace(testbed, patience=scope.patience)
    for python in testbed.interpreters.values():
        stacks.compile_code(part.subject.code, python)
    records = {
        "stacks": tuple(stack.record() for stack in testbed.stacks.values()),
        "interpreters": tuple(map(interpreters.record, testbed.interpreters.values())),
    }
    return Side(
        part.record.model_copy(update=records), testbed, cases, part.subject, part.tree, part.lent
    )
