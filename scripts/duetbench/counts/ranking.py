"""Ranks functions by their part of a change. Pure.

Instructions belong to the function that executes them. Those of a function that only one side has
include all that it calls: what is new is named alone, with what it costs. What both sides have
keeps its own figures below such a function, such as the application below a new middleware, if
that makes the sides more alike. Nothing is lost or counted twice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise

from duetbench.core.comparison import FunctionChange
from duetbench.counts.profiling import ROOT, Name, Profile


@dataclass(slots=True)
class _Share:
    """What belongs to a function on both sides, and how its callers' parts of that moved."""

    base: float = 0.0
    head: float = 0.0
    callers: defaultdict[Name, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def moved(self) -> float:
        return self.head - self.base


def rank(
    base: Profile, head: Profile, threshold: float, runs: Iterable[tuple[Profile, Profile]] = ()
) -> Iterator[FunctionChange]:
    """Yield rows of what moved, the largest change first.

    They moved by a share of the total at least, and in the same direction in all runs: what depends
    on where memory lies moves in some of them only.
    """
    shares: Mapping[Name, _Share] = _share_out(base, head)
    least = threshold * sum(share.base for share in shares.values())
    for before, after in runs:
        again = _share_out(before, after)
        shares = {
            name: share for name, share in shares.items() if share.moved * again[name].moved > 0
        }
    for name, share in sorted(shares.items(), key=lambda item: -abs(item[1].moved)):
        if share.moved and abs(share.moved) >= least:
            yield _row(name, share, base, head)


def _share_out(base: Profile, head: Profile) -> defaultdict[Name, _Share]:
    """Give each instruction of both sides to one function."""
    common = base.names & head.names
    boundary = _kept(base, head, common)
    shares: defaultdict[Name, _Share] = defaultdict(_Share)
    for calls, sign in ((base, -1), (head, 1)):
        for path, own in calls.chains.items():
            place = _owner(path, common, boundary)
            share = shares[path[place]]
            if sign > 0:
                share.head += own
            else:
                share.base += own
            share.callers[path[max(place - 1, 0)]] += sign * own
    return shares


def _owner(path: Sequence[Name], common: Set[Name], boundary: Set[Name]) -> int:
    """Find the place of the function that a chain's instructions belong to."""
    owner = None
    for place, name in enumerate(path):
        if name in boundary:
            owner = None
        elif name not in common and owner is None:
            owner = place
    return len(path) - 1 if owner is None else owner


def _kept(base: Profile, head: Profile, common: Set[Name]) -> set[Name]:
    """Choose functions of both sides that keep their figures below those of only one side.

    They do if their totals, with all that they call, are then more alike, or differ by less than
    both sides have of them there.
    """
    totals: tuple[Counter[Name], Counter[Name]] = Counter(), Counter()
    inside: tuple[Counter[Name], Counter[Name]] = Counter(), Counter()
    for side, calls in enumerate((base, head)):
        for path, cost in calls.chains.items():
            below = {name for caller, name in pairwise(path) if caller not in common}
            totals[side].update(dict.fromkeys(path, cost))
            inside[side].update(dict.fromkeys(below, cost))

    def alike(name: Name) -> bool:
        old, new = (profile[name] for profile in inside)
        moved = totals[1][name] - totals[0][name]
        return abs(moved) < max(abs(moved - new + old), min(old, new))

    return set(filter(alike, inside[0] | inside[1]))


def _row(name: Name, share: _Share, base: Profile, head: Profile) -> FunctionChange:
    old, new = base.facts.get(name), head.facts.get(name)
    known = new or old  # else it is compiled code
    caller = max(share.callers, key=lambda name: abs(share.callers[name]))
    return FunctionChange(
        **name._asdict(),
        line=known.line if known else None,
        caller=None if caller == ROOT else caller.name,
        state="came" if name not in base.names else "went" if name not in head.names else "both",
        base=share.base,
        head=share.head,
        entries=(old.entries if old else 0, new.entries if new else 0) if known else None,
    )
