"""Prepares base and head: two revisions, or one checkout with something else on either side.

- Two revisions: each has its own applications, declarations, locks and interpreters.
- Other packages: as of a date, of a lock, or with some in other versions.
- Two interpreters, or two ways to serve: not a change but a choice; all reports say so.

These may be combined, which reports say as well. A target (an application that options or a few
keys declare) is deployed in both copies (see `deployment`).

Each side has its own copy of the files.
"""

import math
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from duetbench.app import case_names, deployment, revisions, stacks, target_locks
from duetbench.app.deployment import module_files, source_folders
from duetbench.app.revisions import Revision
from duetbench.app.setting import SERVED, Contrast, Kind, read_pin
from duetbench.app.stacks import Stack
from duetbench.app.subject import Subject
from duetbench.app.target import Setting
from duetbench.app.target_locks import LockFile
from duetbench.app.testbed import SideCase, assemble
from duetbench.core.comparison import SideRecord
from duetbench.core.errors import UsageError
from duetbench.core.metrics import Concern
from duetbench.core.model import Case
from duetbench.host import cache, git, paths
from duetbench.host.command import Tick
from duetbench.host.console import Narrator
from duetbench.judge.pairs import Pair, Side, Sides

DEFAULT_SEED: Final = 1
MAIN: Final = ("main", "master")
"""Names of default branches, for a clone that does not say which it has."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which cases are compared, for how long, and what matters.

    Attributes:
        select: Globs over the ids of cases; none: all.
        seconds: Time budget; None: until all is decided.
        everything: Cases that the change cannot affect, too.
        start: Compare how servers start, without load.
        only: Load no server: `effects` observes what a request does, `counts` counts instructions
            as well.
        material: Smallest sizes that somebody acts on, instead of the repository's.
        seed: Of the order of the duets.
    """

    select: tuple[str, ...] = ()
    seconds: float | None = None
    everything: bool = False
    start: bool = False
    only: Literal["", "effects", "counts"] = ""
    material: Mapping[Concern, float] = field(default_factory=dict)
    seed: int = DEFAULT_SEED


@dataclass(frozen=True, slots=True)
class Scope:
    """Which cases to compare (`select`: globs, or none for all), and how to prepare them.

    Attributes:
        copies: The folder from `revisions.copies`, which must outlive the sides.
        loaded: Whether servers will be loaded, which needs a load generator.
        patience: Most seconds for an answer of an idle server.
    """

    select: tuple[str, ...]
    narrator: Narrator
    copies: Path
    loaded: bool = True
    patience: float = math.inf


State = tuple[Path, Revision]
"""The files of one side: a copy of a revision, or of the checkout as it is, without a tree."""

Pairs = Sequence[tuple[Case, Case]]
"""Cases of base and head that are compared."""


@dataclass(frozen=True, slots=True)
class Part:
    """One side before anything is installed for it: what its files declare, and what it is called.

    `kind` and `words` are those of its record.
    """

    state: Revision
    subject: Subject
    cases: tuple[Case, ...]
    kind: Kind | Literal["several"] = "stack"
    words: tuple[str, ...] = ()


def prepare(project: Subject, contrast: Contrast, scope: Scope) -> Sides:
    """Prepare base and head of a repository with an application; raises as `join`."""
    root, settings = project.root, contrast.settings
    states = copy_states(root, contrast, scope)
    lent = _lend_app(project, states) if contrast.of_revisions else []
    if any(side.python for side in settings):
        usual = next(iter(project.target.python), None)
        pythons = tuple(side.python or usual for side in settings)
        target = project.target.model_copy(update={"python": pythons})
        project = replace(project, target=target)
    locks = [lock_at(root, s.lock, scope.copies) if s.lock else None for s in settings]
    places = [place for place, _ in states]
    copies = deployment.deploy_all(project, places, scope.narrator, settings, locks)
    names, parts = tuple(copies[-1].interpreters), []
    for (_, state), own, side, python in zip(
        states, copies, settings, (names[0], names[-1]), strict=True
    ):
        cases = tuple(case for case in own.cases(side) if case.python == python)
        parts.append(Part(state, own, cases))
    both = join(root, contrast, scope, parts, select(parts, scope))
    return replace(both, notes=tuple(dict.fromkeys((*lent, *both.notes))))


def select(parts: Sequence[Part], scope: Scope) -> Pairs:
    """Pair the cases of both sides, which have the same requests, and choose the selected ones."""
    chosen = case_names.select(parts[1].cases, scope.select)
    pairs = zip(parts[0].cases, parts[1].cases, strict=True)
    return [pair for pair in pairs if pair[1] in chosen]


def join(
    root: Path, contrast: Contrast, scope: Scope, parts: Sequence[Part], pairs: Pairs
) -> Sides:
    """Prepare base and head of a repository as words ask for them, from what their files declare.

    Raises:
        UsageError: There is no such package or interpreter.
        SetupError: An interpreter or environment cannot be made.
    """
    settings, crossing = contrast.settings, contrast.crossing
    kinds, states = sorted(contrast.kinds), [part.state for part in parts]
    if len(kinds) > 1 and states[0].commit == states[1].commit and not any(s.dirty for s in states):
        kinds = sorted(contrast.kinds - {"revision"})  # both revisions are the same commit
    pythons = {case.python for part in parts for case in part.cases}
    if "python" in crossing and len(pythons) == 1:
        raise UsageError(f"python: expected two different interpreters, found {min(pythons)} twice")
    ready = []
    for index, (part, own) in enumerate(zip(parts, settings, strict=True)):
        _lock(part, own, {pair[index].stack for pair in pairs}, scope)
        words = tuple((contrast.base, contrast.head)[index])
        label = ", ".join(filter(None, (part.state.label, *words))) or "as declared"
        kind = kinds[0] if len(kinds) == 1 else "several"
        ready.append(replace(part, state=replace(part.state, label=label), kind=kind, words=words))
    reason = " instead of ".join(part.state.label for part in ready[::-1])
    both = pair_up(
        ready, pairs, scope, root, reason if crossing else "",
        alike=kinds == ["setting"] and crossing <= SERVED,
    )  # fmt: skip
    note = f"{', '.join(kinds)}: these differ at once, and no finding tells them apart"
    notes = (note,) if len(kinds) > 1 else ()
    return replace(both, cross=bool(crossing), notes=notes)


def copy_states(root: Path, contrast: Contrast, scope: Scope) -> list[State]:
    """Copy the files of both sides.

    Raises UsageError if there is no such revision, or the sides are the same by their words.
    """
    if not contrast.of_revisions:
        if contrast.crossing and contrast.settings[0] == contrast.settings[1]:
            same = contrast.head[0]
            raise UsageError(f"base and head: expected two different sides, found {same}")
        state = _checkout(root)
        return [(revisions.copy(root, scope.copies), state) for _ in range(2)]
    if not revisions.is_repository(root):
        raise UsageError(
            f"expected a git repository with a commit in {root}, found none: compare packages, "
            "interpreters or servers instead (--head PACKAGE==VERSION, --head python=3.14)"
        )
    base, head = contrast.revisions
    later = revisions.working(root) if head is None else revisions.resolve(root, head)
    earlier = where_left_main(root, later) if base is None else revisions.resolve(root, base)
    states = (earlier, later)
    with ThreadPoolExecutor() as pool:
        places = pool.map(lambda state: revisions.lay_out(root, state, scope.copies), states)
        return list(zip(places, states, strict=True))


def _checkout(root: Path, label: str = "") -> Revision:
    """Describe the files as they are."""
    commit, dirty = git.revision(root)
    return Revision(label, commit or "", dirty)


def where_left_main(root: Path, head: Revision) -> Revision:
    """Find the commit at which a revision left origin's default branch.

    Raises:
        UsageError: There is no main branch here, or it shares no commit with head.
    """
    default = revisions.branch(root, "refs/remotes/origin/HEAD")
    names = (default.removeprefix("origin/"),) if default is not None else MAIN
    refs = [ref for name in names for ref in (name, f"origin/{name}")]
    tips = [tip for ref in refs if (tip := revisions.commit_of(root, ref)) is not None]
    if not tips:
        raise UsageError(
            f"expected one of the branches {', '.join(refs)} to compare with, found none: name "
            "BASE, or fetch the branch"
        )
    others = [tip for tip in tips if tip != head.commit] or [head.commit]
    commit = git.ask_or_none(root, "merge-base", head.commit, *others)
    if commit is None:
        raise UsageError(
            f"{head.label} and the main branch have no commit in common here: name BASE, or fetch "
            "the rest of a shallow clone (git fetch --unshallow)"
        )
    return replace(revisions.resolve(root, commit), label=f"{commit[:8]} (main)")


def lock_at(root: Path, text: str, copies: Path) -> LockFile:
    """Find a file to read packages from: FILE, or FILE@REV of any revision.

    Raises UsageError if there is none.
    """
    name = text
    here = next((p for p in (Path(text), root / text) if p.is_file()), None)
    if here is not None:
        place = revisions.copy(root, copies)
        inside = here.resolve().is_relative_to(revisions.top(root) or root)
        file = place / os.path.relpath(here.resolve(), root) if inside else here.resolve()
    else:
        name, sign, revision = text.rpartition("@")
        if not sign:
            raise UsageError(
                f"lock={text}: expected a file, or FILE@REV such as uv.lock@main; found neither "
                f"here nor in {root}"
            )
        place = revisions.lay_out(root, revisions.resolve(root, revision), copies)
        file = place / name
        if not file.is_file():
            raise UsageError(f"lock={text}: {revision} has no file {name}")
    if file.suffix == ".lock" and file.name not in target_locks.LOCKS[1:]:
        # uv reads the lock only where the project, or its workspace, is.
        uv_lock = target_locks.workspace(place) / target_locks.UV
        if file.resolve() != uv_lock.resolve():
            uv_lock.unlink(missing_ok=True)
            shutil.copy(file, uv_lock)
        file = uv_lock
    return LockFile(place, file, text)


def _lock(part: Part, setting: Setting, names: Collection[str], scope: Scope) -> None:
    """Lock some stacks of a side as of its day, with its pins.

    A pin applies to the stacks that have its package. Raises UsageError if none has, SetupError if
    there is no such set.
    """
    pins = [read_pin(text) for text in setting.pins]
    held = {name: part.subject.lock(name).packages for name in sorted(names)}
    for pin in pins:
        if not any(canonicalize_name(pin.name) in packages for packages in held.values()):
            some = ", ".join(held)
            raise UsageError(f"{pin} changes nothing: expected a package of the stacks {some}")
    for name, packages in held.items():
        own = [pin for pin in pins if canonicalize_name(pin.name) in packages]
        if setting.day or own:
            stack = resolve_stack(part.subject, name, scope.narrator, setting.day, own)
            stacks.write_lock(part.subject.lock_file(name), stack.lock.read_text("utf-8"))


def resolve(
    subject: Subject,
    stack: str,
    as_of: date | None,
    tick: Tick = lambda _: None,
    *,
    keep: str = "",
    pins: Sequence[str] = (),
) -> str:
    """Resolve a stack with uv as of the end of a date (UTC), or of a moment; return its lock.

    Versions in `keep`, the text of a lock, are kept if possible. `pins` are requirements such
    as `granian==2.7.8` that limit what is installed. SetupError: uv finds no such set of
    packages.
    """
    # Its home may have an index of its own.
    return stacks.compile_lock(
        subject.sources(stack), f"stack {stack}", tick,
        as_of=as_of, version=subject.version, keep=keep, pins=pins, home=subject.home,
    )  # fmt: skip


def resolve_stack(
    subject: Subject,
    name: str,
    narrator: Narrator,
    day: date | None = None,
    pins: Sequence[Requirement] = (),
) -> Stack:
    """Resolve a stack as of the end of a date (UTC), or with other versions of some packages.

    With pins, other packages move only if they must. Raises SetupError as `resolve`.
    """
    texts = [str(pin) for pin in pins]
    keep = "" if day else subject.lock_file(name).read_text("utf-8")
    how = f"as of {day}" if day else f"with {', '.join(texts)}"
    with narrator.step(f"stack {name}", f"resolving it {how}") as tick:
        text = resolve(subject, name, day, tick, keep=keep, pins=texts)
    lock = paths.cache_dir() / "resolved" / cache.digest(text) / f"{name}.txt"
    stacks.write_lock(lock, text)
    return subject.read_lock(name, lock)


def _lend_app(project: Subject, states: Sequence[State]) -> list[str]:
    """Lend the checkout's module of the application to sides without it; return notes."""
    module, notes = project.target.app.partition(":")[0], []

    def find(root: Path) -> Path | None:
        files = (Path(folder, file) for folder in source_folders(root)
                 for file in module_files(module))  # fmt: skip
        return next((file for file in files if (root / file).is_file()), None)

    for place, side in states:
        if find(place) is None and (file := find(project.root)) is not None:
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project.root / file, place / file)
            notes.append(f"{side.label} has no module {module}: lent the checkout's {file}")
    return notes


def of_locks(
    subject: Subject, stack: str, base: tuple[str, str], head: tuple[str, str], scope: Scope
) -> Sides:
    """Prepare two states (label, text of the lock) of one stack; other stacks stay as locked.

    Raises:
        SetupError: A lock cannot be installed.
    """
    parts = []
    for label, text in (base, head):
        place = revisions.copy(subject.root, scope.copies, inside=subject.inside)
        own = replace(subject, root=place)
        stacks.write_lock(own.lock_file(stack), text)
        state = _checkout(subject.repository, label)
        parts.append(Part(state, own, subject.cases()))
    return pair_up(parts, select(parts, scope), scope, subject.root)


def pair_up(
    parts: Sequence[Part],
    pairs: Pairs,
    scope: Scope,
    repository: Path,
    reason: str = "",
    *,
    alike: bool = False,
) -> Sides:
    """Prepare what both sides need for the pairs of their cases.

    `reason`: why all of them are judged; else the change decides that.
    """
    base, head = (
        side_of(part, [pair[index] for pair in pairs], scope) for index, part in enumerate(parts)
    )
    made = tuple(
        Pair(SideCase(old, base.testbed), SideCase(new, head.testbed), reason, alike=alike)
        for old, new in pairs
    )
    return Sides(base, head, repository, made)


def side_of(
    part: Part, cases: Sequence[Case], scope: Scope, lock: Callable[[str], Stack] | None = None
) -> Side:
    """Make ready what some cases of a side need; `lock` finds other locks."""
    logs = paths.state_dir() / "logs"
    testbed = assemble(part.subject, cases, logs, scope.narrator, loaded=scope.loaded, lock=lock)
    testbed = replace(testbed, patience=scope.patience)
    stacks.compile_code((part.subject.code, python) for python in testbed.interpreters.values())
    record = record_of(
        part.state,
        kind=part.kind,
        stacks=tuple(stack.record() for stack in testbed.stacks.values()),
        interpreters=tuple(testbed.interpreters.values()),
        words=part.words,
    )
    return Side(record, testbed, tuple(cases), part.state.tree)


def record_of(state: Revision, **more: Any) -> SideRecord:
    """Record a side of a comparison; `more` are the other fields."""
    known = {"label": state.label, "commit": state.commit or None, "dirty": state.dirty}
    return SideRecord.model_validate({**known, **more})
