"""How a comparison decides: its error rates and looks, and the arithmetic behind them.

Instructions are counted first. Where they moved by more than CPU's relevance floor, CPU (and the
throughput of a closed loop that only computes) is a candidate from the start: counts repeat to
0.03 % and better, so nothing has to be searched for. Then two stages, on data that have nothing in
common:

1. **Screening** takes duets of all cases, round by round, and looks after 5, 8, 12 and 22. A case
   and metric becomes a *candidate* when the minimal-effect test, corrected for all pairs that are
   judged (Benjamini-Hochberg at `screening_rate`), says that it moved beyond the relevance floor.
   It is *settled* when the equivalence test says that it is the same within the tolerance.
2. **Confirmation** takes fresh duets of the candidates only and looks after 10 and 22. A verdict
   needs the one-sided minimal-effect test in the direction of the screening, corrected for all
   candidates at `confirmation_rate`. Ratio and interval are those of the confirmation: what was
   chosen for being large would be shown too large (the winner's curse). A little of that is left,
   since a confirmation that looks large ends early: at a scatter of 1.2 %, changes of 1 and 1.5 %
   that are called are shown as 1.1 and 1.56 % on average. The intervals allow for it.

What is promised. A pair that is no candidate gets no verdict, and the candidates are tested on data
that did not choose them. So the confirmation alone holds the rate of false discoveries among all
judged pairs at 5 % (Cox, Biometrika 62 (1975) 441; Wasserman & Roeder, Annals of Statistics 37
(2009) 2178), and the screening may be generous: its rate decides what confirming costs, not what is
believed. When nothing changed at all, instructions do not move, and a false verdict needs both
stages: 0.20 * 0.05 = 1 % of the comparisons at most, however many cases they have - and that is at
the edge of the floor; without any change the floor is one more standard error away.

What is seen. A change of 1 % (0.00995 on the log scale) is 0.00795 beyond a floor of 0.2 %. On a
two-core virtual machine duets of FastAPI's json scatter by 1.0 to 1.4 %, so 22 of them, which take
85 s, have a standard error of 0.21 to 0.30 %: the change is 2.7 to 3.7 of them beyond the floor.
The confirmation's last look has 80 % of 5 % on one side (t = 1.84): it passes 79 to 96 % of such
changes, 89 % at a scatter of 1.2 %. Instructions see to it that the screening loses none of those
that cost instructions. What costs none (a lock, a wait, memory that is far away) has to pass the
screening too, which passes 80 % of such changes of one metric of a case's three, and 86 % where
throughput moves with CPU: seven of ten and more are found. The detectable change counts both.

What is not claimed. The t distribution wants ratios that scatter independently and without a bias
between the sides; sides, ports and the order of starting are swapped from duet to duet for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from servebench.compare.statistics import Looks

CONFIDENCE_RATE: Final = 0.05
"""Error rate of reported intervals: 95 % coverage."""


@dataclass(frozen=True, slots=True)
class Method:
    """Parameters of a comparison.

    Attributes:
        screening: When the screening looks.
        confirmation: When the confirmation looks.
        screening_rate: Rate of false candidates among the candidates.
        confirmation_rate: Rate of false verdicts among the verdicts; on one side.
        settling_rate: How often a stage may say "no change" of a change as large as the tolerance,
            case by case.
        power: For which detectable changes and missing times are given.
        patience: Duets that a case may take in a stage, in multiples of the last look: on a
            disturbed machine the usable ones may never be enough.
    """

    screening: Looks = field(
        default_factory=lambda: Looks((5, 8, 12, 22), (0.05, 0.15, 0.3, 0.5), least=3)
    )
    confirmation: Looks = field(default_factory=lambda: Looks((10, 22), (0.2, 0.8), least=5))
    screening_rate: float = 0.20
    confirmation_rate: float = 0.05
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
        }


def _text(looks: Looks) -> str:
    pairs = zip(looks.counts, looks.shares, strict=True)
    return ", ".join(f"{count} duets: {share:.0%}" for count, share in pairs)
