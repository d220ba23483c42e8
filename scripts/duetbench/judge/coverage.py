"""Finds the functions that differ between two revisions, and those of them that the requests enter.

"No change" of requests that enter none of them says nothing about what was changed. Which functions
differ is read from the syntax trees of both sides; which ones are entered, on either side, is
observed without a server by the interpreter's own events, and is exact.
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
"""For the requests of one environment; a second or two measured, most of it for imports."""

MISSED: Final = 20
"""Functions that no request enters, of which the record has the names."""

Function = tuple[str, str]
"""File, from the side's root, and qualified name."""

_OUTSIDE: Final = ""
"""In place of a function's name: the code outside of all of them."""

_TESTS: Final = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|conftest\.py$|[^/]*_test\.py$)")


def observe(sides: Sides, diff: Diff) -> tuple[Coverage | None, str]:
    """Find whether the requests to be judged run what differs; None, and why, if nobody knows.

    `diff` is what differs between the sides. Of sides that are no revisions, or whose own code is
    the same, there is nothing to say.
    """
    if sides.nothing or not (sides.base.tree and sides.head.tree):
        return None, ""
    readable = [
        path for path in diff.files if affected.may_be_read(path, diff) and not _TESTS.search(path)
    ]
    files = [path for path in readable if path.endswith(".py")]
    differ = {one for path in files for one in differing(path, sides.base.root, sides.head.root)}
    outside = {path for path, name in differ if name == _OUTSIDE}
    functions = {one for one in differ if one[1] != _OUTSIDE}
    if not files:
        return None, ""
    try:
        entered = _entered(sides.pairs) if functions else {}
    except CountError as error:
        return None, f"which functions the requests enter was not observed: {short(str(error))}"
    cases = {
        pair.case.id: len(functions & entered[_code(pair)])
        for pair in sides.pairs
        if _code(pair) in entered
    }
    reached = functions & {one for every in entered.values() for one in every}
    missed = sorted(f"{name} in {path}" for path, name in functions - reached)
    alone = not (outside or diff.packages or diff.interpreters or len(readable) > len(files))
    coverage = Coverage(
        differ=len(functions),
        entered=len(reached),
        cases=cases,
        missed=tuple(missed[:MISSED]),
        outside=len(outside),
        alone=alone and len(cases) == len(sides.pairs),
    )
    return coverage, ""


def differing(path: str, base: Path, head: Path) -> set[Function]:
    """The functions of a file that differ between two folders; all of it where it is no Python."""
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
    """What a module executes by qualified names of functions, each without those inside it."""
    cutter, tree = _Cutter(), affected.parsed(source)
    cutter.visit(tree)
    return {_OUTSIDE: ast.dump(tree), **cutter.functions}


class _Cutter(ast.NodeTransformer):
    """Takes functions out of a tree; what is evaluated where they stand stays there."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self._place = ""

    def visit(self, node: ast.AST) -> ast.AST | None:
        # What is imported is used in functions, which differ then, or not at all.
        if isinstance(node, ast.Import | ast.ImportFrom):
            return None
        result: ast.AST | None = super().visit(node)
        return result

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
        around, name = self._place, f"{self._place}{node.name}"
        self._place = f"{name}.<locals>."
        body = [part for one in node.body if (part := self.visit(one)) is not None]
        self._place = around
        parts = (type(node).__name__, *map(ast.dump, (node.args, *body)))
        # Setters have the name of what they set.
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
    """Equal of cases whose requests run the same code: they differ in server or interpreter."""
    case = pair.case
    return case.stack, tuple(sorted(case.env.items())), case.experiment, case.endpoint.name


def _entered(pairs: Sequence[Pair]) -> Mapping[Hashable, set[Function]]:
    """Find what the requests of each code enter on either side; may raise CountError."""
    once = {_code(pair): pair for pair in pairs if pair.case.endpoint.takes <= LONGEST}
    groups: dict[Hashable, list[Hashable]] = defaultdict(list)
    for code, pair in once.items():
        environment = pair.case.python, pair.case.stack, tuple(sorted(pair.case.env.items()))
        # A target may be started once only in its files.
        groups[code if pair.head.testbed.target else environment].append(code)
    found: dict[Hashable, set[Function]] = {}
    with ThreadPoolExecutor(2) as pool:  # each waits for a process of its own
        for codes in groups.values():
            sides = zip(*(once[code].sides for code in codes), strict=True)
            for functions in pool.map(_observed, sides):
                for code, those in zip(codes, functions, strict=True):
                    found.setdefault(code, set()).update(those)
    return found


def _observed(side: Sequence[SideCase]) -> list[set[Function]]:
    """Find what the requests of one side's cases enter."""
    testbed, units = side[0].testbed, [counted.unit(one) for one in side]
    with counted.program(side[0]) as program:
        observed = profiling.count_entries(
            program.python, program.payload, units, env=program.env, timeout=SECONDS
        )
        root = program.folder if testbed.target else testbed.apps.parent
        entered = []
        for unit in units:
            if isinstance(functions := observed[unit], str):
                raise CountError(functions)
            places = {(os.path.relpath(file, root), name) for name, file, _line in functions}
            entered.append(places)
    return entered
