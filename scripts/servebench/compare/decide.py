"""Which things need another sample: the screening of all, and the confirmation of what it found.

    screening = Screening(samples)     # of cases: duets; of in-process benchmarks: processes
    screening.hint(key, metric, direction)   # where instructions moved
    while time and screening.open():   # in rounds: one sample of each that is open
        screening.add(key, sample)
    confirmation = Confirmation(screening)   # the same; strongest first
    judge(screening, confirmation)

A stage only collects: every answer is computed from the samples so far, and each can be asked at
any time. docs/comparing.md says why.
"""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from servebench.compare import statistics
from servebench.compare.samples import Samples
from servebench.compare.statistics import CONFIDENCE_RATE, Direction, Looks, Method, Sample
from servebench.core.metrics import METRICS
from servebench.record.comparison import COUNTED, SEARCHED, Judgement, Verdict

K = TypeVar("K", bound=Hashable)
"""What is compared: a case's id, or an in-process benchmark."""


class State(StrEnum):
    """Where one metric of one thing stands in a stage."""

    OPEN = "open"
    MOVED = "moved"  # a candidate; in the confirmation: confirmed
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the latest look at one metric shows; p values are paid for its share of the error rate.

    `sample` is None before the first look.
    """

    sample: Sample | None = None
    share: float = 1.0
    moved: float = 1.0
    same: float = 1.0


@dataclass(frozen=True, slots=True)
class MetricCandidate(Generic[K]):
    """A metric that the screening says moved; `p` is adjusted for all that is judged."""

    key: K
    metric: str
    direction: Direction
    p: float


class Stage(Generic[K]):
    """Samples of several things, until each is decided or out of time."""

    sides = 1  # 2: `rate` is that of one side only
    then: tuple[int, float] | None = None  # the look that a verdict takes besides

    def __init__(
        self, method: Method, looks: Looks, rate: float, samples: Mapping[K, Samples[Any]]
    ) -> None:
        self.method, self.looks, self.rate, self.samples = method, looks, rate, samples
        self._hints: dict[tuple[K, str], Direction] = {}
        self._directions: dict[tuple[K, str], Direction] = {}  # others: either
        self._final: frozenset[K] = frozenset()
        self._closed = False
        self._seen: dict[tuple[K, str, int, float], Evidence] = {}
        self._ps: dict[str, dict[tuple[K, str], float]] = {}  # of all tests; until a sample more

    def tests(self) -> Collection[tuple[K, str]]:
        """All that is judged together."""
        raise NotImplementedError

    def add(self, key: K, sample: object) -> None:
        """Take another sample."""
        if key not in self.samples:
            raise ValueError(f"{key} is not one of what this stage samples")
        self.samples[key].add(sample)
        self._ps.clear()

    def open(self) -> tuple[K, ...]:
        """What needs another sample, strongest evidence first; none once the stage is closed.

        Where the time for a confirmation is short, finish the first: half a confirmation of each
        confirms none.
        """
        return () if self._closed else tuple(filter(self._wants, self.samples))

    def close(self) -> None:
        """End the stage; what was still open gets its last look with what it has."""
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True
            self._ps.clear()

    def evidence(self, key: K, metric: str) -> Evidence:
        """The latest look at one metric; what a look sees never changes afterwards."""
        samples = self.samples[key]
        due = self.looks.latest(len(samples.usable), final=key in self._final)
        if due is None or metric not in samples.metrics:
            return Evidence()
        count, share = due
        if (key, metric, *due) not in self._seen:
            found = statistics.sample(samples.logs(metric)[:count])
            scale = samples.scales[metric]
            direction = self._directions.get((key, metric), 0)
            self._seen[key, metric, count, share] = Evidence(
                found,
                share,
                moved=min(1.0, statistics.moved_p(found, scale.floor, direction) / share),
                same=min(1.0, statistics.same_p(found, scale.tolerance) / share),
            )
        return self._seen[key, metric, count, share]

    def adjusted(self) -> Mapping[tuple[K, str], float]:
        """P value of each test, adjusted for all of them."""
        if "moved" not in self._ps:
            ps = {test: self.evidence(*test).moved for test in self.tests()}
            self._ps["moved"] = _adjusted(ps)
        return self._ps["moved"]

    def settling(self) -> Mapping[tuple[K, str], float]:
        """P value of "no change" of each test, adjusted for all; 1 for what has moved."""
        if "same" not in self._ps:
            ps = {
                test: 1.0 if self._has_moved(test, p) else self.evidence(*test).same
                for test, p in self.adjusted().items()
            }
            self._ps["same"] = _adjusted(ps)
        return self._ps["same"]

    def state(self, key: K, metric: str) -> State:
        """Where one metric stands; open if it cannot be judged."""
        if self._has_moved((key, metric), self.adjusted().get((key, metric), 1.0)):
            return State.MOVED
        same = self.settling().get((key, metric), 1.0) <= self.method.settling_rate
        return State.SAME if same else State.OPEN

    @property
    def alone(self) -> float:
        """Error rate of one test, both sides together, if it were the only one that moved.

        Benjamini-Hochberg gives the smallest of n p values the rate / n (see docs/comparing.md).
        """
        return self.sides * self.rate / max(1, len(self.adjusted()))

    def figures(self, key: K, metric: str) -> dict[str, float]:
        """Ratio, interval and detectable change as a judgement has them; empty without a look."""
        evidence = self.evidence(key, metric)
        if evidence.sample is None:
            return {}
        seen, share = evidence.sample, evidence.share
        low, high = statistics.interval(seen, CONFIDENCE_RATE * share)
        found = {"ratio": math.exp(seen.mean), "low": math.exp(low), "high": math.exp(high)}
        if self.state(key, metric) is State.SAME:
            # Had it moved, the looks would have gone on to the last of them.
            seen, share = replace(seen, n=max(seen.n, self.looks.last)), self.looks.shares[-1]
        found["detectable"] = statistics.detectable(
            seen,
            self.samples[key].scales[metric].floor,
            alpha=self.alone * share,
            power=self.method.power,
            then=self.then,
        )
        return found

    def _deciding(self, key: K) -> list[str]:
        """Metrics for which a thing is sampled."""
        samples = self.samples[key]
        return [metric for metric in samples.leading if metric not in samples.lost]

    def _wants(self, key: K) -> bool:
        samples, most = self.samples[key], math.ceil(self.looks.last * self.method.patience)
        if samples.void() or len(samples.usable) >= self.looks.last or len(samples.all) >= most:
            return False
        return any(self.state(key, metric) is State.OPEN for metric in self._deciding(key))

    def _has_moved(self, test: tuple[K, str], p: float) -> bool:
        return p <= self.rate or (test in self._hints and test in self.adjusted())


class Screening(Stage[K]):
    """Samples of everything, until each is a candidate, settled, or out of time."""

    def __init__(self, samples: Mapping[K, Samples[Any]], method: Method | None = None) -> None:
        method = method or Method()
        super().__init__(method, method.screening, method.screening_rate, samples)
        self.then = method.confirming

    def hint(self, key: K, metric: str, direction: Direction) -> None:
        """Say beforehand that what a metric follows from has moved: it is to be confirmed.

        Whether it really moved is for the confirmation, whose samples know nothing of the hint.
        """
        self._hints[key, metric] = direction
        self._ps.clear()

    def why(self, key: K, metric: str) -> str:
        """What made it a candidate: a hint alone, or its samples."""
        hinted = (key, metric) in self._hints and self.adjusted()[key, metric] > self.rate
        return COUNTED if hinted else SEARCHED

    def tests(self) -> Collection[tuple[K, str]]:
        return [
            (key, metric)
            for key, samples in self.samples.items()
            if not samples.void()
            for metric in samples.metrics
        ]

    def candidates(self) -> tuple[MetricCandidate[K], ...]:
        """What would be confirmed if the screening were closed now, strongest evidence first."""
        found = []
        for test, p in self.adjusted().items():
            seen = self.evidence(*test).sample
            if p <= self.rate and seen is not None:
                found.append(MetricCandidate(*test, 1 if seen.mean > 0 else -1, p))
            elif test in self._hints:
                found.append(MetricCandidate(*test, self._hints[test], p))
        return tuple(sorted(found, key=lambda candidate: candidate.p))


class Confirmation(Stage[K]):
    """Fresh samples of the candidates, until each is confirmed, refuted, or out of time."""

    sides = 2  # it looks at one

    def __init__(self, screening: Screening[K]) -> None:
        screening.close()
        self.candidates = screening.candidates()
        fresh = {one.key: screening.samples[one.key].fresh() for one in self.candidates}
        method = screening.method
        super().__init__(method, method.confirmation, method.confirmation_rate, fresh)
        self._directions = {(one.key, one.metric): one.direction for one in self.candidates}

    def tests(self) -> Collection[tuple[K, str]]:
        return self._directions.keys()

    def _deciding(self, key: K) -> list[str]:
        return [one.metric for one in self.candidates if one.key == key]


def _adjusted(ps: Mapping[tuple[K, str], float]) -> dict[tuple[K, str], float]:
    return dict(zip(ps, statistics.adjusted(list(ps.values())), strict=True))


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
    candidates: dict[str, MetricCandidate[K]] = {}
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
        stage: Stage[K] = screening
        state, candidate = screening.state(key, metric), candidates.get(metric)
        if candidate and confirmation and confirmation.evidence(key, metric).sample:
            stage, state = confirmation, confirmation.state(key, metric)
            verdict, reason = _confirmed(candidate, state, screening, fresh)
        elif candidate or metric in first.leading or state is not State.OPEN:
            verdict, reason = _screened(key, metric, screening, fresh)
        else:
            continue
        looked = stage.evidence(key, metric).sample is not None
        yield Judgement(
            metric=metric,
            verdict=verdict,
            reason=reason,
            p=stage.adjusted()[key, metric] if looked else None,
            **stage.figures(key, metric),
            **counts,
        )


def _confirmed(
    candidate: MetricCandidate[K], state: State, screening: Screening[K], fresh: Samples[Any]
) -> tuple[Verdict, str]:
    """What fresh samples say of a candidate."""
    if state is State.MOVED:
        better = fresh.scales[candidate.metric].better
        worse = (candidate.direction > 0) == (better == "lower")
        return Verdict.SLOWER if worse else Verdict.FASTER, ""
    why = screening.why(candidate.key, candidate.metric)
    it = "that it did" if why == COUNTED else "it"
    verdict = Verdict.NO_CHANGE if state is State.SAME else Verdict.INCONCLUSIVE
    return verdict, f"{why}; fresh {fresh.noun} did not confirm {it}"


def _screened(
    key: K, metric: str, screening: Screening[K], fresh: Samples[Any]
) -> tuple[Verdict, str]:
    """What the screening alone can say: no change, or nothing yet, and what fresh samples lack."""
    first, state = screening.samples[key], screening.state(key, metric)
    if not first.usable:
        tried = len(first.all)
        none = f"none of {tried} {first.noun} was usable: {first.disturbances()}"
        return Verdict.INCONCLUSIVE, none if tried else first.nothing
    if state is State.SAME:
        return Verdict.NO_CHANGE, ""
    if state is State.OPEN or screening.evidence(key, metric).sample is None:
        return Verdict.INCONCLUSIVE, ""
    why = screening.why(key, metric)
    tried, used = len(fresh.all), len(fresh.usable)
    lacks = f"no time was left for {'more ' if tried else ''}fresh {fresh.noun}"
    if metric not in fresh.metrics:
        lacks = "not every fresh duet has the figure"
    elif used < tried:
        few = f"{used} of {tried} fresh {fresh.noun} usable, too few to look at"
        lacks = f"{few}: {fresh.disturbances()}"
    return Verdict.INCONCLUSIVE, f"{why}; {lacks}"
