"""From evidence to judgements: the verdict on each case and metric, with what it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from servebench.compare.decide import Candidate, Confirmation, Screening, State
from servebench.compare.model import COUNTED, SEARCHED, Judgement, Verdict
from servebench.compare.samples import CaseDuets, broken, disturbances
from servebench.compare.statistics import Direction
from servebench.metrics import METRICS

UNCONFIRMED: Final = f"{SEARCHED}; no time was left for fresh duets"
HINTED: Final = f"{COUNTED}; fresh duets did not confirm that it did"
REFUTED: Final = f"{SEARCHED}; fresh duets did not confirm it"


def judge(
    screening: Screening, confirmation: Confirmation | None = None
) -> dict[str, tuple[Judgement, ...]]:
    """Judge all cases of a screening.

    Close both stages first, so that cases which ran out of time get their last look; judged before,
    they stand as at their last scheduled look.

    A case whose side failed twice has one judgement, not comparable, and no ratio. A tail has a
    judgement where there is an answer, or the start of one: nobody measured until it was decided,
    so that it stayed open is no news.

    Returns:
        Judgements by case id, in the order of the cases, leading metrics first.
    """
    return {case: tuple(_Judge(case, screening, confirmation).all()) for case in screening.duets}


def direction_verdict(metric: str, direction: Direction) -> Verdict:
    """Whether a larger (1) or smaller (-1) figure of head's is slower or faster.

    Raises:
        ValueError: The metric has no better direction: it is context, not judged.
    """
    better = METRICS[metric].better
    if better == "neither" or not direction:
        raise ValueError(f"{metric}: neither direction is better")
    return Verdict.SLOWER if (direction > 0) == (better == "lower") else Verdict.FASTER


class _Judge:
    """The judgements of one case."""

    def __init__(self, case: str, screening: Screening, confirmation: Confirmation | None) -> None:
        self.case, self.screening, self.confirmation = case, screening, confirmation
        self.first = screening.duets[case]
        self.fresh = CaseDuets(self.first.case)
        self.candidates: dict[str, Candidate] = {}
        if confirmation is not None:
            self.fresh = confirmation.duets.get(case, self.fresh)
            self.candidates = {c.metric: c for c in confirmation.candidates if c.case == case}
        self.counts: dict[str, Any] = {
            "screened": len(self.first.usable),
            "confirmed": len(self.fresh.usable),
            "excluded": self.first.excluded + self.fresh.excluded,
        }

    def all(self) -> Iterator[Judgement]:
        """All judgements of the case."""
        reason = broken((*self.first.duets, *self.fresh.duets))
        if reason:
            yield self._void("server_cpu_per_request", reason)
            return
        for metric in self.first.lost:
            yield self._void(metric, f"{METRICS[metric].title}: not every duet has it")
        ps = self.screening.adjusted()
        for metric in self.first.metrics:
            if metric in self.candidates and self.confirmation is not None:
                yield self._confirmed(self.candidates[metric], self.confirmation)
                continue
            found = self._screened(metric, ps[self.case, metric])
            moved = self.screening.state(self.case, metric) is State.MOVED
            tail = metric not in self.first.leading
            if not (tail and found.verdict is Verdict.INCONCLUSIVE and not moved):
                yield found

    def _void(self, metric: str, reason: str) -> Judgement:
        return Judgement(
            metric=metric, verdict=Verdict.NOT_COMPARABLE, reason=reason, **self.counts
        )

    def _screened(self, metric: str, p: float) -> Judgement:
        """What the screening alone can say: no change, or nothing yet."""
        evidence = self.screening.evidence(self.case, metric)
        state = self.screening.state(self.case, metric)
        reason = ""
        if not self.first.usable:
            names = ", ".join(disturbances(self.first.duets))
            tried = len(self.first.duets)
            reason = f"none of {tried} duets was usable: {names}" if tried else "no time for a duet"
        elif state is State.MOVED and evidence.sample is not None:
            reason = self._waiting(metric, p)
        method = self.screening.method
        return Judgement(
            metric=metric,
            verdict=Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE,
            p=p if evidence.sample else None,
            reason=reason,
            **evidence.figures(
                METRICS[metric].floor,
                method.power,
                self.screening.alone,
                method.screening if state is State.SAME else None,
                method.confirming,
            ),
            **self.counts,
        )

    def _confirmed(self, candidate: Candidate, confirmation: Confirmation) -> Judgement:
        """What fresh duets say of a candidate; the figures are theirs alone."""
        pair = candidate.case, candidate.metric
        evidence, p = confirmation.evidence(candidate), confirmation.adjusted()[pair]
        if evidence.sample is None:
            return self._screened(candidate.metric, candidate.p)
        state = confirmation.states()[pair]
        counted = self._only_counted(candidate.metric, candidate.p)
        verdict, reason = Verdict.INCONCLUSIVE, HINTED if counted else REFUTED
        if state is State.MOVED:
            verdict, reason = direction_verdict(candidate.metric, candidate.direction), ""
        elif state is State.SAME:
            verdict = Verdict.NO_CHANGE
        return Judgement(
            metric=candidate.metric,
            verdict=verdict,
            p=p,
            reason=reason,
            **evidence.figures(
                METRICS[candidate.metric].floor,
                confirmation.method.power,
                confirmation.alone,
                confirmation.method.confirmation if state is State.SAME else None,
            ),
            **self.counts,
        )

    def _only_counted(self, metric: str, p: float) -> bool:
        """Whether it is a candidate for its instructions alone: its duets had not shown it."""
        hinted = self.screening.hinted(self.case, metric)
        return hinted and p > self.screening.method.screening_rate

    def _waiting(self, metric: str, p: float) -> str:
        """What made it a candidate, and what its fresh duets lack for a look."""
        why = COUNTED if self._only_counted(metric, p) else SEARCHED
        tried, used = len(self.fresh.duets), len(self.fresh.usable)
        if metric not in self.fresh.metrics:
            return f"{why}; not every fresh duet has the figure"
        if used < tried:
            names = ", ".join(disturbances(self.fresh.duets))
            return f"{why}; {used} of {tried} fresh duets usable, too few to look at: {names}"
        return f"{why}; no time was left for {'more ' if tried else ''}fresh duets"
