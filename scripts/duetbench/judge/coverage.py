"""Finds the functions that differ between two revisions, and which of them the requests enter.

If the requests enter none of them, "no change" says nothing about the changed code. The syntax
trees of both sides show which functions differ. The interpreter's own events show, without a
server, which functions are entered on either side; this is exact.
"""

import ast
import os
import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from duetbench.core.errors import CountError
from duetbench.core.text import short
from duetbench.judge import affected, counted
from duetbench.judge.affected import Diff
from duetbench.judge.counted import LONGEST
from duetbench.judge.pairs import Pair, Sides
from duetbench.measure.instructions import profiling
from duetbench.measure.testbed import SideCase
from duetbench.store.comparison import Coverage

SECONDS: Final = 30.0
"""Time limit for the requests of one environment, which take 1 to 2 s, mostly for imports."""

MISSED: Final = 20
"""Most functions that the record names, of those entered and of the others."""

Function = tuple[str, str]
"""A function's file, from the side's root, and its qualified name."""

_OUTSIDE: Final = ""
"""Stands for the code outside of all functions, instead of a function's name."""

_TESTS: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|conftest\.py$|[^/]*_test\.py$)")


def observe(sides: Sides, diff: Diff) -> tuple[Coverage | None, str]:
    """Find whether the judged requests run code that differs; or None, and why it is not known.

    `diff` is the difference of the sides. The reason is empty if the sides are no revisions, or
    their own code is the same.
    """
    if sides.empty_reason or not (sides.base.tree and sides.head.tree):
        return None, ""
    readable = [
        path for path in diff.files if affected.may_be_read(path, diff) and not _TESTS.search(path)
    ]
    files = [path for path in readable if path.endswith(".py")]
    differ = {f for path in files for f in differing(path, sides.base.root, sides.head.root)}
    outside = {path for path, name in differ if name == _OUTSIDE}
    functions = {function for function in differ if function[1] != _OUTSIDE}
    if not files:
        return None, ""
    try:
        entries = _find_entries(sides.pairs) if functions else {}
    except CountError as error:
        return None, f"which functions the requests enter was not observed: {short(str(error))}"
    cases = {
        pair.case.id: len(functions & entries[_code(pair)])
        for pair in sides.pairs
        if _code(pair) in entries
    }
    reached = functions & {f for names in entries.values() for f in names}
    entered = sorted(_place(path, name, sides) for path, name in reached)
    missed = sorted(f"{name} in {path}" for path, name in functions - reached)
    alone = not (outside or diff.packages or diff.interpreters or len(readable) > len(files))
    coverage = Coverage(
        differ=len(functions),
        entered=len(reached),
        cases=cases,
        missed=tuple(missed[:MISSED]),
        functions=tuple(entered[:MISSED]),
        outside=len(outside),
        alone=alone and len(cases) == len(sides.pairs),
    )
    return coverage, ""


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


def differing(path: str, base: Path, head: Path) -> set[Function]:
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


def _code(pair: Pair) -> Hashable:
    """Key that is equal for cases whose requests run the same code on any server or interpreter."""
    case = pair.case
    return case.stack, tuple(sorted(case.env.items())), case.experiment, case.endpoint.name


def _find_entries(pairs: Sequence[Pair]) -> Mapping[Hashable, set[Function]]:
    """Find what the requests of each code enter on either side; may raise CountError."""
    once = {_code(pair): pair for pair in pairs if pair.case.endpoint.takes <= LONGEST}
    groups: dict[Hashable, list[Hashable]] = defaultdict(list)
    for code, pair in once.items():
        environment = pair.case.python, pair.case.stack, tuple(sorted(pair.case.env.items()))
        # A copy of a target may be started only once.
        groups[code if counted.needs_workspace(pair.head) else environment].append(code)
    entries: dict[Hashable, set[Function]] = {}
    with ThreadPoolExecutor(2) as pool:  # each thread waits for its own process
        for codes in groups.values():
            sides = zip(*(once[code].sides for code in codes), strict=True)
            for functions in pool.map(_observe_side, sides):
                for code, names in zip(codes, functions, strict=True):
                    entries.setdefault(code, set()).update(names)
    return entries


def _observe_side(side: Sequence[SideCase]) -> list[set[Function]]:
    """Find what the requests of one side's cases enter."""
    testbed, units = side[0].testbed, [counted.unit(part) for part in side]
    with counted.program(side[0]) as program:
        entries = profiling.count_entries(
            program.python, program.payload, units, env=program.env, timeout=SECONDS
        )
        root = program.folder if testbed.target else testbed.apps.parent
        sets = []
        for unit in units:
            if isinstance(functions := entries[unit], str):
                raise CountError(functions)
            places = {(os.path.relpath(file, root), name) for name, file, _line in functions}
            sets.append(places)
    return sets
