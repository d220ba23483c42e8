"""Finds the functions that differ between two revisions, and which of them the requests enter.

If the requests enter none of them, "no change" says nothing about the changed code. The syntax
trees of both sides show which functions differ; `effects` shows which are entered on either side.
"""

import ast
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from duetbench.judge import affected
from duetbench.judge.affected import Diff
from duetbench.judge.pairs import Sides
from duetbench.measure.effects.observation import Name
from duetbench.store.comparison import Coverage

MISSED: Final = 20
"""Most functions that the record names, of those entered and of the others."""

_OUTSIDE: Final = ""
"""Stands for the code outside of all functions, instead of a function's name."""

_TESTS: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|conftest\.py$|[^/]*_test\.py$)")


def find(sides: Sides, diff: Diff, entered: Mapping[str, frozenset[Name]]) -> Coverage | None:
    """Find whether the judged requests run code that differs; None if the sides' code is the same.

    `diff` is the difference of the sides, `entered` what the requests of each case enter.
    """
    if sides.empty_reason or not (sides.base.tree and sides.head.tree):
        return None
    readable = [
        path
        for path in diff.files
        if any(affected.affects(path, pair.case, diff) for pair in sides.pairs)
        and not _TESTS.search(path)
    ]
    files = [path for path in readable if path.endswith(".py")]
    judged = {pair.case.id for pair in sides.pairs}
    entered = {case: names for case, names in entered.items() if case in judged}
    differ = {f for path in files for f in differing(path, sides.base.root, sides.head.root)}
    outside = {path for path, name in differ if name == _OUTSIDE}
    functions = {function for function in differ if function[1] != _OUTSIDE}
    if not files or (functions and not entered):
        return None
    cases = {case: len(functions & names) for case, names in entered.items() if functions}
    reached = functions & {f for names in entered.values() for f in names}
    missed = sorted(f"{name} in {path}" for path, name in functions - reached)
    alone = not (outside or diff.packages or diff.interpreters or len(readable) > len(files))
    return Coverage(
        differ=len(functions),
        entered=len(reached),
        cases=cases,
        missed=tuple(missed[:MISSED]),
        functions=_places(reached, sides),
        outside=len(outside),
        alone=alone and len(cases) == len(sides.pairs),
    )


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
