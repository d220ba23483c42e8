"""Which of several in a row did it: one search for commits and for releases. Pure.

The packages that moved are such a row. A stack with the first n of them moved shows most of the
change, or does not: the first that does names a package. Fresh duets measure that one alone, since
two releases may have an effect only together. If all other packages together still move the figure,
the search continues among them, on a stack in which those found so far have moved.

Pins move packages, and some drag others along: what counts is the content of the mixed lock.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np

from duetbench.core.errors import SetupError
from duetbench.judge import rule, statistics
from duetbench.store.change import Cause, Effect, Release, Share

Names = frozenset[str]
"""Packages that have moved in a mixed lock."""

TIME_IS_UP: Final = "the time was up"

FROM: Final = 0.01
"""Log ratio of the smallest change that is searched for; a smaller remainder counts as none."""

SIZED: Final = 8  # fewest duets of a release alone, and of the whole: they measure its size

PRECISE: Final = 6.0
"""Standard errors in a change from which on duets tell whether a mixed lock shows most of it."""

TRIES: Final = ("half", "half again")
"""Purposes of the duets that narrow a change down: one wrong turn is forgiven."""

Item = TypeVar("Item")


def first_bad(items: Sequence[Item], ask: Callable[[Item], bool | None]) -> Sequence[Item]:
    """Find the first item that shows a change which the last one shows.

    What comes before the items does not show it. If the change comes and goes, it is one of the
    items at which it comes.

    Args:
        items: In order, at least one; the last one is not asked about.
        ask: Tells whether an item shows the change; None: that cannot be told.

    Returns:
        The item found, after those directly before it of which nothing can be told. Of n items, it
        takes at most log₂ n answers, rounded up, besides the questions without one.
    """
    start, end = 0, len(items)
    unasked = [*range(end - 1)]
    while unasked:
        middle = unasked[len(unasked) // 2]
        answer = ask(items[middle])
        if answer is None:
            unasked.remove(middle)
        elif answer:
            end = middle + 1
            unasked = [place for place in unasked if place < middle]
        else:
            start = middle + 1
            unasked = [place for place in unasked if place > middle]
    return items[start:end]


class StuckError(Exception):
    """A search cannot go on; the message says why."""


class Measurer(Protocol):
    """Seam between a search and everything that is measured."""

    def resolve(self, moving: Names) -> Names:
        """Return which packages move where these do; SetupError if there is no such stack."""

    def duet(self, purpose: str, base: Names, head: Names) -> float | None:
        """Run another duet for a purpose: log(head / base); None: it was not usable.

        Raises:
            StuckError: There is no time for it.
            SetupError: It cannot run.
        """


@dataclass
class ReleaseSearch:
    """A search among releases by package, for what moved a metric."""

    releases: Mapping[str, Release]
    measurer: Measurer
    metric: str
    say: Callable[[str], None]
    suspects: Names = frozenset()

    def run(self) -> Cause:
        """Search; an InterruptedRun of the measurer passes through."""
        row, base, reason = frozenset(self.releases), Names(), ""
        effects: list[Effect] = []  # of all packages, then of all outside the shares so far
        shares: list[Share] = []
        least, self.suspects = FROM, row
        try:
            while base != row:
                what = f"all without {', '.join(sorted(base))}" if base else "all of them"
                purpose = "rest" if base else "whole"
                effect, changed = self._compare(purpose, base, row, least, what)
                effects.append(effect)
                if not changed or abs(math.log(effect.ratio)) < FROM:
                    if base:
                        self.suspects = Names()  # its effect is the largest that may remain
                    else:
                        reason = "measured again, the whole change is not seen"
                    break
                share, moved = self._find(base, row, effect)
                shares.append(share)
                base |= moved
                self.suspects = row - base
                least = max(FROM, min(abs(math.log(share.ratio)) for share in shares) / 2)
        except StuckError as stuck:
            reason = str(stuck)
        except SetupError as problem:
            if not effects:
                raise
            self.say(str(problem))
            reason = "no duets can measure them apart"
        return Cause(
            whole=effects[0] if effects else None,
            shares=tuple(sorted(shares, key=lambda share: -abs(math.log(share.ratio)))),
            rest=effects[-1] if len(effects) > 1 else None,
            suspects=tuple(sorted(self.suspects)),
            reason=reason,
        )

    def _find(self, base: Names, row: Names, effect: Effect) -> tuple[Share, Names]:
        """Find packages with most of an effect, and measure them alone; return what moved."""
        for purpose in TRIES:
            names = self._narrow(purpose, base, row, math.log(effect.ratio))
            # The shortest comes first, which others extend: pydantic, then pydantic-core.
            ordered = sorted(names, key=lambda name: (len(name), name))
            moved, changed = self.measurer.resolve(base | names) - base, True
            if names != row:
                what = f"{', '.join(sorted(moved))} alone"
                least = abs(math.log(effect.ratio)) / 2
                alone, changed = self._compare(f"{purpose} alone", base, base | moved, least, what)
                effect = alone if changed else effect
            if changed:
                ordered += sorted(moved - names)
                releases = tuple(self.releases[name] for name in ordered)
                return Share(releases=releases, **effect.model_dump()), moved
            self.suspects = row - base
        raise StuckError(f"{ordered[0]} alone does not show the change")

    def _narrow(self, purpose: str, base: Names, row: Names, size: float) -> Names:
        """Narrow a change down to packages that no mixed lock separates, with most of its size."""
        known, ends = {base: 0.0, row: size}, [0.0, size]

        def ask(moving: Names) -> bool | None:
            """Whether the larger part of what is left of the change is in these packages."""
            try:
                moved = self.measurer.resolve(moving)
                if moved not in known:
                    what, apart = ", ".join(sorted(moved - base)), abs(ends[1] - ends[0])
                    found = self._measure(
                        purpose, base, moved, what, 0.0,
                        lambda found: PRECISE * found.sample.error <= apart,
                    )  # fmt: skip
                    known[moved] = found.sample.mean
            except SetupError as problem:
                self.say(f"cannot be measured: {', '.join(sorted(moving))} moved: {problem}")
                return None
            shows = abs(known[moved] - ends[0]) > abs(ends[1] - known[moved])
            ends[1 if shows else 0] = known[moved]
            self.suspects = self.suspects & moved if shows else self.suspects - moved
            return shows

        left = [name for name in self.releases if name not in base]
        locks = [base.union(left[:number]) for number in range(len(left) + 1)]
        found = first_bad(locks[1:], ask)
        before = locks[locks.index(found[0]) - 1]
        names = self.measurer.resolve(found[-1]) - self.measurer.resolve(before)
        if len(found) > 1:
            if names == row:
                raise StuckError("no mixed lock separates them")
            some = ", ".join(sorted(names))
            self.say(f"taken as one, since no mixed lock separates them: {some}")
        return names

    def _compare(
        self, purpose: str, base: Names, head: Names, least: float, what: str
    ) -> tuple[Effect, bool]:
        """Measure an effect, and whether there is one; one below `least` need not be found."""
        found = self._measure(
            purpose, base, head, what, least,
            lambda found: found.early == "same" or (found.early and found.sample.n >= SIZED),
        )  # fmt: skip
        return _effect(found), found.early != "same" and found.moved <= statistics.RATE

    def _measure(
        self,
        purpose: str,
        base: Names,
        head: Names,
        what: str,
        limit: float,
        enough: Callable[[rule.Evidence], object],
    ) -> rule.Evidence:
        """Run duets until they show enough, or there are as many as a comparison runs."""
        logs: list[float] = []
        for _ in range(2 * rule.MOST):
            log = self.measurer.duet(purpose, base, head)
            if log is None:
                continue
            logs.append(log)
            found = rule.weigh(np.array(logs), self.metric, limit)
            if found and (enough(found) or len(logs) == rule.MOST):
                effect = _effect(found)
                ends = effect.ratio, effect.low, effect.high
                mean, low, high = (f"{ratio - 1:+.1%}" for ratio in ends)
                self.say(f"{what}: {mean} ({low} to {high}, {effect.duets} duets)")
                return found
        raise SetupError("too few duets were usable")


def _effect(found: rule.Evidence) -> Effect:
    low, high = statistics.interval(found.sample, statistics.RATE)
    ratio, low, high = (math.exp(log) for log in (found.sample.mean, low, high))
    return Effect(ratio=ratio, low=low, high=high, duets=found.sample.n)
