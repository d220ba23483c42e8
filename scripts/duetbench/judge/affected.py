"""Finds the cases that a change can affect: only these are judged, and each says why.

A wrong "not affected" would be the only harmful mistake, so anything unknown counts as affected.

- An interpreter affects its cases, and a package all cases of its stack.
- A file affects the cases that may read it (`Subject.reads`), except a Python file that the
  observed requests of a case load on neither side (`Seen.loaded`).
- Declarations and locks affect nothing: the cases and packages that they lead to are compared.
- Documents, results, and files for git or CI affect nothing, nor does a file whose code is the same
  on both sides.
"""

import ast
import filecmp
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from duetbench.core.model import Case, InterpreterRecord
from duetbench.core.text import some
from duetbench.host import paths
from duetbench.judge import revisions
from duetbench.judge.counted import MOST_PATHS
from duetbench.judge.matching import package_changes, relocked
from duetbench.judge.pairs import Pair, Side, Sides
from duetbench.project.servers import SERVERS
from duetbench.store.comparison import PackageChange

EVERYTHING: Final = "asked for with --all"

_NAMED: Final = 3  # packages or files in a reason; the others are counted
_NAMED_OF_NONE: Final = 5  # packages where there is nothing to judge
_DOCUMENTS: Final = frozenset({".md", ".rst"})

CODE: Final = "files that no application imports"

_AROUND: Final = frozenset(
    {
        ".circleci", ".gitattributes", ".github", ".gitignore", ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diff:
    """How the two sides differ.

    `same` are files that do not differ in code that is executed; see `same_code`.
    """

    files: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)  # name → how it differs
    part: Callable[[str], str] = lambda _path: ""  # as `Subject.part`
    reads: Callable[[str, Case], bool] = lambda _path, _case: True  # as `Subject.reads`
    relocked: bool = False  # whether a lock differs, perhaps in nothing that is installed here


def find(
    sides: Sides,
    diff: Diff | None = None,
    loaded: Mapping[str, frozenset[str]] = MappingProxyType({}),
    *,
    everything: bool = False,
) -> Sides:
    """Select the cases that the change can affect, by both sides' files and environments.

    `diff` is the `difference` of the sides, if already known. `loaded` are the Python files that
    the requests of observed cases load on either side.
    """
    diff = diff or difference(sides)
    pairs, untouched = [], 0
    for pair in sides.pairs:
        case = pair.case
        known = loaded.get(case.id) if all(_is_whole(part.case) for part in pair.sides) else None
        reason = pair.reason or reason_for(case, diff, known)
        if reason := reason or (EVERYTHING if everything else ""):
            pairs.append(Pair(pair.base, pair.head, reason, mixed=pair.mixed))
        else:
            untouched += 1
    return replace(
        sides,
        pairs=tuple(pairs),
        packages=diff.packages,
        untouched=untouched,
        empty_reason="" if pairs else _nothing(diff, lone=bool(sides.missing and not untouched)),
    )


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
    return Diff(
        files=tuple(path for path in changed if path not in same),
        same=same,
        packages=package_changes(base.testbed, head.testbed),
        relocked=bool(relocked(base.testbed, head.testbed)),
        interpreters=interpreter_changes(base.record.interpreters, head.record.interpreters),
        part=head.subject.part,
        reads=lambda path, case: any(side.subject.reads(path, case) for side in (base, head)),
    )


def _is_whole(case: Case) -> bool:
    """Whether the observed requests of a case load all code that a launch of it may run.

    Commands and a server's settings may run more, and of many paths only some are observed.
    """
    more = case.before or case.after or case.server_args or SERVERS[case.server].settings
    return not more and len(case.endpoint.paths) < MOST_PATHS


def _without_effect(path: str, base: Side, head: Side) -> bool:
    """Whether a file is lent and equal on both sides, or shows elsewhere."""
    if path in base.lent | head.lent:
        return filecmp.cmp(base.root / path, head.root / path, shallow=False)
    if head.subject.is_compared(path):
        return True
    return path == "pyproject.toml" and paths.other_keys(base.root) == paths.other_keys(head.root)


def reason_for(case: Case, diff: Diff, loaded: frozenset[str] | None = None) -> str:
    """Say why a change can affect a case; empty if it cannot.

    `loaded` are the Python files that it loads on either side; None: not known.
    """
    interpreter = diff.interpreters.get(case.python)
    files = [
        path
        for path in diff.files
        if affects(path, case, diff)
        and (loaded is None or not path.endswith(".py") or path in loaded)
    ]
    reasons = (
        f"interpreter {case.python}: {interpreter}" if interpreter else "",
        some([str(move) for move in diff.packages if move.stack == case.stack], _NAMED),
        some(files, _NAMED),
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


def affects(path: str, case: Case, diff: Diff) -> bool:
    """Whether the case's application may read a changed file."""
    return not _kind(path) and diff.reads(path, case)


def _nothing(diff: Diff, *, lone: bool) -> str:
    """Say why there is nothing to judge; `lone`: the sides have no case in common."""
    areas = sorted({_kind(path) or diff.part(path) or CODE for path in diff.files})
    reasons = ["the sides have no case in common"] if lone else []
    if diff.packages:
        moved = some([*map(str, diff.packages)], _NAMED_OF_NONE)
        reasons.append(f"no measured case has the packages that moved ({moved})")
    elif diff.relocked:
        reasons.append("both locks install the same files here")
    if areas:
        reasons.append(f"only {' and '.join(areas)} differ, and no measured case depends on them")
    if diff.same:
        names = some(diff.same, _NAMED)
        reasons.append(
            f"same code: only comments, layout, requirements or the version differ in {names}"
        )
    return f"{'; '.join(reasons or ['base and head do not differ'])}."


def _kind(path: str) -> str:
    """Name the kind of a file that no application reads; empty: it may be read."""
    place = PurePosixPath(path.replace("../", ""))  # the place around the folder does not matter
    if place.suffix in _DOCUMENTS or str(place) == "LICENSE":
        return "documents"
    return "files for git or CI" if place.parts[0] in _AROUND else ""


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
