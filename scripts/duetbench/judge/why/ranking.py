"""Ranks functions by their part of a change: rows, packages, and the tree of calls. Pure.

The call trees of both sides are laid over each other. A function that stands between two others on
one side only, such as a middleware that was put in, would make everything below it different. So
what is called below such a function is lifted to the place where the other side calls it, as long
as that makes the sides more alike; the function keeps what it executes itself and what only its
side has. Nothing is lost or counted twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duetbench.measure.instructions.profiling import TRAMPOLINE
from duetbench.store.attribution import Function, Native, Node, PackageTotal, Row

DRIVER: Final = "duetbench"
"""Stands for a package where code is that which sends requests inside the process."""

PRUNED: Final = 0.002
"""Functions with a smaller share of the total on both sides are not in the tree."""

NATIVE: Final = 6
"""Symbols of a row that are kept: those that moved most."""

_ALIKE: Final = 0.5
"""Work that differs by a larger share of itself is not the same work in two places."""


class Name(NamedTuple):
    """A function: `store.attribution.Function` without its line."""

    name: str
    file: str
    package: str


ROOT: Final = Name("all", "", DRIVER)
"""The caller of the outermost functions."""

Paths = Mapping[tuple[Name, ...], Mapping[str, float]]
"""Instructions that the innermost function of each chain executes itself, by symbol."""

Take = Callable[[Name, "Tree", "Tree"], bool | None]
"""Whether a function is taken out of a tree (True), stays (False), or is searched (None), by what
it has there, and at the place to which it would be lifted."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A function in one place: what it executes itself, by symbol, and what it calls."""

    own: Mapping[str, float] = field(default_factory=dict)
    below: Mapping[Name, Tree] = field(default_factory=dict)
    total: float = field(init=False)

    def __post_init__(self) -> None:
        total = sum(self.own.values()) + sum(tree.total for tree in self.below.values())
        object.__setattr__(self, "total", total)  # it is asked for at every level above

    def symbols(self) -> Counter[str]:
        """Instructions of it and all below it, by symbol."""
        return sum((tree.symbols() for tree in self.below.values()), Counter(self.own))


EMPTY: Final = Tree()

_Branch = tuple[dict[str, float], dict[Name, "_Branch"]]


@dataclass(frozen=True, slots=True)
class Aligned:
    """A function in one place of both trees; a side that does not have it executes nothing."""

    base: Tree
    head: Tree
    below: Mapping[Name, Aligned]


def grow(paths: Paths) -> Tree:
    """Make a side's tree; its root calls the outermost functions."""
    root: _Branch = ({}, {})
    for path, symbols in paths.items():
        own, below = root
        for name in path:
            own, below = below.setdefault(name, ({}, {}))
        own.update(symbols)

    def tree(branch: _Branch) -> Tree:
        return Tree(Counter(branch[0]), {name: tree(one) for name, one in branch[1].items()})

    return tree(root)


def align(base: Tree, head: Tree) -> Aligned:
    """Lay one tree over the other."""
    base = _lift(base, head, _called_below(head))
    head = _lift(head, base, _called_below(base))
    alike = _alike(base, head)

    def take(name: Name, _tree: Tree, _here: Tree) -> bool | None:
        return True if name in alike else None

    base, head = _lift(base, head, take), _lift(head, base, take)
    below = {
        name: align(base.below.get(name, EMPTY), head.below.get(name, EMPTY))
        for name in dict.fromkeys((*head.below, *base.below))
    }
    return Aligned(base, head, below)


def _lift(side: Tree, other: Tree, take: Take) -> Tree:
    """Lift what is taken out of functions that only this side calls here."""
    below = dict(side.below)

    def rest(tree: Tree) -> Tree:
        """The tree without what is taken out of it, outermost functions first."""
        stays = {}
        for name, inner in tree.below.items():
            here = below.get(name, EMPTY)
            taken = take(name, inner, here)
            if taken:
                below[name] = _merged(here, inner)
            else:
                stays[name] = rest(inner) if taken is None else inner
        return Tree(tree.own, stays)

    for name, tree in side.below.items():
        if name not in other.below:
            below[name] = rest(tree)
    return Tree(side.own, below)


def _called_below(other: Tree) -> Take:
    """Take what the other side calls here, as far as this side lacks it."""

    def take(name: Name, tree: Tree, here: Tree) -> bool | None:
        if name not in other.below:
            return None
        lacking = other.below[name].total - here.total
        # Otherwise it is more work, and that of the function that calls it.
        return abs(lacking - tree.total) < abs(lacking)

    return take


def _alike(base: Tree, head: Tree) -> set[Name]:
    """What both call below functions that only one side calls here, as the same work."""
    sums = tuple(
        _totals([tree for name, tree in side.below.items() if name not in other.below])
        for side, other in ((base, head), (head, base))
    )
    return {
        name
        for name in sums[0].keys() & sums[1].keys() - (base.below.keys() | head.below.keys())
        if abs(sums[0][name] - sums[1][name]) <= _ALIKE * max(sums[0][name], sums[1][name])
    }


def _merged(tree: Tree, other: Tree) -> Tree:
    """Add two trees of the same place."""
    own, below = Counter(tree.own), dict(tree.below)
    own.update(other.own)
    for name, inner in other.below.items():
        below[name] = _merged(below[name], inner) if name in below else inner
    return Tree(own, below)


def _totals(trees: list[Tree]) -> Mapping[Name, float]:
    """Sum each function below some trees, with all that it calls, wherever it stands."""
    totals: dict[Name, float] = {}
    waiting = list(trees)
    while waiting:
        for name, inner in waiting.pop().below.items():
            totals[name] = totals.get(name, 0.0) + inner.total
            waiting.append(inner)
    return totals


@dataclass(frozen=True, slots=True)
class Fact:
    """Exact counts of a function, without Valgrind.

    Attributes:
        code: Equal where what it does is written in the same way, under whatever name.
    """

    line: int
    entries: float
    code: str = ""


_NOWHERE: Final = Fact(line=1, entries=0.0)


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one side, with what is known of its functions."""

    paths: Paths
    facts: Mapping[Name, Fact] = field(default_factory=dict)

    @property
    def names(self) -> set[Name]:
        return {name for path in self.paths for name in path}


@dataclass(frozen=True, slots=True)
class Ranked:
    """Functions, packages and calls that a change is in."""

    base: float
    head: float
    rows: tuple[Row, ...]
    own: tuple[PackageTotal, ...]
    tree: Node


def rank(
    base: Calls, head: Calls, threshold: float, runs: Iterable[tuple[Calls, Calls]] = ()
) -> Ranked:
    """Lay both sides over each other.

    Rows are of what moved by a share of the total at least, and in the same direction in all runs:
    what depends on where memory lies moves in some of them only.
    """
    base = match_names(base, head)
    both = align(grow(base.paths), grow(head.paths))
    totals = both.base.total, both.head.total
    sums: Mapping[Name, _Sum] = _sums(both)
    for before, after in runs:
        moved = _sums(align(grow(match_names(before, after).paths), grow(after.paths)))
        sums = {name: sum_ for name, sum_ in sums.items() if sum_.moved * moved[name].moved > 0}

    def function(name: Name) -> Function:
        fact = head.facts.get(name) or base.facts.get(name)
        line = fact.line if fact else None
        return Function(name=name.name, file=name.file, line=line, package=name.package)

    return Ranked(
        *totals,
        tuple(_rows(sums, base, head, totals, threshold, function)),
        tuple(_own(base.paths, head.paths)),
        _node(ROOT, both, PRUNED * max(totals), function),
    )


def match_names(base: Calls, head: Calls) -> Calls:
    """Give functions of base the names that head has for the same code.

    Where the code does not say so, a qualified name that only one file on each side has does.
    """
    went, came = base.names - head.names, head.names - base.names

    def by_code(name: Name, calls: Calls) -> object:
        fact = calls.facts.get(name)
        return fact.code or None if fact else None

    def by_name(name: Name, _: Calls) -> object:
        plain = "." in name.name and "__" not in name.name and "<" not in name.name
        return (name.name, name.package) if plain else None

    new: dict[Name, Name] = {}
    for key in (by_code, by_name):
        olds = _grouped(went - new.keys(), base, key)
        news = _grouped(came - set(new.values()), head, key)
        for value in olds.keys() & news.keys():
            if len(olds[value]) == len(news[value]) == 1:
                new[olds[value][0]] = news[value][0]
    paths: dict[tuple[Name, ...], Counter[str]] = {}
    for path, own in base.paths.items():
        paths.setdefault(tuple(new.get(name, name) for name in path), Counter()).update(own)
    return Calls(paths, {new.get(name, name): fact for name, fact in base.facts.items()})


def _grouped(
    names: Iterable[Name], calls: Calls, key: Callable[[Name, Calls], object]
) -> Mapping[object, list[Name]]:
    """Names by what `key` makes of them; those of which it makes nothing are left out."""
    groups: defaultdict[object, list[Name]] = defaultdict(list)
    for name in names:
        if (value := key(name, calls)) is not None:
            groups[value].append(name)
    return groups


@dataclass(slots=True)
class _Sum:
    base: Counter[str] = field(default_factory=Counter)
    head: Counter[str] = field(default_factory=Counter)
    callers: Counter[Name] = field(default_factory=Counter)

    @property
    def moved(self) -> float:
        return self.head.total() - self.base.total()

    def add(self, base: Mapping[str, float], head: Mapping[str, float], caller: Name) -> None:
        self.base.update(base)
        self.head.update(head)
        self.callers[caller] += abs(sum(head.values()) - sum(base.values()))  # type: ignore[assignment]


def _sums(both: Aligned) -> defaultdict[Name, _Sum]:
    sums: defaultdict[Name, _Sum] = defaultdict(_Sum)
    _blame(ROOT, both, ROOT, sums)
    return sums


def _rows(
    sums: Mapping[Name, _Sum],
    base: Calls,
    head: Calls,
    totals: tuple[float, float],
    threshold: float,
    function: Callable[[Name], Function],
) -> Iterator[Row]:
    names = base.names, head.names
    for name, total in sorted(sums.items(), key=lambda item: -abs(item[1].moved)):
        if abs(total.moved) < threshold * totals[0] or totals[0] == totals[1]:
            continue
        facts = [calls.facts.get(name) or _NOWHERE for calls in (base, head)]
        known = facts != [_NOWHERE, _NOWHERE]  # else nobody looked, or it is compiled code
        caller = total.callers.most_common(1)[0][0]
        state = "both" if name in names[0] and name in names[1] else "went"
        yield Row(
            function=function(name),
            caller=None if caller == ROOT else function(caller),
            state="came" if name not in names[0] and name != ROOT else state,
            base=total.base.total(),
            head=total.head.total(),
            entries=(facts[0].entries, facts[1].entries) if known else None,
            native=tuple(_native(total)),
        )


def _blame(name: Name, both: Aligned, caller: Name, sums: Mapping[Name, _Sum]) -> None:
    """Give a function what it executes itself, or all that is below it where one side has none."""
    if name != ROOT and not (both.base.total and both.head.total):
        sums[name].add(both.base.symbols(), both.head.symbols(), caller)
        return
    sums[name].add(both.base.own, both.head.own, caller)
    for inner, below in both.below.items():
        _blame(inner, below, name, sums)


def _native(total: _Sum) -> Iterable[Native]:
    """The symbols that moved most."""
    symbols = (total.base.keys() | total.head.keys()) - {TRAMPOLINE}
    every = [Native(symbol=s, base=total.base[s], head=total.head[s]) for s in symbols]
    every.sort(key=lambda native: (-abs(native.head - native.base), native.symbol))
    return [native for native in every[:NATIVE] if native.head != native.base]


def _own(base: Paths, head: Paths) -> Iterable[PackageTotal]:
    """Sum the instructions of each package, the largest change first."""
    sums: tuple[Counter[str], ...] = (Counter(), Counter())
    for paths, by_package in zip((base, head), sums, strict=True):
        for path, own in paths.items():
            by_package[(path[-1] if path else ROOT).package] += sum(own.values())  # type: ignore[assignment]
    every = [PackageTotal(package=p, base=sums[0][p], head=sums[1][p]) for p in sums[0] | sums[1]]
    return sorted(every, key=lambda own: (-abs(own.head - own.base), own.package))


def _node(name: Name, both: Aligned, least: float, function: Callable[[Name], Function]) -> Node:
    nodes = [
        _node(inner, below, least, function)
        for inner, below in both.below.items()
        if max(below.base.total, below.head.total) >= least
    ]
    nodes.sort(key=lambda node: (node.function.name, node.function.file))
    return Node(
        function=function(name), base=both.base.total, head=both.head.total, below=tuple(nodes)
    )
