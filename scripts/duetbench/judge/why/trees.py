"""Aligns the call trees of both sides.

A function that stands between two others on one side only, such as a middleware that was put in,
would make everything below it different. So what is called below such a function is lifted to the
place where the other side calls it, as long as that makes the sides more alike; the function keeps
what it executes itself and what only its side has. Nothing is lost or counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from duetbench.judge.why.naming import Name

_ALIKE: Final = 0.5
"""Work that differs by a larger share of itself is not the same work in two places."""

Paths = Mapping[tuple[Name, ...], Mapping[str, float]]
"""Instructions that the innermost function of each chain executes itself, by symbol."""

Take = Callable[[Name, "Tree"], bool | None]
"""Whether a function is taken out of a tree (True), stays (False), or is searched (None)."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A function in one place: what it executes itself, by symbol, and what it calls."""

    own: Mapping[str, float] = field(default_factory=dict)
    below: Mapping[Name, Tree] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.own.values()) + sum(tree.total for tree in self.below.values())

    def symbols(self) -> Counter[str]:
        """Instructions of it and all below it, by symbol."""
        return sum((tree.symbols() for tree in self.below.values()), Counter(self.own))


EMPTY: Final = Tree()


@dataclass(frozen=True, slots=True)
class Aligned:
    """A function in one place of both trees; a side that does not have it executes nothing."""

    base: Tree
    head: Tree
    below: Mapping[Name, Aligned]


def grow(paths: Paths) -> Tree:
    """Make a side's tree; its root calls the outermost functions."""
    own: Counter[str] = Counter(paths.get((), {}))
    branches: dict[Name, dict[tuple[Name, ...], Mapping[str, float]]] = {}
    for path, symbols in paths.items():
        if path:
            branches.setdefault(path[0], {})[path[1:]] = symbols
    return Tree(own, {name: grow(branch) for name, branch in branches.items()})


def align(base: Tree, head: Tree) -> Aligned:
    """Lay one tree over the other."""
    base = _lifted_where_called(base, head)
    head = _lifted_where_called(head, base)
    base, head = _lifted_from_both(base, head)
    below = {
        name: align(base.below.get(name, EMPTY), head.below.get(name, EMPTY))
        for name in dict.fromkeys((*head.below, *base.below))
    }
    return Aligned(base, head, below)


def _lifted_where_called(side: Tree, other: Tree) -> Tree:
    """Lift out of functions that only this side calls here what the other side calls here."""
    below = dict(side.below)

    def take(name: Name, tree: Tree) -> bool | None:
        if name not in other.below:
            return None
        lacking = other.below[name].total - below.get(name, EMPTY).total
        # Otherwise it is more work, and that of the function that calls it.
        if abs(lacking - tree.total) >= abs(lacking):
            return False
        below[name] = _merged(below.get(name, EMPTY), tree)
        return True

    for name, tree in side.below.items():
        if name not in other.below:
            below[name] = _without(tree, take)
    return Tree(side.own, below)


def _lifted_from_both(base: Tree, head: Tree) -> tuple[Tree, Tree]:
    """Lift out of functions that only one side calls here what both call below such functions."""
    only = tuple(
        [tree for name, tree in side.below.items() if name not in other.below]
        for side, other in ((base, head), (head, base))
    )
    sums = tuple(_totals(trees) for trees in only)
    here = base.below.keys() | head.below.keys()
    alike = {
        name
        for name in sums[0].keys() & sums[1].keys() - here
        if abs(sums[0][name] - sums[1][name]) <= _ALIKE * max(sums[0][name], sums[1][name])
    }

    def lifted(side: Tree, other: Tree) -> Tree:
        below = dict(side.below)

        def take(name: Name, tree: Tree) -> bool | None:
            if name not in alike:
                return None
            below[name] = _merged(below.get(name, EMPTY), tree)
            return True

        for name, tree in side.below.items():
            if name not in other.below:
                below[name] = _without(tree, take)
        return Tree(side.own, below)

    return lifted(base, head), lifted(head, base)


def _without(tree: Tree, take: Take) -> Tree:
    """The tree without what is taken out of it, outermost functions first."""
    below = {}
    for name, inner in tree.below.items():
        taken = take(name, inner)
        if not taken:
            below[name] = _without(inner, take) if taken is None else inner
    return Tree(tree.own, below)


def _merged(tree: Tree, other: Tree) -> Tree:
    """Add two trees of the same place."""
    below = dict(tree.below)
    for name, inner in other.below.items():
        below[name] = _merged(below[name], inner) if name in below else inner
    return Tree(_sum(tree.own, other.own), below)


def _sum(own: Mapping[str, float], other: Mapping[str, float]) -> Mapping[str, float]:
    total = Counter(own)
    total.update(other)
    return total


def _totals(trees: list[Tree]) -> Mapping[Name, float]:
    """Sum each function below some trees, with all that it calls, wherever it stands."""
    totals: dict[Name, float] = {}
    for name, total in (descendant for tree in trees for descendant in _descendants(tree)):
        totals[name] = totals.get(name, 0.0) + total
    return totals


def _descendants(tree: Tree) -> Iterator[tuple[Name, float]]:
    for name, inner in tree.below.items():
        yield name, inner.total
        yield from _descendants(inner)
