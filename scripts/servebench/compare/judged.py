"""Which metrics are judged for a case: those that a change could move, and no others.

More judged pairs are a stricter correction for all of them, so every metric here has to earn its
place.
"""

from __future__ import annotations

from dataclasses import dataclass

from servebench import metrics
from servebench.metrics import Situation
from servebench.model import Case, LoadModel


@dataclass(frozen=True, slots=True)
class Judged:
    """Metrics of one case.

    Attributes:
        leading: What the case is measured for; a case is measured until these are decided.
        tails: Judged from the same duets where every one of them has the figure, and never a
            reason to measure longer: tails scatter so much that all time would go to them.
    """

    leading: tuple[str, ...]
    tails: tuple[str, ...]


def judged(case: Case) -> Judged:
    """Say which metrics are judged.

    - The throughput of a closed loop that waits for nothing is what the server can do.
    - Where handlers wait, throughput stands at its ceiling whatever the change costs, until
      concurrency is lost. Efficiency sees that, and the median latency sees the rest. (A ceiling
      that contains the measured single request would move with the change, and hide it.)
    - A paced or open load gives the throughput itself: latency and CPU show the cost.
    - p99 exists from 1,000 requests on, in each duet.
    """
    times = case.load.times
    situations: set[Situation] = {"always", times}
    if case.load.model is LoadModel.CLOSED and case.endpoint.floor == 0:
        situations = {"always", "unlimited"}
    elif case.load.model is LoadModel.CLOSED and "unit" not in (case.ceiling or "unit"):
        situations |= {"ceiling"}
    tail: Situation = "response tail" if times == "response" else "service tail"
    return Judged(metrics.judged(situations), metrics.judged({tail}))
