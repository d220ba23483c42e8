"""Which of several in a row did most of a change: one search for commits and releases. Pure.

Packages that moved become such a row by mixed locks: of the n-th, the first n packages have moved.
Fresh duets measure the package that is found alone, since two releases may have an effect only
together. Then all other packages are measured together: if they still move the figure, the search
continues among them, on a stack in which those found so far have moved.

Pins move packages, and some drag others along: what counts is the content of the mixed lock.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

import numpy as np

from duetbench.core.errors import DuetbenchError, SetupError
from duetbench.core.units import Interval
from duetbench.judge import rule, statistics
from duetbench.store.change import Cause, Effect, Release, Share

Answer = Literal["yes", "no", "unknown"]

Names = frozenset[str]
"""Packages that have moved in a mixed lock."""

TIME_IS_UP: Final = "the time was up"
UNDECIDED: Final = "undecided"

FROM: Final = 0.01
"""Log ratio of the smallest change that is searched for; a smaller remainder counts as none."""

SIZED: Final = 8  # fewest duets of releases alone, and of the whole: they measure its size

PRECISE: Final = 2.5
"""Halves of a figure's interval between two ends from which on it is nearer to one, or halfway."""

Item = TypeVar("Item")


def first_bad(items: Sequence[Item], ask: Callable[[Item], Answer]) -> Sequence[Item]:
    """Find the first item that shows a change which the last one shows.

    What comes before the items does not show it. If the change comes and goes, it is one of the
    items at which it comes.

    Args:
        items: In order, at least one; the last one is not asked about.
        ask: Tells whether an item shows the change.

    Returns:
        The item found, after those directly before it of which nothing is known. Of n items, it
        takes at most log₂ n answers, rounded up, besides the unknown ones.
    """
    start, end = 0, len(items)
    unasked = [*range(end - 1)]
    while unasked:
        middle = unasked[len(unasked) // 2]
        answer = ask(items[middle])
        if answer == "yes":
            end = middle + 1
            unasked = [place for place in unasked if place < middle]
        elif answer == "no":
            start = middle + 1
            unasked = [place for place in unasked if place > middle]
        else:
            unasked.remove(middle)
    return items[start:end]


def largest(
    items: Sequence[Item],
    ends: tuple[float, float],
    looks: Callable[[Item], Iterable[Interval]],
    say: Callable[[Item, str], None],
) -> tuple[Sequence[Item], dict[Item, str]]:
    """Find the item with most of a change, by figures of the items.

    Args:
        items: As of `first_bad`.
        ends: The figures before the items, and of the last one.
        looks: Gives the figure of an item, ever more precisely; a DuetbenchError: it has none.
        say: Gets each answer.

    Returns:
        As `first_bad`, and why nothing is known of items.
    """
    before, after = ends
    unknown: dict[Item, str] = {}

    def ask(item: Item) -> Answer:
        """Whether an item has the larger part of what is left of the change."""
        nonlocal before, after
        try:
            figure = _decisive(looks(item), before, after)
        except DuetbenchError as problem:
            if str(problem) not in unknown.values():
                say(item, f"skipped ({problem})")
            unknown[item] = str(problem)
            return "unknown"
        if abs(figure.estimate - before) > abs(after - figure.estimate):
            after = figure.estimate
            say(item, "has the change")
            return "yes"
        before = figure.estimate
        say(item, "not yet")
        return "no"

    return first_bad(items, ask), unknown


def half(figure: Interval) -> float:
    """Half the width of an interval; without ends, zero."""
    low, high = figure.ends or (0.0, 0.0)
    return (high - low) / 2


def _decisive(figures: Iterable[Interval], before: float, after: float) -> Interval:
    """Return the first precise figure, or the last one if it is surely nearer to one end."""
    for figure in figures:
        if PRECISE * half(figure) <= abs(after - before):
            return figure
    if not figure.excludes((before + after) / 2):
        raise DuetbenchError(UNDECIDED)
    return figure


class StuckError(DuetbenchError):
    """A search cannot go on; the message says why."""


@dataclass
class ReleaseSearch:
    """A search among releases by package, for what moved a metric.

    Attributes:
        resolve: Returns which packages move where some do; SetupError if there is no such stack.
        duet: Runs another duet of base and head: log(head / base); None: it was not usable. Raises
            StuckError without time for it, SetupError if it cannot run.
        say: Gets a sentence per answer.
        whole: Effect of all packages.
        rest: Effect of those outside the shares.
    """

    releases: Mapping[str, Release]
    resolve: Callable[[Names], Names]
    duet: Callable[[Names, Names], float | None]
    metric: str
    say: Callable[[str], None]
    whole: Effect | None = None
    rest: Effect | None = None
    shares: list[Share] = field(default_factory=list)
    suspects: Names = frozenset()

    def run(self) -> Cause:
        """Search; an InterruptedRun passes through."""
        reason, self.suspects = "", frozenset(self.releases)
        try:
            self._search()
        except StuckError as stuck:
            reason = str(stuck)
        except SetupError as problem:
            if not self.whole:
                raise
            self.say(str(problem))
            reason = "no duets can measure them apart"
        return Cause(
            whole=self.whole,
            shares=tuple(sorted(self.shares, key=lambda share: -_size(share))),
            rest=self.rest,
            suspects=tuple(sorted(self.suspects)),
            reason=reason,
        )

    def _search(self) -> None:
        row, base, least, failed = self.suspects, Names(), FROM, False
        while base != row:
            what = f"all without {_list(base)}" if base else "all of them"
            effect, changed = self._compare(base, row, least, what)
            if base:
                self.rest = effect
            else:
                self.whole = effect
            if not changed:
                if not base:
                    raise StuckError("measured again, the whole change is not seen")
                self.suspects = Names()  # its effect is the largest that may remain
                return
            self.suspects = names = self._narrow(base, row, math.log(effect.ratio))
            # The shortest comes first, which others extend: pydantic, then pydantic-core.
            ordered = sorted(names, key=lambda name: (len(name), name))
            head = self.resolve(base | names)
            ordered += sorted(head - base - names)
            if head != row:
                what = f"{_list(head - base)} alone"
                effect, changed = self._compare(base, head, _size(effect) / 2, what)
            if changed:
                releases = tuple(self.releases[name] for name in ordered)
                self.shares.append(Share(releases=releases, **effect.model_dump()))
                base, least, failed = head, max(FROM, _size(effect) / 2), False
            self.suspects = row - base
            if failed:
                raise StuckError(f"{ordered[0]} alone does not show the change")
            failed = not changed  # one wrong turn is forgiven

    def _narrow(self, base: Names, row: Names, size: float) -> Names:
        """Narrow a change down to packages that no mixed lock separates, with most of its size."""
        left = [name for name in self.releases if name not in base]
        locks = [base.union(left[:number]) for number in range(len(left) + 1)]

        def looks(moving: Names) -> Iterator[Interval]:
            moved = self.resolve(moving)
            if moved == row:  # one of them drags the others along
                yield Interval(size, size, size)
            yield from map(_interval, self._measure(base, moved, 0.0))

        def say(moving: Names, answer: str) -> None:
            self.say(f"{_list(moving - base)}: {answer}")

        found, unknown = largest(locks[1:], (0.0, size), looks, say)
        before = locks[locks.index(found[0]) - 1]
        names = self.resolve(found[-1]) - self.resolve(before)
        if len(found) > 1 and TIME_IS_UP not in unknown.values():
            undecided = UNDECIDED in unknown.values()
            what = "no duets separate" if undecided else "no mixed lock separates"
            if names == row:
                raise StuckError(f"{what} them")
            self.say(f"taken as one, since {what} them: {_list(names)}")
        return names

    def _compare(self, base: Names, head: Names, least: float, what: str) -> tuple[Effect, bool]:
        """Measure an effect, and whether there is one of `least` size."""
        for found in self._measure(base, head, least):
            if found.early == "same" or (found.early and found.sample.n >= SIZED):
                break
        low, high = statistics.interval(found.sample, statistics.RATE)
        ratio, low, high = map(math.exp, (found.sample.mean, low, high))
        effect = Effect(ratio=ratio, low=low, high=high, duets=found.sample.n)
        ends = f"{low - 1:+.1%} to {high - 1:+.1%}, {effect.duets} duets"
        self.say(f"{what}: {ratio - 1:+.1%} ({ends})")
        moved = found.early != "same" and found.moved <= statistics.RATE
        return effect, moved and _size(effect) >= min(FROM, least)

    def _measure(self, base: Names, head: Names, least: float) -> Iterator[rule.Evidence]:
        """Run duets, as many as a comparison at most, and weigh them after each."""
        logs: list[float] = []
        for _ in range(2 * rule.MOST):
            log = self.duet(base, head)
            if log is not None:
                logs.append(log)
                if found := rule.weigh(np.array(logs), self.metric, least):
                    yield found
            if len(logs) == rule.MOST:
                return
        if len(logs) < rule.FEWEST:
            raise SetupError("too few duets were usable")


def _interval(found: rule.Evidence) -> Interval:
    low, high = statistics.interval(found.sample, statistics.RATE)
    return Interval(found.sample.mean, low, high, found.sample.n)


def _size(effect: Effect) -> float:
    return abs(math.log(effect.ratio))


def _list(names: Names) -> str:
    return ", ".join(sorted(names))
