"""Finds what differs between two sides: the cases that it can affect, and the functions.

Only cases that a change can affect are judged, and each says why. A wrong "not affected" would be
the only harmful mistake, so anything unknown counts as affected.

- An interpreter affects its cases, and a package all cases of its stack.
- A file affects the cases that may read it (`Subject.reads`), except a Python file that the
  observed requests of a case load on neither side (`Observations.loaded`), a document, or a file
  for git or CI, and a file whose code is the same on both sides.
- Declarations and locks affect nothing: the cases and packages that they lead to are compared.

If the requests enter none of the functions that differ, "no change" says nothing about them. The
syntax trees of both sides show which differ, and `effects` which are entered on either side.
"""

import ast
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from duetbench.app import revisions
from duetbench.app.declarations import read_pyproject
from duetbench.app.in_process import MOST_PATHS
from duetbench.app.servers import SERVERS
from duetbench.app.testbed import Testbed
from duetbench.core.comparison import Coverage, PackageChange, differences
from duetbench.core.errors import DeclarationError
from duetbench.core.model import Case, InterpreterRecord
from duetbench.core.text import some
from duetbench.effects.activity import Name
from duetbench.host import git
from duetbench.judge.pairs import Sides

EVERYTHING: Final = "asked for with --control"

MISSED: Final = 20
"""Most functions that the record names, of those entered and of the others."""

_NAMED: Final = 3  # packages or files in a sentence; the others are counted
_UNREAD: Final = re.compile(
    r"LICENSE$|.*\.(md|rst)$"
    r"|\.(circleci|gitattributes|github|gitignore|gitlab-ci\.yml|pre-commit-config\.yaml)(/|$)"
)
"""Documents, and files for git or CI, which no application reads."""
_TESTS: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|conftest\.py$|[^/]*_test\.py$)")
_VERSION: Final = re.compile(rb"""^__version__ *= *(["'])\d[\w.+-]*\1""", re.M)
_OUTSIDE, _WHOLE, _FOREIGN = "", "*", "?"
"""Instead of a function's name: the code outside of all, all code, and what this
Python cannot read, such as a newer one's syntax."""


@dataclass(frozen=True, slots=True)
class Diff:
    """How the two sides differ; `files` are those that changed, each with what `differing` says."""

    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    packages: tuple[PackageChange, ...] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)  # name → how it differs
    reads: Callable[[str, Case], bool] = lambda _path, _case: True  # as `Subject.reads`

    def affects(self, case: Case, path: str) -> bool:
        """Whether the case's application may read a changed file."""
        place = path.replace("../", "")  # the place around the folder does not matter
        return not _UNREAD.match(place) and self.reads(path, case)

    def reason(self, case: Case, loaded: frozenset[str] | None) -> str:
        """Say why the change can affect a case; empty if it cannot.

        `loaded` are the Python files that it loads on either side; None: not known.
        """
        files = [
            path
            for path, differs in self.files.items()
            if differs and (not loaded or path in loaded or not path.endswith(".py"))
            if self.affects(case, path)
        ]
        differs = self.interpreters.get(case.python)
        reasons = (
            f"interpreter {case.python}: {differs}" if differs else "",
            some([str(move) for move in self.packages if move.stack == case.stack], _NAMED),
            some(files, _NAMED),
        )
        return "; ".join(filter(None, reasons))

    def nothing(self) -> str:
        """Say why there is no case to judge."""
        if self.packages:
            names = some([*map(str, self.packages)], _NAMED)
            return f"no measured case has the packages that moved ({names})."
        if files := [path for path, differs in self.files.items() if differs]:
            return f"no measured case depends on what differs: {some(files, _NAMED)}."
        if self.files:
            what = "only comments, layout, requirements or the version differ in"
            return f"same code: {what} {some([*self.files], _NAMED)}."
        return "base and head do not differ."


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
    pairs = []
    for pair in sides.pairs:
        whole = all(_is_whole(part.case) for part in pair.sides)
        reason = pair.reason or diff.reason(pair.case, loaded.get(pair.case.id) if whole else None)
        if reason := reason or EVERYTHING * everything:
            pairs.append(replace(pair, reason=reason))
    lone = sides.missing and not sides.pairs
    nothing = "the sides have no case in common." if lone else diff.nothing()
    return replace(
        sides,
        pairs=tuple(pairs),
        packages=diff.packages,
        untouched=len(sides.pairs) - len(pairs),
        empty_reason="" if pairs else nothing,
    )


def _is_whole(case: Case) -> bool:
    """Whether the observed requests of a case load all code that a launch of it may run.

    Commands and a server's settings may run more, and of many paths only some are observed.
    """
    more = case.before or case.after or case.server_args or SERVERS[case.server].settings
    return not more and len(case.endpoint.paths) < MOST_PATHS


def changed_files(root: Path, base: str, head: str) -> tuple[str, ...]:
    """List the files that differ between two trees, as paths from the root, without results.

    If the root is a folder within its repository, paths outside of it begin with `../`.
    """
    output = git.ask(root, "diff-tree", "-r", "-z", "--no-renames", "--name-only", base, head)
    folder = revisions.within(root)
    paths_ = (os.path.relpath(path, folder) for path in output.split("\0") if path)
    return tuple(path for path in paths_ if not path.startswith("results/"))


def difference(sides: Sides) -> Diff:
    """Find how both sides' files and environments differ."""
    base, head = sides.base, sides.head
    trees = (base.tree, head.tree) if base.tree and head.tree else None
    changed = changed_files(sides.repository, *trees) if trees else ()
    return Diff(
        files={path: differing(path, base.root, head.root) for path in changed},
        packages=package_changes(base.testbed, head.testbed),
        interpreters=interpreter_changes(base.record.interpreters, head.record.interpreters),
        reads=lambda path, case: any(side.subject.reads(path, case) for side in (base, head)),
    )


def package_changes(base: Testbed, head: Testbed) -> tuple[PackageChange, ...]:
    """List the packages whose versions differ in common stacks."""
    return tuple(
        change
        for stack in sorted(base.stacks.keys() & head.stacks.keys())
        for change in differences(stack, base.stacks[stack].packages, head.stacks[stack].packages)
    )


def interpreter_changes(
    base: Sequence[InterpreterRecord], head: Sequence[InterpreterRecord]
) -> dict[str, str]:
    """Describe how interpreters of the same name differ: name → description."""
    before = {old.name: old for old in base}
    return {
        new.name: "built differently"
        if old.version == new.version
        else f"{old.version} → {new.version}"
        for new in head
        if (old := before.get(new.name, new)) != new
    }


def cover(sides: Sides, diff: Diff, entered: Mapping[str, frozenset[Name]]) -> Coverage | None:
    """Find whether the judged requests run code that differs; None if the sides' code is the same.

    `diff` is the difference of the sides, `entered` what the requests of each case enter.
    """
    paths = [
        path
        for path, differs in diff.files.items()
        if differs and not _TESTS.search(path)
        if any(diff.affects(pair.case, path) for pair in sides.pairs)
    ]
    lines = {
        (path, name): line
        for path in paths
        if path.endswith(".py")
        for name, line in diff.files[path].items()
    }
    known = [entered[pair.case.id] for pair in sides.pairs if pair.case.id in entered]
    functions = {of for of in lines if of[1] not in {_OUTSIDE, _WHOLE, _FOREIGN}}
    names = [name for _, name in lines]
    if not lines or _FOREIGN in names or (functions and not known):
        return None
    reached = functions.intersection(frozenset[Name]().union(*known))
    missed = sorted(f"{name} in {path}" for path, name in functions - reached)
    places = sorted(f"{name}, {path}:{lines[path, name]}" for path, name in reached)
    other = any(not path.endswith(".py") for path in paths) or diff.packages or diff.interpreters
    whole = len(known) == len(sides.pairs)
    return Coverage(
        differ=len(functions),
        entered=len(reached),
        missed=tuple(missed[:MISSED]),
        functions=tuple(places[:MISSED]),
        outside=names.count(_OUTSIDE),
        alone=bool(functions) and not other and _OUTSIDE not in names and whole,
    )


def differing(path: str, base: Path, head: Path) -> dict[str, int]:
    """List what a file executes differently in two folders, with lines; nothing if it does not.

    These are functions, the code outside of them, and the whole. Comments, layout, and a project's
    version and requirements are not executed. Functions that differ are never the same, even if no
    request enters them: a single request does not show what many at once enter (a queue, a retry,
    an exhausted pool). What cannot be read, or is not Python, always differs.
    """
    try:
        before, after = (_outline(root / path) for root in (base, head))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {_FOREIGN: 0}
    lines = {name: line for outline in (before, after) for (name, _), line in outline.items()}
    return {name: lines[name] for name, _ in before.keys() ^ after.keys()}


def _outline(file: Path) -> dict[tuple[str, str], int]:
    """Dump all that a file executes, and each function without those in it, with its line."""
    if file.name == "pyproject.toml":
        return {(_WHOLE, _metadata(file.parent)): 0}
    if file.suffix != ".py":
        raise ValueError(file.suffix)
    if not file.is_file():
        return {}
    cutter, tree = _Cutter(), ast.parse(_VERSION.sub(b"__version__ = '0'", file.read_bytes()))
    whole = ast.dump(tree)
    cutter.visit(tree)
    functions = {(name, text): line for name, (text, line) in cutter.functions.items()}
    return {(_WHOLE, whole): 0, (_OUTSIDE, ast.dump(tree)): 0, **functions}


def _metadata(root: Path) -> str:
    """Dump a project's metadata without its version, requirements (packages count), or our keys."""
    try:
        metadata = read_pyproject(root)
    except DeclarationError:
        metadata = {}
    left_out = {"version", "requires-python", "dependencies", "optional-dependencies"}
    project = {k: v for k, v in metadata.get("project", {}).items() if k not in left_out}
    tools = {name: table for name, table in metadata.get("tool", {}).items() if name != "duetbench"}
    all_ = {**metadata, "project": project, "dependency-groups": {}, "tool": tools}
    return json.dumps(all_, default=str, sort_keys=True)


class _Cutter(ast.NodeTransformer):
    """Cuts functions out of a tree, and imports: functions that use a new one differ themselves."""

    def __init__(self) -> None:
        self.functions: dict[str, tuple[str, int]] = {}
        self._place = ""

    def visit(self, node: ast.AST) -> ast.AST | None:
        around, name = self._place, getattr(node, "name", "")
        if isinstance(node, ast.Import | ast.ImportFrom):
            return None
        if isinstance(node, ast.ClassDef):
            self._place += f"{name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._place += f"{name}.<locals>."
        self.generic_visit(node)
        self._place = around
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node
        # Setters have the same name as their property.
        text, line = self.functions.get(around + name, ("", node.lineno))
        self.functions[around + name] = f"{text}\n{ast.dump(node)}", line
        return None
