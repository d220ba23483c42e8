"""What a change can have touched: only those cases are judged, and each says why.

A wrong "not touched" would be the only harmful mistake, so that what is unknown counts as touched:

- a module touches the cases whose application imports it, or whose imports are not all known,
- another file of the applications touches every case of its experiment; declarations touch nothing:
  head's hold for both sides, see `lending`,
- in any other repository than ours, another file around the applications touches every case: any
  of them may read it,
- a package touches the cases that load it (see `closure`); one that came or went and that no case
  is known to load touches all cases of its stack, since some packages pick up others when present,
- an interpreter touches its cases,
- the harness touches nothing: the one that runs measures both sides. It is found in our own
  repository only,
- documents, results and what is for git or CI alone touch nothing.
"""

from __future__ import annotations

import filecmp
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from servebench import paths
from servebench.compare import closure, inprocess, revisions, wording
from servebench.compare.closure import Reach
from servebench.compare.inprocess import Target
from servebench.compare.model import Missing, PackageChange
from servebench.compare.pairing import Pair, paired
from servebench.compare.sides import Side, Sides
from servebench.declarations import FILE
from servebench.model import Case, InterpreterRecord
from servebench.published import FILE as PUBLISHED
from servebench.stacks import Stack

EVERYTHING: Final = "asked for with --all"
_NAMED: Final = 3
"""So many packages or files are named as reasons; the others are counted."""


@dataclass(frozen=True, slots=True)
class Change:
    """In what the two sides differ.

    Attributes:
        files: Paths from the checkout's root of the files that differ.
        packages: What moved in the locks.
        interpreters: Name → how it differs.
        experiments: Folders of `apps/` that are experiments, on either side.
        cross: Whether the two sides are two interpreters.
        own: Whether it is our own repository, which holds the harness.
        new: Files that a side was lent which has applications of its own: they may be what is
            called otherwise there.
    """

    files: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)
    experiments: frozenset[str] = frozenset()
    cross: bool = False
    own: bool = True
    new: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Touched:
    """What is to be compared.

    Attributes:
        pairs: Cases that the change can have touched, as each side defines them, with the reason.
        untouched: How many cases both sides have that it cannot have touched.
        missing: Cases of one side only, or defined otherwise.
        packages: What moved in the locks.
        inprocess: Whether it can have touched what the in-process benchmarks measure.
        notes: What a reader should know.
        nothing: Why there is nothing to judge, in a sentence; empty if there is something.
        targets: What of the in-process benchmarks is compared.
    """

    pairs: tuple[Pair, ...]
    untouched: int
    missing: tuple[Missing, ...]
    packages: tuple[PackageChange, ...]
    inprocess: bool
    notes: tuple[str, ...] = ()
    nothing: str = ""
    targets: tuple[Target, ...] = ()


def find(sides: Sides, *, everything: bool = False) -> Touched:
    """Find what can be touched, from both sides' files and environments.

    Args:
        sides: Base and head.
        everything: Judge every case that both sides have.
    """
    base, head = sides.base, sides.head
    files: tuple[str, ...] = ()
    if base.tree and head.tree:
        files = tuple(
            path
            for path in revisions.changed(sides.repository, base.tree, head.tree)
            # What a side was lent is what the other has.
            if not _lent(path, base, head) and not _only_ours(path, base, head)
        )
    change = Change(
        files=files,
        packages=package_changes(base.rig.stacks, head.rig.stacks),
        interpreters=interpreter_changes(base.record.interpreters, head.record.interpreters),
        experiments=frozenset(
            folder.parent.name
            for side in (base, head)
            for folder in (side.root / "apps").glob(f"*/{FILE}")
        ),
        cross=sides.cross,
        own=paths.holds_harness(sides.repository),
        new=frozenset(path for side in (base, head) if side.declared for path in side.lent),
    )
    common, missing = paired(base.cases, head.cases, cross=sides.cross)
    readers = [
        closure.Reader(
            side.root,
            side.rig,
            () if change.own else tuple(side.root / name for name in closure.SOURCES),
        )
        for side in (base, head)
    ]
    reached = {
        pair.head.id: readers[0].reach(pair.base) | readers[1].reach(pair.head) for pair in common
    }
    found = select(change, common, reached, missing, everything=everything, notes=sides.notes)
    if not found.inprocess:
        return found
    inside = {
        pair.head.id: readers[0].reach(pair.base, served=False)
        | readers[1].reach(pair.head, served=False)
        for pair in common
    }
    roots = (base.root, head.root)
    orphans = _orphans(change.packages, common, reached)

    def reason(pair: Pair) -> str:
        said = pair.because or because(pair.head, change, inside[pair.head.id], orphans)
        return said or (EVERYTHING if everything else "")

    targets = inprocess.targets(
        common, reason, inprocess.available(roots), inprocess.changed_suites(roots, files)
    )
    return replace(found, targets=targets, nothing="" if targets else found.nothing)


def _lent(path: str, base: Side, head: Side) -> bool:
    """Whether a file that one side lacks is the other's on both."""
    return path in base.lent | head.lent and filecmp.cmp(
        base.root / path, head.root / path, shallow=False
    )


def _only_ours(path: str, base: Side, head: Side) -> bool:
    """Whether a file differs in what it says to us alone."""
    return path == "pyproject.toml" and paths.others(base.root) == paths.others(head.root)


def select(
    change: Change,
    common: Sequence[Pair],
    reached: Mapping[str, Reach],
    missing: Sequence[Missing] = (),
    *,
    everything: bool = False,
    notes: Sequence[str] = (),
) -> Touched:
    """Choose the touched ones among the cases that both sides have. Pure.

    Args:
        change: In what the sides differ.
        common: The cases.
        reached: By the id on head, what a case loads on either side.
        missing: Passed on.
        everything: Choose all.
        notes: Passed on.
    """
    orphans = _orphans(change.packages, common, reached)
    pairs = []
    same = []
    missing = list(missing)
    for pair in common:
        reason = pair.because or because(pair.head, change, reached[pair.head.id], orphans)
        if everything:
            reason = reason or EVERYTHING
        if reason:
            pairs.append(Pair(pair.base, pair.head, reason))
        elif reached[pair.head.id].files & change.new:
            missing.append(Missing(case=pair.head.id, reason="only one side has its application"))
        else:
            same.append(pair)
    benchmarks = any(path.startswith("benchmarks/") for path in change.files)
    return Touched(
        pairs=tuple(pairs),
        untouched=len(same),
        missing=tuple(missing),
        packages=change.packages,
        inprocess=bool(pairs) or benchmarks,
        notes=tuple(notes),
        nothing=""
        if pairs
        else wording.nothing(change.files, change.packages, same, missing, own=change.own),
    )


def because(
    case: Case, change: Change, reach: Reach, orphans: Collection[tuple[str, str]] = ()
) -> str:
    """Say why a change can have touched a case; empty if it cannot.

    Args:
        case: As head defines it.
        change: In what the sides differ.
        reach: What the case loads on either side.
        orphans: (stack, package) that came or went and that no case is known to load.
    """
    said = []
    if case.python in change.interpreters:
        said.append(f"interpreter {case.python}: {change.interpreters[case.python]}")
    moved = [
        wording.package(move)
        # What the case asks for by itself is the better reason.
        for move in sorted(change.packages, key=lambda move: move.package not in reach.direct)
        if move.stack == case.stack
        and (
            reach.unknown or move.package in reach.packages or (move.stack, move.package) in orphans
        )
    ]
    if moved:
        said.append(wording.some(moved, _NAMED, "package"))
    files = [path for path in change.files if _touches(path, case, change, reach)]
    if files:
        said.append(wording.some(files, _NAMED, "file"))
    if reach.unknown and (moved or files):
        said.append(reach.unknown)
    return "; ".join(said)


def package_changes(
    base: Mapping[str, Stack], head: Mapping[str, Stack]
) -> tuple[PackageChange, ...]:
    """List what differs between the locks of the stacks that both sides have.

    A package whose version is the same and whose files are not is a change too: a wheel that came
    later is installed instead of what was built before.
    """
    changes = []
    for name in sorted(base.keys() & head.keys()):
        before, after = base[name], head[name]
        if before.digest == after.digest:
            continue
        files = before.files(), after.files()
        for package in sorted(before.packages.keys() | after.packages.keys()):
            versions = before.packages.get(package), after.packages.get(package)
            if versions[0] != versions[1] or files[0].get(package) != files[1].get(package):
                changes.append(
                    PackageChange(stack=name, package=package, base=versions[0], head=versions[1])
                )
    return tuple(changes)


def interpreter_changes(
    base: Sequence[InterpreterRecord], head: Sequence[InterpreterRecord]
) -> dict[str, str]:
    """Tell in what interpreters of the same name differ: name → in words."""
    before = {record.name: record for record in base}
    changes = {}
    for record in head:
        old = before.get(record.name)
        if old is None or old == record:
            continue
        if old.version != record.version:
            changes[record.name] = f"{old.version} → {record.version}"
        else:
            changes[record.name] = "built otherwise"
    return changes


def _orphans(
    packages: Sequence[PackageChange], common: Sequence[Pair], reached: Mapping[str, Reach]
) -> set[tuple[str, str]]:
    known = {
        (pair.head.stack, package) for pair in common for package in reached[pair.head.id].packages
    }
    return {
        (move.stack, move.package)
        for move in packages
        if (move.base is None or move.head is None) and (move.stack, move.package) not in known
    }


def _touches(path: str, case: Case, change: Change, reach: Reach) -> bool:
    """Whether a changed file is one that the case's application reads, or may read."""
    parts = PurePosixPath(path).parts
    if path in reach.files:
        return True
    if wording.area(path, own=change.own) not in {wording.APPLICATIONS, wording.CODE}:
        return False
    if parts[0] == "apps":
        if parts[1] == "stacks" or path == "apps/pyproject.toml":
            return False  # the packages tell
        if parts[1] in change.experiments and parts[2:] in ((FILE,), (PUBLISHED,)):
            return False
    if reach.unknown:
        return True
    others = change.experiments - {case.experiment}
    return not path.endswith(".py") and not (parts[0] == "apps" and parts[1] in others)
