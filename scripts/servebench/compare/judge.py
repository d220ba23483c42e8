"""From evidence to judgements: the verdict on each metric, with what it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from servebench.compare.decide import Candidate, Confirmation, K, Screening, State
from servebench.compare.samples import Samples
from servebench.core.metrics import METRICS
from servebench.record.comparison import COUNTED, SEARCHED, Judgement, Verdict


def judge(
    screening: Screening[K], confirmation: Confirmation[K] | None = None
) -> dict[K, tuple[Judgement, ...]]:
    """Judge all of a screening.

    Close both stages first, so that what ran out of time gets its last look; judged before, it
    stands as at its last scheduled look.

    What has failed twice on a side has one judgement, not comparable, and no ratio. A tail has a
    judgement where there is an answer, or the start of one: nobody measured until it was decided,
    so that it stayed open is no news.

    Returns:
        Judgements in the order of the screening, leading metrics first.
    """
    return {key: tuple(_judged(key, screening, confirmation)) for key in screening.samples}


def _judged(
    key: K, screening: Screening[K], confirmation: Confirmation[K] | None
) -> Iterator[Judgement]:
    first = screening.samples[key]
    fresh = first.fresh()
    candidates: dict[str, Candidate[K]] = {}
    if confirmation is not None:
        fresh = confirmation.samples.get(key, fresh)
        candidates = {one.metric: one for one in confirmation.candidates if one.key == key}
    counts: dict[str, Any] = {
        "screened": len(first.usable),
        "confirmed": len(fresh.usable),
        "excluded": first.excluded + fresh.excluded,
    }
    void = {"verdict": Verdict.NOT_COMPARABLE, **counts}
    if reason := fresh.void():
        yield Judgement(metric=first.leading[0], reason=reason, **void)
        return
    for metric in first.lost:
        reason = f"{METRICS[metric].title}: not every duet has it"
        yield Judgement(metric=metric, reason=reason, **void)
    for metric in first.metrics:
        candidate = candidates.get(metric)
        if candidate and confirmation and confirmation.evidence(key, metric).sample:
            said = _confirmed(candidate, screening, confirmation)
        else:
            said = _screened(key, metric, screening, fresh)
            searched = metric in first.leading or candidate is not None
            open_ = screening.state(key, metric) is State.OPEN
            if not searched and open_:
                continue
        yield Judgement(metric=metric, **said, **counts)


def _screened(key: K, metric: str, screening: Screening[K], fresh: Samples[Any]) -> dict[str, Any]:
    """What the screening alone can say: no change, or nothing yet."""
    first, state = screening.samples[key], screening.state(key, metric)
    looked = screening.evidence(key, metric).sample is not None
    reason = ""
    if not first.usable:
        tried = len(first.all)
        none = f"none of {tried} {first.noun} was usable: {first.disturbances()}"
        reason = none if tried else first.nothing
    elif state is State.MOVED and looked:
        reason = _waiting(metric, COUNTED if screening.hinted(key, metric) else SEARCHED, fresh)
    return {
        "verdict": Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE,
        "p": screening.adjusted()[key, metric] if looked else None,
        "reason": reason,
        **screening.figures(key, metric),
    }


def _confirmed(
    candidate: Candidate[K], screening: Screening[K], confirmation: Confirmation[K]
) -> dict[str, Any]:
    """What fresh samples say of a candidate; the figures are theirs alone."""
    key, metric = candidate.key, candidate.metric
    samples, state = confirmation.samples[key], confirmation.state(key, metric)
    it = (COUNTED, "that it did") if screening.hinted(key, metric) else (SEARCHED, "it")
    verdict = Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE
    reason = f"{it[0]}; fresh {samples.noun} did not confirm {it[1]}"
    if state is State.MOVED:
        worse = (candidate.direction > 0) == (samples.scales[metric].better == "lower")
        verdict, reason = Verdict.SLOWER if worse else Verdict.FASTER, ""
    return {
        "verdict": verdict,
        "p": confirmation.adjusted()[key, metric],
        "reason": reason,
        **confirmation.figures(key, metric),
    }


def _waiting(metric: str, why: str, fresh: Samples[Any]) -> str:
    """What made it a candidate, and what its fresh samples lack for a look."""
    tried, used = len(fresh.all), len(fresh.usable)
    if metric not in fresh.metrics:
        return f"{why}; not every fresh duet has the figure"
    if used < tried:
        few = f"{used} of {tried} fresh {fresh.noun} usable, too few to look at"
        return f"{why}; {few}: {fresh.disturbances()}"
    return f"{why}; no time was left for {'more ' if tried else ''}fresh {fresh.noun}"
