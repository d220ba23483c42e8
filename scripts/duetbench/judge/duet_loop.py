"""The one loop that runs duets: rounds over the cases that need another one, while there is time.

A kind of loop says which cases need another duet. A comparison continues until all cases are
decided (`comparison`), points of trends until each ratio is known to a standard error. Cases that
share a server are measured on one launch of each side. The order of a round is random. So is the
side that starts first in a server's first duet; the sides then swap from duet to duet.

A duet must not judge what it prevents. Where two servers at once would take cores from each other
that one could use (`Pair.mode`), each side is launched alone (`instruments.by_turns`).
"""

import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from duetbench.core.comparison import Duet
from duetbench.core.model import Case
from duetbench.host.command import reason
from duetbench.host.console import Progress, duration
from duetbench.judge.pairs import Mode, Pair, join_reasons, scales
from duetbench.load.loads import DUET_WARM_UP, duet_load

START: Final = 1.0
"""Seconds until both servers have answered, and for their probes; further workers need more."""

Take = Callable[..., tuple[Duet, ...]]
"""Takes a sample of each of some pairs; see `instruments.Real.duets`."""


class Reporter(Progress):
    """Says what fails, and on a terminal in one line what is known so far, and when more is."""

    _void = ""
    _known = ""
    _cases = 2  # of one case the lines need no name

    def begin(self, cases: int, seconds: float, budget: float | None) -> None:
        """Announce a comparison of some cases: s to a first answer."""
        limit = "" if budget is None else f", at most {duration(budget)} in all"
        self._cases = cases
        many = f"{cases} case{'s' * (cases != 1)}"
        sentence = f"{many}; a first answer takes about {duration(seconds)}{limit}"
        self.start(sentence, seconds, until="to the next decisions")

    def work(self, name: str, done: int, remaining: float) -> None:
        words = (name * (self._cases > 1), f"pair {done + 1}", self._known)
        super().work(" · ".join(filter(None, words)), done, remaining)

    def know(self, sentence: str) -> None:
        """Take what is known so far: `CPU per request +26 % so far`."""
        self._known = sentence

    def report(self, duet: Duet) -> None:
        """Say why a duet has no figures, once."""
        words = join_reasons({side: "; ".join(duet.failures(side)) for side in duet.failed})
        if duet.failed and reason(words) != self._void:
            self._void = reason(words)
            self.say(
                f"pair {duet.order + 1}{f' of {duet.case}' * (self._cases > 1)}: void: {words}"
            )


def duet_seconds(case: Case, mode: Mode = Mode.TOGETHER) -> tuple[float, float]:
    """Predict the seconds of a launch of both sides, and of a case's first sample on it.

    Later samples are predicted from earlier ones. If the sides are launched alone, as of any case
    that scales, these are the seconds of one launch, and of the rest of a turn: two loads, and the
    other launch.
    """
    load, single = duet_load(case), max(case.endpoint.takes, case.endpoint.floor)
    waves = math.ceil(load.connections / (case.slots or load.connections))
    launch = START + 0.2 * (case.workers - 1)
    # Each side verifies before and after its load, whose last requests are still answered.
    own = DUET_WARM_UP + load.duration + single * (4 + waves)
    if mode is Mode.START:
        return 2 * launch, 0.0
    return (launch, launch + 2 * own) if mode is Mode.ALONE or scales(case) else (launch, own)


class Loop:
    """Runs duets of cases; `order` counts all duets so far. A kind of loop says which are open."""

    def __init__(
        self, take: Take, reporter: Reporter, seed: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.take, self.reporter, self.clock = take, reporter, clock
        self.source = random.Random(seed)  # noqa: S311 - an order that can be repeated
        self.order = 0
        self._head_first: dict[Hashable, bool] = defaultdict(lambda: self.source.random() < 0.5)

    def open(self) -> Mapping[Pair, int]:
        """List the cases that need another duet, with the fewest until their next decision."""
        return {}

    def add(self, pair: Pair, duet: Duet) -> None:
        """Add a duet to its case."""
        pair.add(duet)

    def run(self, ends: float) -> bool:
        """Run rounds until no case is open; False if the clock reaches `ends` first."""
        while waiting := [*self.open()]:
            groups: dict[Hashable, list[Pair]] = defaultdict(list)
            for pair in self.source.sample(waiting, len(waiting)):
                groups[pair.server].append(pair)
            before = self.order
            for group in groups.values():
                while group and self.clock() + self.seconds(*group) > ends:
                    group.pop()
                if group:
                    self.launch(group, min(self.remaining(self.open()), ends - self.clock()))
            if self.order == before:
                return False
        return True

    def launch(self, group: Sequence[Pair], remaining: float) -> None:
        """Take a sample of each case of a group, which shares a server."""
        first = group[0]
        self._head_first[first.server] = not (head_first := self._head_first[first.server])
        self.reporter.work(first.case.id, self.order, remaining)
        duets = self.take(group, head_first=head_first, order=self.order)
        for pair, duet in zip(group, duets, strict=False):
            self.order += 1
            self.add(pair, duet)
            self.reporter.report(duet)

    def seconds(self, *pairs: Pair) -> float:
        """Predict the seconds of one duet per case: those that a case had, or else as planned."""
        known = (statistics.fmean(d.seconds for d in p.all) for p in pairs if p.all)
        new = {pair: duet_seconds(pair.case, pair.mode) for pair in pairs if not pair.all}
        launches = {pair.server: launch for pair, (launch, _) in new.items()}  # as few as possible
        planned = sum(launches.values()) + sum(own for _, own in new.values())
        return max(1.0, sum(known) + planned) if pairs else 0.0

    def remaining(self, missing: Mapping[Pair, int]) -> float:
        """Predict the seconds until each case has had so many more duets, in rounds."""
        rounds = range(max(missing.values(), default=0))
        return sum(self.seconds(*(p for p in missing if missing[p] > n)) for n in rounds)
