"""Finds the cases that a change can affect: only these are judged, and each says why.

A wrong "not affected" would be the only harmful mistake, so anything unknown counts as affected.

- An interpreter affects its cases, and a package all cases of its stack.
- A file of an experiment affects the experiments whose files name that folder, and any other file
  every case, except a Python file that the observed requests of a case load on neither side
  (`Seen.loaded`).
- Declarations and locks affect nothing: the cases and packages that they lead to are compared.
- The harness (in our own repository), documents, results, and files for git or CI affect nothing,
  nor does a file whose code is the same on both sides.
"""

import ast
import filecmp
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
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
from duetbench.project.deployed_target import DeployedTarget
from duetbench.project.pyproject import FILE as TARGET
from duetbench.project.schema import ANCHOR, FILE, PUBLISHED
from duetbench.project.servers import SERVERS
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

    `same` are files that do not differ in code that is executed; see `same_code`.
    """

    files: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)  # name → how it differs
    users: Mapping[str, frozenset[str]] = field(default_factory=dict)  # see `_users`
    own: bool = True  # whether it is our own repository, which holds the harness
    target: bool = False  # whether options or a few keys declare the application
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
    target = isinstance(head.subject, DeployedTarget)
    own = paths.other_keys(sides.repository).get("project", {}).get("name") == "duetbench"
    return Diff(
        files=tuple(path for path in changed if path not in same),
        same=same,
        packages=package_changes(base.testbed, head.testbed),
        relocked=bool(relocked(base.testbed, head.testbed)),
        interpreters=interpreter_changes(base.record.interpreters, head.record.interpreters),
        users=_users(base.root, head.root),
        own=not target and own,
        target=target,
    )


def _users(*roots: Path) -> dict[str, frozenset[str]]:
    """Map each experiment's folder in `apps/` to the experiments whose code may use its files.

    They are itself, and those whose Python files have its name as a word.
    """
    files = [file for root in roots for file in (root / "apps").glob(f"*/{FILE}")]
    code: dict[str, str] = {}
    for folder in [file.parent for file in files]:
        places = filter(Path.is_file, (*folder.rglob("*.py"), *folder.parent.glob("*.py")))
        texts = (place.read_text("utf-8", "replace") for place in places)
        code[folder.name] = "\n".join((code.get(folder.name, ""), *texts))
    return {
        name: frozenset(
            user
            for user in code
            if user == name or re.search(rf"\b{re.escape(name)}\b", code[user])
        )
        for name in code
    }


def _is_whole(case: Case) -> bool:
    """Whether the observed requests of a case load all code that a launch of it may run.

    Commands and a server's settings may run more, and of many paths only some are observed.
    """
    more = case.before or case.after or case.server_args or SERVERS[case.server].settings
    return not more and len(case.endpoint.paths) < MOST_PATHS


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


def reason_for(case: Case, diff: Diff, loaded: frozenset[str] | None = None) -> str:
    """Say why a change can affect a case; empty if it cannot.

    `loaded` are the Python files that it loads on either side; None: not known.
    """
    interpreter = diff.interpreters.get(case.python)
    files = [
        path
        for path in diff.files
        if _affects(path, case, diff)
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


def _affects(path: str, case: Case, diff: Diff) -> bool:
    """Whether the case's application may read a changed file."""
    if not may_be_read(path, diff):
        return False
    parts = PurePosixPath(path).parts
    if parts[0] != "apps" or diff.target:  # a target's own folder may be called apps
        return True
    # Packages are compared one by one, and no application loads the anchor.
    if parts[1] == "stacks" or path in {"apps/pyproject.toml", f"apps/{ANCHOR}"}:
        return False
    declares = parts[2:] in ((FILE,), (PUBLISHED,))
    users = diff.users.get(parts[1])
    return users is None or (case.experiment in users and not declares)


def _nothing(diff: Diff, *, lone: bool) -> str:
    """Say why there is nothing to judge; `lone`: the sides have no case in common."""
    areas = sorted({_area(path, own=diff.own) for path in diff.files})
    reasons = ["the sides have no case in common"] if lone else []
    if diff.packages:
        moved = some([*map(str, diff.packages)], _NAMED_OF_NONE)
        reasons.append(f"no measured case has the packages that moved ({moved})")
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
    return f"{'; '.join(reasons or ['base and head do not differ'])}."


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
