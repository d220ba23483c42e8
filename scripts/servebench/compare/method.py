"""How a comparison decides: its error rates and looks, and the arithmetic behind them.

Instructions are counted first. Where they moved by more than CPU's relevance floor, CPU (and the
throughput of a closed loop that only computes) is a candidate from the start: counts repeat to
0.03 % and better, so nothing has to be searched for. Then two stages, on data that have nothing in
common:

1. **Screening** takes duets of all cases, round by round, and looks after 5, 8, 12 and 22. A case
   and metric becomes a *candidate* when the minimal-effect test, corrected for all pairs that are
   judged (Benjamini-Hochberg at `screening_rate`), says that it moved beyond the relevance floor.
   It is *settled* when the equivalence test, corrected for all pairs in the same way at
   `settling_rate`, says that it is the same within the tolerance.
2. **Confirmation** takes fresh duets of the candidates only and looks after 10, 18 and 28. A
   verdict needs the one-sided minimal-effect test in the direction of the screening, corrected for
   all candidates at `confirmation_rate`. That is half of what intervals leave out on both sides
   (`CONFIDENCE_RATE`), so the printed interval of whatever is called lies beyond the floor. Ratio
   and interval are those of the confirmation: what was chosen for being large would be shown too
   large (the winner's curse). Some of that is left, since only what looks large is called: at a
   scatter of 1.2 %, changes of 1 and 1.5 % that are called are shown as 1.13 and 1.57 % on average,
   and one of 0.5 %, of which a sixth is called, as 0.9 %. The intervals allow for it: those of
   what is called hold the truth in 99 % from 0.75 % on, in 92 % at 0.5 %, and in half at 0.3 %,
   of which one in 27 is called.

What is promised. A pair that is no candidate gets no verdict, and the candidates are tested on data
that did not choose them. So the confirmation alone holds the rate of false discoveries among all
judged pairs at 2.5 % (Cox, Biometrika 62 (1975) 441; Wasserman & Roeder, Annals of Statistics 37
(2009) 2178), and the screening may be generous: its rate decides what confirming costs, not what is
believed. When nothing changed at all, and no instructions moved, a false verdict needs both
stages: 0.20 * 0.025 = 0.5 % of the comparisons at most, however many cases they have - and that is
at the edge of the floor; without any change the floor is one more standard error away. Where
instructions moved and time did not, the screening is left out, and the 2.5 % are all there is.

Of all that a stage calls "no change", at most 5 % moved by as much as the tolerance, on average
over comparisons and however many cases there are. That is a rate of false discoveries too: a single
case that moved by just that much is called "no change" in up to 5 % (in simulations of 1, 5, 34 and
100 cases, CPU or throughput or both: 5, 5, 4 and 4 %, at a scatter of 1.2 %), and of many such
cases some will be. That no comparison in twenty contained any would take Bonferroni's correction:
of 34 unchanged cases it leaves 13 % where this one settles 92 %. Against a test of each case by
itself the correction costs 1.5 duets per case (20.6 instead of 19.1).

What is seen. A change of 1 % (0.00995 on the log scale) is 0.00795 beyond a floor of 0.2 %. On a
two-core virtual machine duets of FastAPI's json scatter by 1.0 to 1.4 %, so 28 of them, which take
110 s, have a standard error of 0.19 to 0.26 %: the change is 3.0 to 4.2 of them beyond the floor.
The confirmation's last look has 60 % of 2.5 % on one side (t = 2.29); with the looks before it, 73
to 95 % of such changes pass, 87 % at a scatter of 1.2 %, after 22 duets on average. Instructions
see to it that the screening loses none of those that cost instructions. What costs none (a lock, a
wait, memory that is far away) has to pass the screening too, which passes 80 % of such changes of
one metric of a case's three, and 86 % where throughput moves with CPU: seven of ten and more are
found. The detectable change counts both.

What is not claimed. The t distribution wants ratios that scatter independently and without a bias
between the sides; sides, ports and the order of starting are swapped from duet to duet for that.
What stays the same in all duets (two installations of the same packages, each with files of its
own) is not averaged out, and a duet more makes it no smaller. And throughput is no second witness:
both sides share their cores, so that it says what CPU per request says, once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from servebench.compare.statistics import Looks

CONFIDENCE_RATE: Final = 0.05
"""Error rate of reported intervals: 95 % coverage."""

MEMORY: Final = "as without the other side's server"
"""How a duet's PSS and USS are to be read: see `duet`. Comparisons that do not say so are older."""


@dataclass(frozen=True, slots=True)
class Method:
    """Parameters of a comparison.

    Attributes:
        screening: When the screening looks.
        confirmation: When the confirmation looks.
        screening_rate: Rate of false candidates among the candidates.
        confirmation_rate: Rate of false verdicts among the verdicts; on one side, and at most half
            of `CONFIDENCE_RATE`.
        settling_rate: Rate of changes as large as the tolerance among what a stage calls "no
            change".
        power: For which detectable changes and missing times are given.
        patience: Duets that a case may take in a stage, in multiples of the last look: on a
            disturbed machine the usable ones may never be enough.
    """

    screening: Looks = field(
        default_factory=lambda: Looks((5, 8, 12, 22), (0.05, 0.15, 0.3, 0.5), least=3)
    )
    confirmation: Looks = field(
        default_factory=lambda: Looks((10, 18, 28), (0.15, 0.25, 0.6), least=5)
    )
    screening_rate: float = 0.20
    confirmation_rate: float = 0.025
    settling_rate: float = 0.05
    power: float = 0.8
    patience: float = 1.5

    @property
    def confirming(self) -> tuple[int, float]:
        """The confirmation's last look: its duets, and the error rate on one side of one test."""
        return self.confirmation.last, self.confirmation_rate * self.confirmation.shares[-1]

    def record(self) -> dict[str, float | int | str]:
        """The parameters as a comparison's file keeps them."""
        return {
            "screening_looks": _text(self.screening),
            "confirmation_looks": _text(self.confirmation),
            "screening_rate": self.screening_rate,
            "confirmation_rate": self.confirmation_rate,
            "settling_rate": self.settling_rate,
            "power": self.power,
            "patience": self.patience,
            "memory": MEMORY,
        }


def _text(looks: Looks) -> str:
    pairs = zip(looks.counts, looks.shares, strict=True)
    return ", ".join(f"{count} duets: {share:.0%}" for count, share in pairs)
