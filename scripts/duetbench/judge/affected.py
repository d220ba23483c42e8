"""Finds the cases that a change can affect: only these are judged, and each says why.

A wrong "not affected" would be the only harmful mistake, so anything unknown counts as affected.

- A module affects the cases whose application imports it, or whose imports are not all known.
- Any other file of an application affects every case of its experiment. In other repositories than
  ours, any file around the applications affects every case. Declarations and locks affect nothing:
  head's declarations hold for both sides (`lending`), and a lock's packages are compared instead.
- A package affects the cases that load it (`dependencies`): those that declare it, and those whose
  servers have loaded it by their first answer. A package that came or went and that no case is
  known to load affects its whole stack, since some packages pick up others when present.
- An interpreter affects its cases.
- The harness (in our own repository), documents, results, and files for git or CI affect nothing,
  nor does a file whose code is the same on both sides.
"""

import ast
import filecmp
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from duetbench.core.model import Case, InterpreterRecord, Missing
from duetbench.core.text import some
from duetbench.host import paths
from duetbench.judge import revisions
from duetbench.judge.dependencies import SOURCES, Dependencies, Reader
from duetbench.judge.matching import package_changes, relocked
from duetbench.judge.pairs import Pair, Side, Sides
from duetbench.measure.testbed import server_of
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.pyproject import FILE as TARGET
from duetbench.project.schema import ANCHOR, FILE, PUBLISHED
from duetbench.project.target_locks import LOCKS
from duetbench.store.comparison import PackageChange

EVERYTHING: Final = "asked for with --all"

_NAMED: Final = 3  # packages or files in a reason; the others are counted
_NAMED_OF_NONE: Final = 5  # packages where there is nothing to judge
_DOCUMENTS: Final = frozenset({".md", ".rst"})

APPLICATIONS: Final = "files of applications"
CODE: Final = "files that no application imports"
_HARNESS: Final = "the harness"
HARNESS: Final = frozenset(
    {
        ".ci", ".github", "Makefile", "action.yml", "asv.conf.json", "docs", "pyproject.toml",
        "requirements.txt", "scripts", "tests", "tools",
    }
)  # fmt: skip
"""Top-level files and folders of the harness in our own repository."""

_DECLARING: Final = (
    TARGET, ".python-version", "pylock.toml", "pylock.*.toml", "requirements*.txt", *LOCKS
)  # fmt: skip
"""Files of a target that show in packages and interpreters, or hold for both sides."""

_AROUND: Final = frozenset(
    {
        ".circleci", ".gitattributes", ".github", ".gitignore", ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diff:
    """How the two sides differ.

    `same` are files that do not differ in code that is executed; see `same_code`. `new` are files
    lent to a side with its own applications, which may have them under another name.
    """

    files: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)  # name → how it differs
    experiments: frozenset[str] = frozenset()  # folders of `apps/`, on either side
    own: bool = True  # whether it is our own repository, which holds the harness
    target: bool = False  # whether options or a few keys declare the application
    new: frozenset[str] = frozenset()
    relocked: bool = False  # whether a lock differs, perhaps in nothing that is installed here


def find(sides: Sides, diff: Diff | None = None, *, everything: bool = False) -> Sides:
    """Keep the cases that the change can affect, by both sides' files and environments.

    `diff` is the `difference` of the sides, if already known.
    """
    base, head, diff = sides.base, sides.head, diff or difference(sides)
    around = () if diff.own else SOURCES
    readers = [
        Reader(s.root, s.testbed, tuple(s.root / name for name in around)) for s in (base, head)
    ]
    loaded = {
        pair.case.id: readers[0].read(pair.base.case) | readers[1].read(pair.head.case)
        for pair in sides.pairs
    }
    if not everything:
        watch_doubtful(diff, sides.pairs, readers, loaded)
    return select(sides, diff, loaded, everything=everything)


def difference(sides: Sides) -> Diff:
    """Find how both sides' files and environments differ."""
    base, head = sides.base, sides.head
    trees = (base.tree, head.tree) if base.tree and head.tree else None
    changed = [
        path
        for path in (revisions.changed_files(sides.repository, *trees) if trees else ())
        if not _without_effect(path, base, head)
    ]
    same = tuple(path for path in changed if same_code(path, base.root, head.root))
    target = isinstance(head.subject, DeployedTarget)
    own = paths.other_keys(sides.repository).get("project", {}).get("name") == "duetbench"
    return Diff(
        files=tuple(path for path in changed if path not in same),
        same=same,
        packages=package_changes(base.testbed, head.testbed),
        relocked=bool(relocked(base.testbed, head.testbed)),
        interpreters=interpreter_changes(base.record.interpreters, head.record.interpreters),
        experiments=frozenset(
            file.parent.name
            for side in (base, head)
            for file in (side.root / "apps").glob(f"*/{FILE}")
        ),
        own=not target and own,
        target=target,
        new=frozenset(path for side in (base, head) if side.declared for path in side.lent),
    )


def watch_doubtful(
    diff: Diff, common: Sequence[Pair], readers: Sequence[Reader], loaded: dict[str, Dependencies]
) -> None:
    """Add what servers load to the dependencies of cases that seem unaffected, but might not be."""
    orphans = _orphans(diff.packages, common, loaded)
    groups: dict[Hashable, list[Pair]] = defaultdict(list)
    for pair in common:
        if pair.reason or reason_for(pair.case, diff, loaded[pair.case.id], orphans):
            continue
        cases = (pair.base.case, pair.head.case)
        packages = {
            name
            for reader, case in zip(readers, cases, strict=True)
            for name in reader.environment(case).requires
        }
        moves = any(
            move.stack == pair.case.stack and move.package in packages for move in diff.packages
        )
        code = (path for path in diff.files if path.endswith(".py"))
        if moves or (diff.target and any(may_be_read(path, diff) for path in code)):
            groups[tuple(map(_loading, cases))].append(pair)
    for group in groups.values():
        dependencies = readers[0].watch([pair.base.case for pair in group])
        dependencies |= readers[1].watch([pair.head.case for pair in group])
        for pair in group:
            loaded[pair.case.id] |= dependencies


def _loading(case: Case) -> Hashable:
    """Key that is equal for cases whose servers load the same."""
    return server_of(case.model_copy(update={"workers": 1, "threads": None, "cores": "split"}))


def may_be_read(path: str, diff: Diff) -> bool:
    """Whether an application may import or read a file: it is not for people, git or CI."""
    return _area(path, own=diff.own) in {APPLICATIONS, CODE}


def _plain(path: str) -> str:
    """Remove `../` from a path: its place around the application's folder does not matter."""
    return path.replace("../", "")


def _without_effect(path: str, base: Side, head: Side) -> bool:
    """Whether a file is lent and equal on both sides, or differs only in settings of duetbench."""
    if path in base.lent | head.lent:
        return filecmp.cmp(base.root / path, head.root / path, shallow=False)
    plain = _plain(path)
    declares = any(fnmatchcase(plain, glob) for glob in _DECLARING)
    if declares and isinstance(head.subject, DeployedTarget):
        return True
    return path == "pyproject.toml" and paths.other_keys(base.root) == paths.other_keys(head.root)


def select(
    sides: Sides, diff: Diff, loaded: Mapping[str, Dependencies], *, everything: bool = False
) -> Sides:
    """Select the affected cases among those that both sides have. Pure."""
    orphans = _orphans(diff.packages, sides.pairs, loaded)
    pairs, untouched, missing = [], 0, list(sides.missing)
    for pair in sides.pairs:
        case = pair.case
        reason = pair.reason or reason_for(case, diff, loaded[case.id], orphans)
        if reason := reason or (EVERYTHING if everything else ""):
            pairs.append(Pair(pair.base, pair.head, reason))
        elif loaded[case.id].files & diff.new:
            missing.append(Missing(case=case.id, reason="only one side has its application"))
        else:
            untouched += 1
    return replace(
        sides,
        pairs=tuple(pairs),
        missing=tuple(missing),
        packages=diff.packages,
        untouched=untouched,
        empty_reason="" if pairs else _nothing(diff, lone=bool(missing and not untouched)),
    )


def reason_for(
    case: Case, diff: Diff, loaded: Dependencies, orphans: Collection[tuple[str, str]] = ()
) -> str:
    """Say why a change can affect a case; empty if it cannot. `orphans`: see `_orphans`."""
    interpreter = diff.interpreters.get(case.python)
    moved = [
        str(move)
        # A package that the case itself asks for is the better reason.
        for move in sorted(diff.packages, key=lambda move: move.package not in loaded.direct)
        if move.stack == case.stack
        if loaded.unknown
        or move.package in loaded.packages
        or (case.stack, move.package) in orphans
    ]
    files = [path for path in diff.files if _affects(path, case, diff, loaded)]
    reasons = (
        f"interpreter {case.python}: {interpreter}" if interpreter else "",
        some(moved, _NAMED),
        some(files, _NAMED),
        loaded.unknown if moved or files else "",
    )
    return "; ".join(filter(None, reasons))


def interpreter_changes(
    base: Sequence[InterpreterRecord], head: Sequence[InterpreterRecord]
) -> dict[str, str]:
    """Describe how interpreters of the same name differ: name → description."""
    both = ((old, new) for old in base for new in head if old.name == new.name and old != new)
    return {
        new.name: "built differently"
        if old.version == new.version
        else f"{old.version} → {new.version}"
        for old, new in both
    }


def _orphans(
    packages: Sequence[PackageChange], common: Sequence[Pair], loaded: Mapping[str, Dependencies]
) -> set[tuple[str, str]]:
    """Find packages that came to or went from a stack, and that no case is known to load."""
    known = {
        (pair.case.stack, package) for pair in common for package in loaded[pair.case.id].packages
    }
    return {
        (move.stack, move.package)
        for move in packages
        if (move.base is None or move.head is None) and (move.stack, move.package) not in known
    }


def _affects(path: str, case: Case, diff: Diff, loaded: Dependencies) -> bool:
    """Whether the case's application reads a changed file, or may read it."""
    parts = PurePosixPath(path).parts
    if path in loaded.files:
        return True
    if not may_be_read(path, diff):
        return False
    if parts[0] == "apps" and not diff.target:
        # Packages are compared one by one, and no application loads the anchor.
        if parts[1] == "stacks" or path in {"apps/pyproject.toml", f"apps/{ANCHOR}"}:
            return False
        if parts[1] in diff.experiments and parts[2:] in ((FILE,), (PUBLISHED,)):
            return False
    if loaded.unknown:
        return True
    # A target's own folder may be called apps.
    others = frozenset() if diff.target else diff.experiments - {case.experiment}
    return not path.endswith(".py") and not (parts[0] == "apps" and parts[1] in others)


def _nothing(diff: Diff, *, lone: bool) -> str:
    """Say why there is nothing to judge; `lone`: the sides have no case in common."""
    areas = sorted({_area(path, own=diff.own) for path in diff.files})
    reasons = ["the sides have no case in common"] if lone else []
    if diff.packages:
        moved = some([*map(str, diff.packages)], _NAMED_OF_NONE)
        reasons.append(f"no measured case loads the packages that moved ({moved})")
    elif diff.relocked:
        reasons.append("both locks install the same files here")
    if areas == [_HARNESS]:
        reasons.append("only the harness differs, and the one that runs now measures both sides")
    elif areas:
        reasons.append(f"only {' and '.join(areas)} differ, and no measured case depends on them")
    if diff.same:
        names = some(diff.same, _NAMED)
        reasons.append(
            f"same code: only comments, layout, requirements or the version differ in {names}"
        )
    return f"Nothing to judge: {'; '.join(reasons or ['base and head do not differ'])}."


def _area(path: str, *, own: bool) -> str:
    """Name the part of the checkout that a file belongs to."""
    path = _plain(path)
    top = path.partition("/")[0]
    parts = (
        (PurePosixPath(path).suffix in _DOCUMENTS or path == "LICENSE", "documents"),
        (top == "apps" != path, APPLICATIONS),
        (top == "results", "results"),
        (own and top == "benchmarks", "in-process benchmarks"),
        (own and top in HARNESS, _HARNESS),
        (top in _AROUND, "files for git or CI"),
    )
    return next((name for holds, name in parts if holds), CODE)


def same_code(path: str, base: Path, head: Path) -> bool:
    """Whether a file, as a path from the root of both sides, executes the same code on both.

    Comments, layout, and a project's version and requirements are not executed. Functions
    that differ are never the same, even if no request enters them: a single request does not show
    what many at once enter (a queue, a retry, an exhausted pool). A file that cannot be read, or is
    not Python, counts as different.
    """
    if PurePosixPath(path).name == "pyproject.toml":
        before, after = (paths.other_keys((root / path).parent) for root in (base, head))
        return "project" in before and _executed(before) == _executed(after)
    if not path.endswith(".py"):
        return False
    try:
        trees = [ast.dump(parse((root / path).read_bytes())) for root in (base, head)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return trees[0] == trees[1]


def parse(source: bytes) -> ast.Module:
    """Parse a module to the syntax tree of what it executes, with its version replaced by 0."""
    tree = ast.parse(source)
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and [getattr(target, "id", "") for target in node.targets] == ["__version__"]
            and isinstance(node.value, ast.Constant)
            and _is_version(node.value.value)
        ):
            node.value.value = "0"
    return tree


def _is_version(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Version(value))
    except InvalidVersion:
        return False


def _executed(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the version, and the requirements: the packages that they lead to are compared."""
    left_out = {"version", "requires-python", "dependencies", "optional-dependencies"}
    project = {k: v for k, v in metadata.get("project", {}).items() if k not in left_out}
    return {**metadata, "project": project, "dependency-groups": {}}
