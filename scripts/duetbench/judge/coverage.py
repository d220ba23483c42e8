"""Finds the functions that differ between two revisions, and which of them the requests enter.

If the requests enter none of them, "no change" says nothing about the changed code. The syntax
trees of both sides show which functions differ; `effects` shows which are entered on either side,
and `live` which the servers run beside requests. If they run none either, and nothing but functions
differs, there is nothing to measure. What is not sure counts as running.
"""

import ast
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from duetbench.core.text import some
from duetbench.judge import affected, live
from duetbench.judge.affected import Diff
from duetbench.judge.pairs import Sides
from duetbench.measure.effects.observation import Name
from duetbench.store.comparison import Coverage

MISSED: Final = 20
"""Most functions that the record names, of those entered and of the others."""

_OUTSIDE: Final = ""
"""Stands for the code outside of all functions, instead of a function's name."""

_COMPILERS: Final = re.compile(rb"\b(cython|numba|taichi|torch)\b")

_TESTS: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|conftest\.py$|[^/]*_test\.py$)")


def find(
    sides: Sides, diff: Diff, entered: Mapping[str, frozenset[Name]], *, everything: bool = False
) -> Coverage | None:
    """Find whether the judged requests run code that differs; None if the sides' code is the same.

    `diff` is the difference of the sides, `entered` what the requests of each case enter. If they
    enter none of it, the servers are started once to see whether they do, unless `everything` is
    measured anyway.
    """
    if sides.empty_reason or not (sides.base.tree and sides.head.tree):
        return None
    readable = [
        path for path in diff.files if affected.may_be_read(path, diff) and not _TESTS.search(path)
    ]
    files = [path for path in readable if path.endswith(".py")]
    roots = sides.base.root, sides.head.root
    differ = {f for path in files for f in differing(path, *roots)}
    outside = {path for path, name in differ if name == _OUTSIDE}
    functions = {function for function in differ if function[1] != _OUTSIDE}
    if not files or (functions and not entered):
        return None
    cases = {case: len(functions & names) for case, names in entered.items() if functions}
    reached = functions & {f for names in entered.values() for f in names}
    missed = sorted(f"{name} in {path}" for path, name in functions - reached)
    alone = not (outside or diff.packages or diff.interpreters or len(readable) > len(files))
    covered = Coverage(
        differ=len(functions),
        entered=len(reached),
        cases=cases,
        missed=tuple(missed[:MISSED]),
        functions=_places(reached, sides),
        outside=len(outside),
        alone=alone and len(cases) == len(sides.pairs),
    )
    if not functions or reached:
        return covered
    update: dict[str, object] = {}
    if covered.alone and not everything and all(only_bodies(path, *roots) for path in files):
        names = live.entered(sides.pairs)
        if isinstance(names, str):
            update = {"doubt": names}
        elif running := functions & names:
            return covered.model_copy(update={"server": _places(running, sides)})
        else:
            used = {user for root in roots for user in users(functions, names, root)}
            doubt = f"{some(_places(used, sides), 1)} uses what differs" if used else ""
            update = {"doubt": doubt, "idle": not used}
    paths = live.reaching(sides.pairs[0], functions)
    return covered.model_copy(update={**update, "paths": paths})


def _places(functions: Collection[Name], sides: Sides) -> tuple[str, ...]:
    return tuple(sorted(_place(path, name, sides) for path, name in functions)[:MISSED])


def _place(path: str, name: str, sides: Sides) -> str:
    """Describe a function by its line on the side that has it: `item, shop/main.py:17`."""
    for root in (sides.head.root, sides.base.root):
        if (root / path).is_file() and (line := lines((root / path).read_bytes()).get(name)):
            return f"{name}, {path}:{line}"
    return f"{name}, {path}"


def lines(source: bytes) -> dict[str, int]:
    """List the line of each function of a module, by its qualified name."""
    cutter = _Cutter()
    cutter.visit(affected.parse(source))
    return cutter.lines


def differing(path: str, base: Path, head: Path) -> set[Name]:
    """List the functions of a file that differ between two folders; if not Python, all of it."""
    try:
        before, after = (
            outline((root / path).read_bytes()) if (root / path).is_file() else {}
            for root in (base, head)
        )
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {(path, _OUTSIDE)}
    names = before.keys() | after.keys()
    return {(path, name) for name in names if before.get(name, "") != after.get(name, "")}


def outline(source: bytes) -> dict[str, str]:
    """Dump what a module executes by qualified name of function, each without nested functions."""
    cutter, tree = _Cutter(), affected.parse(source)
    cutter.visit(tree)
    return {_OUTSIDE: ast.dump(tree), **cutter.functions}


def only_bodies(path: str, base: Path, head: Path) -> bool:
    """Whether a file differs only in what its functions execute when they are called.

    A function that came or went may only be a plain one of the module: a method may replace that of
    another class. What a compiler may execute is not seen by the interpreter.
    """
    try:
        sources = [(root / path).read_bytes() for root in (base, head)]
        names = [outline(source).keys() for source in sources]
        frames = [_frame(source, names[0] ^ names[1]) for source in sources]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return frames[0] == frames[1] and not any(map(_COMPILERS.search, sources))


def _frame(source: bytes, lone: Collection[str]) -> str:
    """Dump a module without the bodies of its functions, and without the plain ones in `lone`."""
    tree, kinds = affected.parse(source), (ast.FunctionDef, ast.AsyncFunctionDef)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, kinds) and node.name in lone and not node.name.startswith("__"))
        or node.decorator_list
    ]
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            node.body = []
    return ast.dump(tree)


def users(functions: Collection[Name], entered: Collection[Name], root: Path) -> set[Name]:
    """List the entered functions that name one of others, so that they may call it later."""
    names = {name.rpartition(".")[2] for _, name in functions}
    words = [f"{kind}='{name}'" for name in names for kind in ("id", "attr")]
    found = set()
    for path in {path for path, _ in entered if (root / path).is_file()}:
        try:
            bodies = outline((root / path).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        using = {name for name, body in bodies.items() if any(word in body for word in words)}
        found |= {(path, name) for name in using} & set(entered)
    return found


class _Cutter(ast.NodeTransformer):
    """Cuts functions out of a tree; what their definition evaluates stays in place."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.lines: dict[str, int] = {}
        self._place = ""

    def visit(self, node: ast.AST) -> ast.AST | None:
        # Imports are left out: functions that use a new one differ themselves.
        if isinstance(node, ast.Import | ast.ImportFrom):
            return None
        result: ast.AST | None = super().visit(node)
        return result

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
        around, name = self._place, f"{self._place}{node.name}"
        self._place = f"{name}.<locals>."
        body = [part for child in node.body if (part := self.visit(child)) is not None]
        self._place = around
        self.lines.setdefault(name, node.lineno)
        parts = (type(node).__name__, *map(ast.dump, (node.args, *body)))
        # Setters have the same name as their property.
        self.functions[name] = "\n".join((self.functions.get(name, ""), *parts))
        here = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        return ast.Tuple(here, ast.Load()) if here else None

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        around, self._place = self._place, f"{self._place}{node.name}."
        self.generic_visit(node)
        self._place = around
        return node
