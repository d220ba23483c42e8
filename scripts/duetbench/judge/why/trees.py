"""Lays the calls of both sides over each other, as far as they are the same.

A function that stands between two others on one side only, as a middleware that was put in, would
make everything below it different. So what is below such a function is taken out of it, and put
where the other side has it, as long as that makes the sides more alike; the function keeps what it
executes itself, and what only its side has. Nothing is lost or counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from duetbench.judge.why.naming import Name

_ALIKE: Final = 0.5
"""What differs by a larger share of itself is not the same work in two places."""

Paths = Mapping[tuple[Name, ...], Mapping[str, float]]
"""What the innermost function of each chain executes itself, by symbol."""


@dataclass(slots=True)
class Tree:
    """A function in one place: what it executes itself, by symbol, and what it calls."""

    own: Counter[str] = field(default_factory=Counter)
    below: dict[Name, Tree] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.own.values()) + sum(tree.total for tree in self.below.values())

    def symbols(self) -> Counter[str]:
        """What it and all below it execute, by symbol."""
        return sum((tree.symbols() for tree in self.below.values()), Counter(self.own))

    def add(self, other: Tree) -> None:
        """Add what another does in the same place."""
        self.own.update(other.own)
        for name, tree in other.below.items():
            self.below.setdefault(name, Tree()).add(tree)


@dataclass(frozen=True, slots=True)
class Both:
    """A function in one place of both sides; one that is not there executes nothing."""

    base: Tree
    head: Tree
    below: Mapping[Name, Both]


def grow(paths: Paths) -> Tree:
    """Make a side's tree; its root is what calls the outermost functions."""
    root = Tree()
    for path, own in paths.items():
        tree = root
        for name in path:
            tree = tree.below.setdefault(name, Tree())
        tree.own.update(own)
    return root


def align(base: Tree, head: Tree) -> Both:
    """Lay one tree over the other; both are changed."""
    _take_out(base, head)
    _take_out(head, base)
    _take_out_of_both(base, head)
    names = dict.fromkeys((*head.below, *base.below))
    pairs = {name: (base.below.get(name), head.below.get(name)) for name in names}
    below = {name: align(one or Tree(), other or Tree()) for name, (one, other) in pairs.items()}
    return Both(base, head, below)


def _take_out(side: Tree, other: Tree) -> None:
    """Take out of functions that only one side has here what the other side has here."""
    for name, tree in list(side.below.items()):
        if name not in other.below:
            for parent, inner in _outermost(tree, other.below):
                present = side.below.get(inner)
                wanted = other.below[inner].total
                less = wanted - (present.total if present else 0.0)
                # Otherwise it is more work, and that of the function that calls it.
                if abs(less - parent.below[inner].total) < abs(less):
                    side.below.setdefault(inner, Tree()).add(parent.below.pop(inner))


def _take_out_of_both(base: Tree, head: Tree) -> None:
    """Take out of functions that only one side has here what both have below such functions."""
    only = (
        [tree for name, tree in base.below.items() if name not in head.below],
        [tree for name, tree in head.below.items() if name not in base.below],
    )
    sums: tuple[Counter[Name], ...] = (Counter(), Counter())
    for trees, found in zip(only, sums, strict=True):
        for tree in trees:
            for parent, name in _outermost(tree, None):
                found[name] += parent.below[name].total  # type: ignore[assignment]
    here = base.below.keys() | head.below.keys()
    alike = {
        name
        for name in sums[0].keys() & sums[1].keys() - here
        if abs(sums[0][name] - sums[1][name]) <= _ALIKE * max(sums[0][name], sums[1][name])
    }
    for side, trees in zip((base, head), only, strict=True):
        for tree in trees:
            for parent, name in _outermost(tree, alike):
                side.below.setdefault(name, Tree()).add(parent.below.pop(name))


def _outermost(tree: Tree, wanted: Iterable[Name] | None) -> Iterator[tuple[Tree, Name]]:
    """The outermost functions below one that are wanted (None: all of them), with callers."""
    for name, inner in list(tree.below.items()):
        if wanted is None or name in wanted:
            yield tree, name
        if wanted is None or name not in wanted:
            yield from _outermost(inner, wanted)
