"""How long duets take: expected at first, then as they were seen."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from servebench.compare.budget import duet_seconds
from servebench.compare.decide import Confirmation, Screening
from servebench.compare.player import duet_load
from servebench.compare.samples import CaseDuets
from servebench.compare.statistics import Looks
from servebench.duration import PRIOR_LAUNCHES
from servebench.model import Case


class Pace:
    """Seconds that a duet of each case takes.

    A case that was seen takes what it took on average. Of the others it is known how much more or
    less than expected duets take on this machine, as in `estimate.Estimate`.
    """

    def __init__(self, cases: Iterable[Case]) -> None:
        self._expected = {
            case.id: duet_seconds(case.model_copy(update={"load": duet_load(case)}))
            for case in cases
        }
        self._seen: dict[str, list[float]] = {}
        self._errors: list[float] = []

    def observe(self, case: str, seconds: float) -> None:
        """Note what a duet of a case took, s."""
        self._seen.setdefault(case, []).append(seconds)
        self._errors.append(seconds - self._expected[case])

    def seconds(self, case: str) -> float:
        """Seconds that the next duet of a case will take."""
        if case in self._seen:
            return statistics.fmean(self._seen[case])
        correction = sum(self._errors) / (len(self._errors) + PRIOR_LAUNCHES)
        return max(1.0, self._expected[case] + correction)

    def until_looks(
        self, duets: Mapping[str, CaseDuets], cases: Iterable[str], looks: Looks
    ) -> float:
        """Seconds until each of the cases has its next look."""
        return sum(missing(len(duets[case].usable), looks) * self.seconds(case) for case in cases)


def missing(usable: int, looks: Looks) -> int:
    """Usable duets that lack until the next look; none after the last."""
    return min((count - usable for count in looks.counts if count > usable), default=0)


def seemingly_moved(screening: Screening) -> tuple[str, ...]:
    """Cases that would have to be confirmed, by their duets so far or by their instructions."""
    return tuple(dict.fromkeys(candidate.case for candidate in screening.candidates()))


def confirming(pace: Pace, screening: Screening) -> float:
    """Seconds until the first look of a confirmation of what seems to have moved, as of now."""
    first = screening.method.confirmation.counts[0]
    return sum(first * pace.seconds(case) for case in seemingly_moved(screening))


def needs(pace: Pace, confirmation: Confirmation, cases: Iterable[str]) -> dict[str, float]:
    """Seconds until the next look of each case of a confirmation."""
    looks = confirmation.method.confirmation
    return {
        case: missing(len(confirmation.duets[case].usable), looks) * pace.seconds(case)
        for case in cases
    }
