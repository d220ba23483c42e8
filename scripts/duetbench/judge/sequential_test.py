"""One sequential test: which cases need another duet, and what all duets together show.

    test = SequentialTest(samples)     # the duets of each case, by its id
    test.hint(key, metric)             # where instructions moved
    while time and test.open():        # in rounds: one duet of each case that is open
        test.add(key, sample)
    test.close()
    judge(test)

Every answer is computed from the samples so far, and can be asked for at any time; the reasons are
in docs/decides.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from duetbench.core.metrics import COUNTED, METRICS, PERCENTILES
from duetbench.core.model import Verdict
from duetbench.judge import statistics
from duetbench.judge.pairs import SHARE, CaseDuets, shown_by_duets
from duetbench.judge.statistics import CONFIDENCE_RATE, Estimate, Method, Prior, Sample
from duetbench.store.comparison import Duet, Judgement

COUNTED_DUETS: Final = 6
"""Duets of a case after which its instructions, if the processor counts them, can give a hint."""

COUNTED_RATE: Final = 0.01
"""Share of the comparisons in which such a hint may be false. It comes from the duets that it
weighs, so that a false one may spend a few of the verdicts that are promised."""

_INNER: Final = 0.9
"""Share of an interval's half within which the size of what is called lies. Farther out it is at
the interval's end, and no effect: what was called for its luck alone looks so."""

_NEAR: Final = 0.25
"""Half of an interval, in sizes of what moved, from which on the size is worth another duet."""

_LUCK: Final = (
    "just passes the test: given that only what looks large does, it is likeliest no larger than "
    "the near end of its interval"
)

_HURRIED: Final = (
    "it takes launches of each side alone, by turns, for which there was no time: more --budget"
)

_MEMORY: Final = "pss_steady"
"""The metric of which a leak is said."""

State = Literal["open", "moved", "same"]
"""State of one metric of one case."""

FindPrior = Callable[[CaseDuets, str, Iterable[CaseDuets]], Prior | None]
"""Finds what is known of the scatter of a case's metric: `priors.Priors.of`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Result of the latest look at one metric; p values are paid for its share of the error rate.

    `sample` is None before the first look.
    """

    sample: Sample | None = None
    share: float = 1.0
    moved: float = 1.0
    same: float = 1.0


class SequentialTest:
    """Duets of several cases, until each is decided or out of time."""

    def __init__(
        self,
        samples: Mapping[str, CaseDuets],
        method: Method | None = None,
        prior: FindPrior | None = None,
    ) -> None:
        """Judge samples of cases; without a `prior` each scatters as its own duets say."""
        self.samples, self.method, self._prior = dict(samples), method or Method(), prior
        self._hinted: set[tuple[str, str]] = set()
        self._final: frozenset[str] = frozenset()
        self._closed = False
        self._seen: dict[tuple[str, str, int, float], Evidence] = {}
        self._ps: dict[str, dict[tuple[str, str], float]] = {}  # of all pairs; until a sample more

    @property
    def rate(self) -> float:
        """Error rate of the cases; several leave a part of it to their event (`events`)."""
        return self.method.rate * (1 - self.method.joint if len(self.samples) > 1 else 1)

    def hint(self, key: str, metric: str) -> None:
        """Say that what a metric follows from has moved: it is counted, and scatters far less.

        More of the error rate is spent on it, on both sides: time sometimes moves against what it
        follows from.
        """
        self._hinted.add((key, metric))

    def take(self, key: str, duets: CaseDuets) -> None:
        """Take another case: it is one of all that the error rate is for."""
        self.samples[key] = duets
        self._ps.clear()

    def add(self, key: str, duet: Duet) -> None:
        """Take another duet."""
        self.samples[key].add(duet)
        if self._counts_moved(self.samples[key]):
            for metric in self.samples[key].computed:
                self.hint(key, metric)
        self._ps.clear()

    def _counts_moved(self, samples: CaseDuets) -> bool:
        """Whether the first `COUNTED_DUETS` have instructions of the processor, which moved."""
        metric = COUNTED[0]
        if len(samples.usable) != COUNTED_DUETS or samples.count(metric) != COUNTED_DUETS:
            return False
        p = statistics.moved_p(statistics.sample(samples.logs(metric)), METRICS[metric].floor)
        return p * len(self.samples) <= COUNTED_RATE

    def open(self) -> tuple[str, ...]:
        """Cases that need another duet; none once the test is closed."""
        return () if self._closed else tuple(filter(self._wants, self.samples))

    def close(self) -> None:
        """End the test; what was still open gets its last look with what it has."""
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True
            self._ps.clear()

    def weights(self) -> dict[tuple[str, str], float]:
        """Share of the error rate of each pair that is judged, 1 on average.

        What is hinted at has `Method.hinted` of all together, or more where it is more.
        """
        pairs = [
            (key, metric)
            for key, samples in self.samples.items()
            if not samples.void
            for metric in samples.metrics
        ]
        hinted, share = self._hinted.intersection(pairs), self.method.hinted
        if not 0 < len(hinted) < share * len(pairs):
            return dict.fromkeys(pairs, 1.0)
        theirs = share * len(pairs) / len(hinted)
        others = (1 - share) * len(pairs) / (len(pairs) - len(hinted))
        return {pair: theirs if pair in hinted else others for pair in pairs}

    def evidence(self, key: str, metric: str) -> Evidence:
        """The latest look at one metric; what a look sees never changes afterwards."""
        samples = self.samples[key]
        due = self.method.looks.latest(len(samples.usable), final=key in self._final)
        if due is None or metric not in samples.metrics:
            return Evidence()
        count, share = due
        if (key, metric, *due) not in self._seen:
            others = (theirs for name, theirs in self.samples.items() if name != key)
            prior = self._prior(samples, metric, others) if self._prior else None
            sample = statistics.sample(samples.logs(metric, count), prior)
            if doubt := samples.doubts.get(metric):
                sample = replace(sample, sd=math.hypot(sample.sd, doubt * math.sqrt(sample.n)))
            scale = METRICS[metric]
            self._seen[key, metric, count, share] = Evidence(
                sample,
                share,
                moved=min(1.0, statistics.moved_p(sample, scale.floor) / share),
                same=min(1.0, statistics.same_p(sample, scale.tolerance) / share),
            )
        return self._seen[key, metric, count, share]

    def adjusted(self) -> Mapping[tuple[str, str], float]:
        """P value of each pair that is judged, adjusted for all of them."""
        if "moved" not in self._ps:
            weights = self.weights()
            ps = [self.evidence(*pair).moved for pair in weights]
            adjusted = statistics.adjusted(ps, list(weights.values()))
            self._ps["moved"] = dict(zip(weights, adjusted, strict=True))
        return self._ps["moved"]

    def sizes(self) -> Mapping[tuple[str, str], float]:
        """The pairs that moved, and the likeliest size of each, given that it was called.

        What only just passes is likeliest smaller than all of its interval, which knows nothing of
        the calling: the luck that it took explains the whole. It has not moved yet.
        """
        if "sizes" not in self._ps:
            passed = [pair for pair, p in self.adjusted().items() if p <= self.rate]
            likeliest = {pair: self._likeliest(pair, len(passed)) for pair in passed}
            self._ps["sizes"] = {pair: size for pair, size in likeliest.items() if size is not None}
        return self._ps["sizes"]

    def _likeliest(self, pair: tuple[str, str], called: int) -> float | None:
        """Likeliest size of a pair that passed, on the log scale; None: its interval ends there."""
        evidence = self.evidence(*pair)
        if evidence.sample is None:
            return None
        last, left = self._longer(evidence.sample)
        edge = statistics.reach(last, self.level(*pair, called) * left)
        floor = math.log1p(METRICS[pair[1]].floor)
        size = statistics.likeliest(evidence.sample, last, floor + edge)
        half = statistics.reach(evidence.sample, CONFIDENCE_RATE * evidence.share)
        return size if abs(evidence.sample.mean - size) <= _INNER * half else None

    def settling(self) -> Mapping[tuple[str, str], float]:
        """P value of "no change" of each pair, adjusted for all; 1 for what has moved."""
        if "same" not in self._ps:
            moved = self.sizes()
            ps = [1.0 if pair in moved else self.evidence(*pair).same for pair in self.adjusted()]
            adjusted = statistics.adjusted(ps, [1.0] * len(ps))
            self._ps["same"] = dict(zip(self.adjusted(), adjusted, strict=True))
        return self._ps["same"]

    def state(self, key: str, metric: str) -> State:
        """State of one metric; open if it cannot be judged."""
        if (key, metric) in self.sizes():
            return "moved"
        same = self.settling().get((key, metric), 1.0) <= self.method.settling_rate
        return "same" if same else "open"

    def level(self, key: str, metric: str, called: int = 1) -> float:
        """Two-sided error rate of one of a look's tests, if so many pairs are called with it."""
        weights = self.weights()
        return self.rate * min(1.0, weights[key, metric] * called / len(weights))

    def figures(self, key: str, metric: str) -> dict[str, float]:
        """Ratio, interval and detectable change as a judgement has them; empty without a look."""
        evidence = self.evidence(key, metric)
        if evidence.sample is None:
            return {}
        sample, share = evidence.sample, evidence.share
        floor, state = METRICS[metric].floor, self.state(key, metric)
        low, high = statistics.interval(sample, CONFIDENCE_RATE * share)
        mean = self.sizes().get((key, metric), sample.mean)
        if state == "same":
            sample, share = self._longer(sample)
        detectable = statistics.detectable(
            sample, floor, alpha=self.level(key, metric) * share, power=self.method.power
        )
        low, mean, high = (math.exp(log) for log in (low, mean, high))
        return {"ratio": mean, "low": low, "high": high, "detectable": detectable}

    def estimates(self, metric: str) -> list[Estimate]:
        """What is known of a metric in each case that can be judged, for `events.together`."""
        known = []
        for key, samples in self.samples.items():
            sample = self.evidence(key, metric).sample
            if sample is not None and not samples.void and not samples.drifted(metric):
                size = self.sizes().get((key, metric), sample.mean)
                same = self.state(key, metric) == "same"
                known.append(Estimate(samples.case, size, sample, same))
        return known

    def _longer(self, sample: Sample) -> tuple[Sample, float]:
        """The look that would have been the last, with this scatter, had nothing been decided."""
        looks = self.method.looks
        # Where time ran out, it would have for this one as well.
        most = max((len(self.samples[key].usable) for key in self._final), default=looks.last)
        count, share = looks.latest(max(sample.n, most), final=True) or (sample.n, 1.0)
        return replace(sample, n=count), share

    def _wants(self, key: str) -> bool:
        samples, last = self.samples[key], self.method.looks.last
        most = math.ceil(last * self.method.patience)
        if samples.void or len(samples.usable) >= last or len(samples.all) >= most:
            return False
        few = len(samples.usable) < self.method.rough
        rough = few and any(self._rough(key, metric) for metric in samples.leading)
        return rough or bool(self.undecided(key))

    def _rough(self, key: str, metric: str) -> bool:
        """Whether something moved, by an amount of which little is known yet."""
        evidence, size = self.evidence(key, metric), self.sizes().get((key, metric))
        if evidence.sample is None or size is None:
            return False
        half = statistics.reach(evidence.sample, CONFIDENCE_RATE * evidence.share)
        return half > _NEAR * abs(size)

    def undecided(self, key: str) -> list[str]:
        """The metrics of a case for which its duets go on."""
        samples = self.samples[key]
        deciding = (metric for metric in samples.leading if metric in samples.metrics)
        return [metric for metric in deciding if self.state(key, metric) == "open"]


def judge(test: SequentialTest) -> dict[str, tuple[Judgement, ...]]:
    """Judge all that was sampled.

    Close the test first, so that what ran out of time gets its last look; judged before, it stands
    as at its last scheduled look.

    What has failed twice on a side has one judgement, not comparable, and no ratio. A tail that has
    no answer says why, and is inconclusive: nobody measured until it was decided.

    Returns:
        Judgements in the order of the samples, leading metrics first.
    """
    return {key: tuple(_judged(key, test)) for key in test.samples}


def _judged(key: str, test: SequentialTest) -> Iterator[Judgement]:
    samples = test.samples[key]
    counts: dict[str, Any] = {"duets": len(samples.usable), "excluded": samples.excluded}
    none = Verdict.NOT_COMPARABLE
    if reason := samples.void:
        yield Judgement(metric=samples.leading[0], verdict=none, reason=reason, **counts)
        return
    if leak := samples.leak:
        yield Judgement(metric=_MEMORY, verdict=none, reason=leak, **counts)
    yield from _each(key, test, (*samples.leading, *samples.tails))


def judge_beside(
    test: SequentialTest, asked: Mapping[str, CaseDuets]
) -> dict[str, tuple[Judgement, ...]]:
    """Judge what explains, by the duets of a closed test at its looks: a family of its own.

    No verdict of the others gets stricter for it.
    """
    beside = SequentialTest(asked, test.method, test._prior)
    beside._final, beside._closed = test._final, True
    return {key: tuple(_each(key, beside, one.metrics)) for key, one in asked.items()}


def _each(key: str, test: SequentialTest, names: Sequence[str]) -> Iterator[Judgement]:
    """Judge some metrics of a case."""
    samples = test.samples[key]
    counts: dict[str, Any] = {"excluded": samples.excluded}
    for metric in names:
        waited = metric in samples.leading
        counts["duets"] = samples.count(metric)
        if metric in samples.lost and samples.hurried and not shown_by_duets(metric):
            yield Judgement(
                metric=metric,
                verdict=Verdict.INCONCLUSIVE,
                reason=_HURRIED,
                excluded=samples.excluded,
            )
        elif metric in samples.lost:
            reason = f"{METRICS[metric].title}: {_lack(samples, metric)}"
            verdict = Verdict.NOT_COMPARABLE if waited else Verdict.INCONCLUSIVE
            yield Judgement(metric=metric, verdict=verdict, reason=reason, **counts)
        elif metric in samples.metrics and (waited or samples.usable):
            verdict, reason = _verdict(key, metric, test)
            looked = test.evidence(key, metric).sample is not None
            yield Judgement(
                metric=metric,
                verdict=verdict,
                reason=reason,
                p=test.adjusted()[key, metric] if looked else None,
                alone=samples.alone(metric),
                **test.figures(key, metric),
                **counts,
            )


def _lack(samples: CaseDuets, metric: str) -> str:
    """Say in how many duets a metric is, and what it takes."""
    answers = {name: least for name, _, least in PERCENTILES}.get(metric.rpartition("_")[2], 1)
    needs = f"; it takes {answers:,} answers of each side in a duet" if answers > 1 else ""
    share = f"{samples.count(metric)} of {len(samples.usable)} duets have it, {SHARE:.0%} must"
    return share + needs


def _verdict(key: str, metric: str, test: SequentialTest) -> tuple[Verdict, str]:
    """The verdict on one metric, with the reason where it does not explain itself."""
    samples, state = test.samples[key], test.state(key, metric)
    if not samples.usable:
        tried = len(samples.all)
        none = f"none of {tried} duets was usable: {samples.disturbances()}"
        return Verdict.INCONCLUSIVE, none if tried else "no time for a duet"
    sample = test.evidence(key, metric).sample
    fewer = samples.count(metric) < len(samples.usable)
    part = f"from the duets that have it: {_lack(samples, metric)}" if fewer else ""
    if state == "open" or sample is None:
        luck = test.adjusted()[key, metric] <= test.rate
        return Verdict.INCONCLUSIVE, _LUCK if luck else part
    if reason := samples.drifted(metric):
        return Verdict.INCONCLUSIVE, reason
    if state == "same":
        return Verdict.NO_CHANGE, part
    worse = (sample.mean > 0) == (METRICS[metric].better == "lower")
    return Verdict.SLOWER if worse else Verdict.FASTER, part
