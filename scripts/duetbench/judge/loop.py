"""The one loop that plays duets: rounds over the cases that need another one, while there is time.

A rule says which cases need another duet: a comparison plays until all is decided (`session`),
points of trends until each ratio is known to a standard error (`trend.anchored`), and a search asks
for one duet after another (`trend.bisect`). Cases that share a server are played on one launch of
each side. The order of a round is drawn. Which side starts first in a server's first duet is drawn,
too, and swapped from then on.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from duetbench.judge.durations import DuetSeconds
from duetbench.judge.instruments import Instruments, Reporter
from duetbench.judge.samples import Match
from duetbench.store.comparison import Duet


class Rule(Protocol):
    """When enough duets have been played."""

    def open(self) -> Sequence[Match]:
        """The cases that need another duet."""

    def missing(self, match: Match) -> int:
        """Fewest duets that a case needs until its next decision."""

    def add(self, match: Match, duet: Duet) -> None:
        """Keep a duet of a case."""


class Loop:
    """Plays duets of cases, of which `order` counts all so far."""

    def __init__(
        self,
        instruments: Instruments,
        reporter: Reporter,
        source: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instruments, self.reporter = instruments, reporter
        self.source, self.clock = source, clock
        self.seconds = DuetSeconds()
        self.order = 0
        self._head_first: dict[Hashable, bool] = defaultdict(lambda: source.random() < 0.5)

    def play(
        self,
        rule: Rule,
        ends: Callable[[], float],
        *,
        after_launch: Callable[[], None] = lambda: None,
        after_round: Callable[[], None] = lambda: None,
    ) -> bool:
        """Play rounds until the rule needs no more; False if time is up before, on the clock."""
        while waiting := rule.open():
            groups: dict[Hashable, list[Match]] = defaultdict(list)
            for match in self.source.sample(waiting, len(waiting)):
                groups[match.server].append(match)
            before, limit = self.order, ends()
            for group in groups.values():
                while group and self.clock() + self.seconds.of(*group) > limit:
                    group.pop()
                if group:
                    remaining = min(self.remaining(rule), limit - self.clock())
                    self.launch(group, rule.add, remaining)
                    after_launch()
            if self.order == before:
                return False
            after_round()
        return True

    def launch(
        self, group: Sequence[Match], add: Callable[[Match, Duet], None], remaining: float
    ) -> None:
        """Play a duet of each of these cases, which share a server, on one launch of each side."""
        server = group[0].server
        head_first = self._head_first[server]
        self._head_first[server] = not head_first
        self.reporter.playing(group[0].name, self.order, remaining)
        sides = [match.sides for match in group]
        duets = self.instruments.duets(sides, head_first=head_first, order=self.order)
        for match, duet in zip(group, duets, strict=False):  # a failure ended the others
            self.order += 1
            self.seconds.observe(match, duet.seconds, len(duets))
            add(match, duet)
            self.reporter.played(duet)

    def remaining(self, rule: Rule) -> float:
        """Seconds until each of the cases that need more has had the duets it misses."""
        missing = {match: rule.missing(match) for match in rule.open()}
        rounds = range(max(missing.values(), default=0))
        return sum(self.seconds.of(*(m for m in missing if missing[m] > n)) for n in rounds)
