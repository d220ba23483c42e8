"""One sequential test: which cases need another duet, and what all duets show together.

    test = SequentialTest(samples)     # the duets of each case, by its id
    test.hint(key, metric)             # where instructions moved
    while time and test.open():        # in rounds: one duet of each case that is open
        test.add(key, sample)
    test.close()
    judge(test)

Every answer is computed from the samples so far, and is available at any time. docs/decides.md
explains the reasons.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from duetbench.core.metrics import COUNTED, CPU, METRICS, PERCENTILES
from duetbench.core.model import Verdict
from duetbench.judge import statistics
from duetbench.judge.samples import POOLED, SHARE, CaseDuets, Mode, shown_by_duets
from duetbench.judge.statistics import CONFIDENCE_RATE, Estimate, Method, Prior, Sample
from duetbench.store.comparison import Duet, Judgement

COUNTED_DUETS: Final = 6
"""Duets of a case after which its instructions, if the processor counts them, may give a hint."""

COUNTED_RATE: Final = 0.01
"""Share of the comparisons in which such a hint may be false. The hint comes from the same duets
that it weighs, so a false one may cost a few of the promised verdicts."""

_INNER: Final = 0.9
"""Share of an interval's half within which the likeliest size of a detected change must lie. Beyond
it, the change is probably luck, and is not reported."""

_NEAR: Final = 0.25
"""Half width of an interval, relative to the change, above which its size needs another duet."""

_LUCK: Final = (
    "just passes the test, so it probably looks larger than it is: its likeliest size is no larger "
    "than the near end of its interval"
)

_HURRIED: Final = (
    "it needs launches of each side alone, for which there was no time: set a larger --budget"
)

_MEMORY: Final = "pss_steady"
"""The metric under which a leak is reported."""

State = Literal["open", "moved", "same"]
"""State of one metric of one case."""

FindPrior = Callable[[CaseDuets, str, Iterable[CaseDuets]], Prior | None]
"""Finds what is known in advance about the scatter of a case's metric: `priors.Priors.of`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Result of the latest look at one metric; its p values are divided by the look's share.

    `share` is the part of the error rate that the look may spend. `sample` is None before the first
    look.
    """

    sample: Sample | None = None
    share: float = 1.0
    moved: float = 1.0
    same: float = 1.0


class SequentialTest:
    """Collects duets of several cases until each case is decided or out of time."""

    def __init__(
        self,
        samples: Mapping[str, CaseDuets],
        method: Method | None = None,
        prior: FindPrior | None = None,
    ) -> None:
        """Judge samples of cases; without a `prior`, each case's own duets show its scatter."""
        self.samples, self.method, self._prior = dict(samples), method or Method(), prior
        self._hinted: set[tuple[str, str]] = set()
        self._final: frozenset[str] = frozenset()
        self._closed = False
        self._seen: dict[tuple[str, str, int, float], Evidence] = {}
        self._ps: dict[str, dict[tuple[str, str], float]] = {}  # of all pairs, until the next duet

    @property
    def rate(self) -> float:
        """Error rate of the cases; several cases leave a part of it to their event (`events`)."""
        return self.method.rate * (1 - self.method.joint if len(self.samples) > 1 else 1)

    def hint(self, key: str, metric: str) -> None:
        """Say that the cause of a metric has moved: it is counted, and scatters far less.

        The metric then gets more of the error rate, in both directions, because time sometimes
        moves against its cause.
        """
        self._hinted.add((key, metric))

    def take(self, key: str, duets: CaseDuets) -> None:
        """Add a case, which then shares the error rate with the others."""
        self.samples[key] = duets
        self._ps.clear()

    def add(self, key: str, duet: Duet) -> None:
        """Add a duet of a case."""
        self.samples[key].add(duet)
        if self._counts_moved(self.samples[key]):
            for metric in self.samples[key].computed:
                self.hint(key, metric)
        self._ps.clear()

    def _counts_moved(self, samples: CaseDuets) -> bool:
        """Whether the first `COUNTED_DUETS` duets have hardware instruction counts that moved."""
        metric = COUNTED[0]
        if len(samples.usable) != COUNTED_DUETS or samples.count(metric) != COUNTED_DUETS:
            return False
        p = statistics.moved_p(statistics.sample(samples.logs(metric)), METRICS[metric].floor)
        return p * len(self.samples) <= COUNTED_RATE

    def open(self) -> tuple[str, ...]:
        """List the cases that need another duet; none once the test is closed."""
        return () if self._closed else tuple(filter(self._wants, self.samples))

    def close(self) -> None:
        """End the test; a case that is still open gets its last look with the duets it has."""
        if not self._closed:
            self._final = frozenset(self.open())
            self._closed = True
            self._ps.clear()

    def weights(self) -> dict[tuple[str, str], float]:
        """Return each judged pair's share of the error rate, 1 on average.

        Together, the pairs with a hint get `Method.hinted` of the rate, or more if they are many.
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
        high = share * len(pairs) / len(hinted)
        low = (1 - share) * len(pairs) / (len(pairs) - len(hinted))
        return {pair: high if pair in hinted else low for pair in pairs}

    def evidence(self, key: str, metric: str) -> Evidence:
        """Return the latest look at one metric; a look's result never changes afterwards."""
        samples = self.samples[key]
        due = self.method.looks.latest(len(samples.usable), final=key in self._final)
        if due is None or metric not in samples.metrics:
            return Evidence()
        count, share = due
        if (key, metric, *due) not in self._seen:
            others = (duets for name, duets in self.samples.items() if name != key)
            prior = self._prior(samples, metric, others) if self._prior else None
            logs = samples.logs(metric, count)
            if len(logs) < self.method.looks.least:  # too few answers of all these duets for a tail
                return Evidence()
            sample = statistics.sample(logs, prior)
            if doubt := samples.doubts.get(metric):
                sample = replace(sample, sd=math.hypot(sample.sd, doubt * math.sqrt(sample.n)))
            scale, same = METRICS[metric], 1.0
            if sample.n >= self.method.few:
                same = statistics.same_p(sample, scale.tolerance) / share
            moved = self.method.moved_p(logs, sample, scale.floor) / share
            self._seen[key, metric, count, share] = Evidence(
                sample, share, moved=min(1.0, moved), same=min(1.0, same)
            )
        return self._seen[key, metric, count, share]

    def adjusted(self) -> Mapping[tuple[str, str], float]:
        """Return the p value of each judged pair, adjusted for all of them."""
        if "moved" not in self._ps:
            weights = self.weights()
            ps = [self.evidence(*pair).moved for pair in weights]
            adjusted = statistics.adjust(ps, list(weights.values()))
            self._ps["moved"] = dict(zip(weights, adjusted, strict=True))
        return self._ps["moved"]

    def sizes(self) -> Mapping[tuple[str, str], float]:
        """Map each pair that moved to its likeliest size, given that it was detected.

        A change that only just passes may owe its size to luck: given its detection, the likeliest
        size is smaller than its whole interval. Such a pair has not moved yet.
        """
        if "sizes" not in self._ps:
            pairs = [pair for pair, p in self.adjusted().items() if p <= self.rate]
            likeliest = {pair: self._likeliest(pair, len(pairs)) for pair in pairs}
            self._ps["sizes"] = {pair: size for pair, size in likeliest.items() if size is not None}
        return self._ps["sizes"]

    def _likeliest(self, pair: tuple[str, str], count: int) -> float | None:
        """Find the likeliest size of a pair that passed, on the log scale; None: not moved yet."""
        evidence = self.evidence(*pair)
        if evidence.sample is None:
            return None
        if evidence.sample.n < self.method.few:
            return evidence.sample.mean
        last, left = self._longer(evidence.sample)
        edge = statistics.reach(last, self.level(*pair, count) * left)
        floor = math.log1p(METRICS[pair[1]].floor)
        size = statistics.likeliest(evidence.sample, last, floor + edge)
        half = statistics.reach(evidence.sample, CONFIDENCE_RATE * evidence.share)
        return size if abs(evidence.sample.mean - size) <= _INNER * half else None

    def settling(self) -> Mapping[tuple[str, str], float]:
        """Return each pair's p value of "no change", adjusted for all; 1 for pairs that moved."""
        if "same" not in self._ps:
            moved = self.sizes()
            ps = [1.0 if pair in moved else self.evidence(*pair).same for pair in self.adjusted()]
            adjusted = statistics.adjust(ps, [1.0] * len(ps))
            self._ps["same"] = dict(zip(self.adjusted(), adjusted, strict=True))
        return self._ps["same"]

    def state(self, key: str, metric: str) -> State:
        """Return the state of one metric; open if it cannot be judged."""
        if (key, metric) in self.sizes():
            return "moved"
        same = self.settling().get((key, metric), 1.0) <= self.method.settling_rate
        return "same" if same else "open"

    def level(self, key: str, metric: str, count: int = 1) -> float:
        """Compute the two-sided error rate of one test of a look, if `count` pairs pass it."""
        weights = self.weights()
        return self.rate * min(1.0, weights[key, metric] * count / len(weights))

    def figures(self, key: str, metric: str) -> dict[str, float]:
        """Compute ratio, interval and detectable change of a metric; empty before a look."""
        evidence = self.evidence(key, metric)
        if evidence.sample is None:
            return {}
        sample, share = evidence.sample, evidence.share
        state = self.state(key, metric)
        low, high = statistics.interval(sample, CONFIDENCE_RATE * share)
        mean = self.sizes().get((key, metric), sample.mean)
        # The size at the end of the load may be that of later requests.
        later = self.samples[key].drift(metric) / 2
        low, high = low + min(0.0, later), high + max(0.0, later)
        if state == "same":
            sample, share = self._longer(sample)
        detectable = statistics.detectable(
            sample,
            METRICS[metric].floor,
            alpha=self.level(key, metric) * share,
            power=self.method.power,
        )
        low, mean, high = (math.exp(log) for log in (low, mean, high))
        return {"ratio": mean, "low": low, "high": high, "detectable": detectable}

    def estimates(self, metric: str) -> list[Estimate]:
        """Estimate a metric in each case that can be judged, for `events.together`."""
        estimates = []
        for key, samples in self.samples.items():
            sample = self.evidence(key, metric).sample
            if sample is not None and not samples.void and not samples.drifted(metric):
                size = self.sizes().get((key, metric), sample.mean)
                same = self.state(key, metric) == "same"
                estimates.append(Estimate(samples.case, size, sample, same))
        return estimates

    def _longer(self, sample: Sample) -> tuple[Sample, float]:
        """Return the sample and share of a last look with this scatter, if none had decided."""
        looks = self.method.looks
        # If time ran out for other cases, it would have run out for this one too.
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
        """Whether something moved, by an amount that is known only roughly."""
        evidence, size = self.evidence(key, metric), self.sizes().get((key, metric))
        if evidence.sample is None or size is None:
            return False
        half = statistics.reach(evidence.sample, CONFIDENCE_RATE * evidence.share)
        return half > _NEAR * abs(size)

    def undecided(self, key: str) -> list[str]:
        """List the metrics for which a case still needs duets."""
        samples = self.samples[key]
        deciding = (metric for metric in samples.leading if metric in samples.metrics)
        return [m for m in deciding if self.state(key, m) == "open" and not self.follows(key, m)]

    def follows(self, key: str, metric: str) -> bool:
        """Whether a metric follows from response times that moved, as a load leaves cores idle.

        A server that idles longer between requests needs more of a core for each: only counts tell
        whether its code does.
        """
        samples = self.samples[key]
        times = (m for m in samples.metrics if METRICS[m].concern == "latency")
        return metric == CPU and samples.waits and any(self.state(key, m) == "moved" for m in times)


def judge(test: SequentialTest) -> dict[str, tuple[Judgement, ...]]:
    """Judge all samples.

    Close the test first, so that cases without time left get their last look. Otherwise they are
    judged by their last scheduled look.

    A case that failed twice on a side has one judgement, not comparable, without a ratio. A tail
    without an answer is inconclusive and says why, as no duets are run to decide it.

    Returns:
        Judgements in the order of the samples, leading metrics first.
    """
    return {key: tuple(_judge_case(key, test)) for key in test.samples}


def _judge_case(key: str, test: SequentialTest) -> Iterator[Judgement]:
    samples = test.samples[key]
    counts: dict[str, Any] = {"duets": len(samples.usable), "excluded": samples.excluded}
    void = Verdict.NOT_COMPARABLE
    if reason := samples.void:
        yield Judgement(metric=samples.leading[0], verdict=void, reason=reason, **counts)
        return
    if leak := samples.leak:
        yield Judgement(metric=_MEMORY, verdict=void, reason=leak, **counts)
    yield from _judge_metrics(key, test, (*samples.leading, *samples.tails))


def judge_beside(
    test: SequentialTest, duets: Mapping[str, CaseDuets]
) -> dict[str, tuple[Judgement, ...]]:
    """Judge the explaining metrics at the looks of a closed test, as a family of their own.

    They do not make the other verdicts stricter.
    """
    beside = SequentialTest(duets, test.method, test._prior)
    beside._final, beside._closed = test._final, True
    return {key: tuple(_judge_metrics(key, beside, duets[key].metrics)) for key in duets}


def _judge_metrics(key: str, test: SequentialTest, names: Sequence[str]) -> Iterator[Judgement]:
    """Judge some metrics of a case."""
    samples = test.samples[key]
    counts: dict[str, Any] = {"excluded": samples.excluded}
    for metric in names:
        if test.follows(key, metric):
            continue
        leading = metric in samples.leading
        counts["duets"] = samples.count(metric)
        if metric in samples.lost and samples.mode is Mode.PART and not shown_by_duets(metric):
            yield Judgement(
                metric=metric,
                verdict=Verdict.INCONCLUSIVE,
                reason=_HURRIED,
                excluded=samples.excluded,
            )
        elif metric in samples.lost:
            reason = f"{METRICS[metric].title}: {_lack(samples, metric)}"
            verdict = Verdict.NOT_COMPARABLE if leading else Verdict.INCONCLUSIVE
            yield Judgement(metric=metric, verdict=verdict, reason=reason, **counts)
        elif metric in samples.metrics and (leading or samples.usable):
            verdict, reason = _verdict(key, metric, test)
            has_sample = test.evidence(key, metric).sample is not None
            yield Judgement(
                metric=metric,
                verdict=verdict,
                reason=reason,
                p=test.adjusted()[key, metric] if has_sample else None,
                alone=samples.alone(metric),
                **test.figures(key, metric),
                **counts,
            )


def _lack(samples: CaseDuets, metric: str) -> str:
    """Say how many samples have a metric, and what it needs."""
    noun = samples.mode.noun
    answers = {name: least for name, _, least in PERCENTILES}.get(metric.rpartition("_")[2], 1)
    each = f"{answers:,} answers of each side in a {noun}, or in {POOLED} of them and more"
    share = f"{samples.count(metric)} of {len(samples.usable)} {noun}s have it"
    return f"{share}, {SHARE:.0%} must{f'; it takes {each}' if answers > 1 else ''}"


def _verdict(key: str, metric: str, test: SequentialTest) -> tuple[Verdict, str]:
    """Return the verdict on one metric, with a reason where it does not explain itself."""
    samples, state = test.samples[key], test.state(key, metric)
    noun = samples.mode.noun
    if not samples.usable:
        total = len(samples.all)
        reason = f"none of {total} {noun}s was usable: {samples.disturbances()}"
        return Verdict.INCONCLUSIVE, reason if total else f"no time for a {noun}"
    sample = test.evidence(key, metric).sample
    fewer = samples.count(metric) < len(samples.usable)
    part = f"from the {noun}s that have it: {_lack(samples, metric)}" if fewer else ""
    if state == "open" or sample is None:
        luck = test.adjusted()[key, metric] <= test.rate
        return Verdict.INCONCLUSIVE, _LUCK if luck else part
    if drifted := samples.drifted(metric):
        part = drifted
        if state == "same" or not samples.agreed(metric):
            return Verdict.INCONCLUSIVE, drifted
    if state == "same":
        return Verdict.NO_CHANGE, part
    return statistics.direction(metric, sample.mean), part
