"""What trials say of the instrument: false verdicts, power, bias, time. Pure.

Reference methods, the usual ways to judge, are held against it on the same launches. They look at
head's and base's figures one after the other, without knowing which were measured side by side, and
are used for no verdict.

Rates carry Clopper-Pearson intervals (Biometrika 26 (1934) 404): exact for small numbers, and
honest for none: 0 of 30 is "below 12 %", not "never".
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from statistics import fmean, geometric_mean, stdev
from typing import Final, Literal

from duetbench.core.metrics import METRICS
from duetbench.store.comparison import METHOD_VERSION, Verdict
from duetbench.store.trial import CPU_METRIC, Figures, Kind, Offset, Trial

JUDGED_BY: Final[dict[Kind, tuple[str, ...]]] = {
    "busy": (CPU_METRIC,),
    "cache": (CPU_METRIC,),
    "dependency": (CPU_METRIC,),
    "memory": ("pss_steady",),
    "queue": ("response_p50", "service_p50", "efficiency"),
    "wait": ("response_p50", "service_p50", "efficiency"),
}
"""The metrics in which each kind of plant can be seen: its size is that of the first one judged."""

_MOVED: Final = (Verdict.FASTER, Verdict.SLOWER)


Call = Literal["slower", "faster", "no change"]
"""What a rule says of head."""

Rule = Callable[[Sequence[float], Sequence[float], float], Call]
"""From figures of base and of head, lower is better, and a threshold, to a call."""


def by_method(trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
    """Trials of the present method, with two installations, and all others: they count apart."""
    now: list[Trial] = []
    before: list[Trial] = []
    for trial in trials:
        present = trial.method == METHOD_VERSION and trial.installation is not None
        (now if present else before).append(trial)
    return now, before


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many, with the 95 % interval of the rate."""

    hits: int
    of: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PlantScore:
    """How well one kind and size of plant is found on one case. Sizes are relative.

    `error` and `bias` are those of the reported size against what instructions predict, and against
    sequential launches; None without, and for what is no CPU time. `pooled` is what the duets of
    all tries together say, those included in which nothing was found: the best that is known of
    what was really planted; None without duets. `apart` holds each reported size against what the
    other tries' duets say: how far the instrument, not the plant, is off; None for a single try.
    """

    kind: Kind
    size: float
    case: str
    rate: Rate  # how often the verdict was the right one
    wrong: int  # how often it was the opposite
    error: float | None  # mean
    worst: float | None  # the largest such difference, in size
    bias: float | None  # mean
    pooled: float | None
    apart: float | None  # mean
    apart_worst: float | None
    spread: float | None  # standard deviation of the reported sizes; None for fewer than two
    reported: float | None  # mean
    duets: float  # usable ones per try, mean
    seconds: float  # of duets per try, mean


@dataclass(frozen=True, slots=True)
class RuleScore:
    """One way of judging: its false alarms, and its misses per planted size."""

    name: str
    alarms: Rate | None
    case_alarms: Rate | None
    misses: tuple[tuple[float, Rate], ...]
    minutes: float


@dataclass(frozen=True, slots=True)
class Scatter:
    """What no restart redraws: logarithms of CPU per request, copy over original, of one case.

    `between` is the standard deviation of the installations' means, `expected` that which follows
    from the scatter of launches alone. `tau` is the standard deviation of what stays the same in
    all launches of an installation, by a one-way analysis of variance with random effects, and
    `bound` its one-sided 95 % bound, by the F distribution.
    """

    session: str
    case: str
    same: bool  # no copies: the original was held against itself
    offsets: tuple[float, ...]  # means, one per installation
    duets: int  # of all installations together
    between: float
    expected: float
    tau: float
    bound: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """What pairs of trials of the same said, by case and metric of both.

    `both` and `one` count what was called by both in the same direction, and by one alone.
    """

    kind: Kind
    size: float
    pairs: int
    both: int
    one: int
    neither: int

    @property
    def jaccard(self) -> float | None:
        """Of all that was called the part that both called; None where nothing was."""
        called = self.both + self.one
        return self.both / called if called else None


def agreements(trials: Sequence[Trial]) -> tuple[Agreement, ...]:
    """How well trials agree with those that they repeat, by kind and size."""
    known = {trial.id: trial for trial in trials}
    groups: dict[tuple[Kind, float], list[Counter[str]]] = defaultdict(list)
    for trial in trials:
        if trial.again in known:
            groups[trial.kind, trial.size].append(_agreed(known[trial.again], trial))
    return tuple(
        Agreement(kind, size, len(many), *(sum(one[name] for one in many) for name in _AGREED))
        for (kind, size), many in sorted(groups.items())
    )


_AGREED: Final = ("both", "one", "neither")


def _agreed(*pair: Trial) -> Counter[str]:
    first, second = ({(one.case, one.metric): one.verdict for one in t.said} for t in pair)
    found: Counter[str] = Counter()
    for name in first.keys() & second.keys():
        called = [one[name] for one in (first, second) if one[name] in _MOVED]
        if len(called) == 2 and called[0] is called[1]:
            found["both"] += 1
        else:
            found["one" if called else "neither"] += max(1, len(called))
    return found


def scatters(offsets: Iterable[Offset]) -> tuple[Scatter, ...]:
    """Scatter between installations, by session and case, of those with two installations."""
    groups: dict[tuple[str, str, bool], list[list[float]]] = defaultdict(list)
    for offset in offsets:
        for case, ratios in offset.ratios.items():
            if ratios:
                groups[offset.session, case, offset.installation is None].append(
                    list(map(math.log, ratios))
                )
    return tuple(
        _scatter(*group, many)
        for group, many in sorted(groups.items())
        if sum(map(len, many)) > len(many) > 1
    )


def _scatter(session: str, case: str, same: bool, many: Sequence[Sequence[float]]) -> Scatter:
    from scipy import special  # noqa: PLC0415 - as in `rate`

    means = tuple(map(fmean, many))
    count, whole = len(many), sum(map(len, many))
    mean = sum(map(sum, many)) / whole
    above = sum(len(one) * (own - mean) ** 2 for one, own in zip(many, means, strict=True))
    within = sum((x - own) ** 2 for one, own in zip(many, means, strict=True) for x in one)
    above, within = above / (count - 1), within / (whole - count)
    # Duets of an installation: their mean, if all have as many.
    each = (whole - sum(len(one) ** 2 for one in many) / whole) / (count - 1)
    quantile = float(special.fdtri(count - 1, whole - count, 0.05))
    return Scatter(
        session=session,
        case=case,
        same=same,
        offsets=means,
        duets=whole,
        between=stdev(means),
        expected=math.sqrt(within / each),
        tau=math.sqrt(max(0.0, above - within) / each),
        bound=math.sqrt(max(0.0, above / quantile - within) / each),
    )


def rate(hits: int, of: int) -> Rate:
    """A rate with its interval; `ValueError`: of nothing."""
    # scipy.stats has it too, and takes a second more to import.
    from scipy import special  # noqa: PLC0415 - only those who read rates wait for its import

    if of < 1:
        raise ValueError("a rate of nothing")
    low = float(special.betaincinv(hits, of - hits + 1, 0.025)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, of - hits, 0.975)) if hits < of else 1.0
    return Rate(hits, of, low, high)


def _alarmed(trial: Trial) -> frozenset[str]:
    return frozenset(one.case for one in trial.said if one.verdict in _MOVED)


def false_verdicts(
    trials: Iterable[Trial], alarmed: Callable[[Trial], frozenset[str]] = _alarmed
) -> tuple[Rate, Rate] | None:
    """Rates of A/A comparisons, and of cases in them, with any verdict that something moved.

    Only what was measured counts: of a case without a usable duet nothing wrong can be said, and a
    budget leaves most of them out.

    Returns:
        None without any A/A comparison that measured something.
    """
    both = []
    for trial in trials:
        measured = {one.case for one in trial.said if one.duets}
        if trial.kind == "aa" and measured:
            both.append((len(alarmed(trial)), len(measured)))
    if not both:
        return None
    whole = rate(sum(hits > 0 for hits, _ in both), len(both))
    return whole, rate(sum(hits for hits, _ in both), sum(of for _, of in both))


def plants(trials: Iterable[Trial]) -> tuple[PlantScore, ...]:
    """How well each kind and size of plant is found, per case."""
    groups: dict[tuple[Kind, float, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.kind != "aa":
            groups[trial.kind, trial.size, trial.planted].append(trial)
    return tuple(_plant(*key, groups[key]) for key in sorted(groups))


def single(base: Sequence[float], head: Sequence[float], threshold: float) -> Call:
    """One launch of each, the change beyond a threshold: base's first and head's last.

    They are of different duets: what the machine did in between is in the figure.
    """
    return _beyond(base[0], head[-1], threshold)


def best_of(base: Sequence[float], head: Sequence[float], threshold: float) -> Call:
    """The best launch of each side, the change beyond a threshold."""
    return _beyond(min(base), min(head), threshold)


def asv_continuous(base: Sequence[float], head: Sequence[float], factor: float) -> Call:
    """Asv's rule: Mann-Whitney's U test at p < 0.002, and the medians apart by a factor.

    The test is asv's own code. With fewer than six samples a side it cannot see anything, and asv
    falls back on whether 99 % intervals overlap.
    """
    import numpy as np  # noqa: PLC0415 - with asv, a second to import
    from asv import _stats  # noqa: PLC0415
    from asv_runner import statistics  # noqa: PLC0415

    found = [statistics.compute_stats(list(side), 1)[1] for side in (base, head)]
    if not _stats.is_different(list(base), list(head), *found):
        return "no change"
    before, after = float(np.median(base)), float(np.median(head))
    if after > before * factor:
        return "slower"
    return "faster" if before > after * factor else "no change"


REFERENCE: Final[tuple[tuple[str, Rule, float, int | None], ...]] = (
    ("one launch each, 5 %", single, 0.05, 1),
    ("one launch each, 2 %", single, 0.02, 1),
    ("best of all launches, 5 %", best_of, 0.05, None),
    ("best of all launches, 1 %", best_of, 0.01, None),
    ("asv continuous, factor 1.1", asv_continuous, 1.1, None),
    ("asv continuous, factor 1.02", asv_continuous, 1.02, None),
)
"""Usual ways: name, rule, threshold, launches of a side that it looks at (None: all)."""


def rules(trials: Sequence[Trial]) -> tuple[RuleScore, ...]:
    """Our rule and the reference ones on the same launches: CPU slowdowns and A/A only."""

    def by(name: str, rule: Rule, threshold: float, launches: int | None) -> RuleScore:
        def called(trial: Trial, *calls: Call) -> frozenset[str]:
            found = _called(trial, rule, threshold)
            return frozenset(case for case in found if found[case] in calls)

        return _rule(
            name,
            trials,
            lambda trial: called(trial, "slower", "faster"),
            lambda trial: trial.planted in called(trial, "slower"),
            launches,
        )

    return (_rule("duetbench", trials, _alarmed, _caught), *starmap(by, REFERENCE))


def _beyond(before: float, after: float, threshold: float) -> Call:
    if after > before * (1 + threshold):
        return "slower"
    return "faster" if after < before * (1 - threshold) else "no change"


def _plant(kind: Kind, size: float, case: str, many: Sequence[Trial]) -> PlantScore:
    answers = [(t, one) for t in many for one in t.said if one.case == case]
    judged = {one.metric for _, one in answers if one.ratio is not None}
    names = JUDGED_BY[kind]
    metric = next((name for name in names if name in judged), names[0])
    said = [(trial, one) for trial, one in answers if one.metric == metric]
    ratios = [(t, one.ratio) for t, one in said if one.ratio and one.verdict in _MOVED]
    sizes = [ratio - 1 for _, ratio in ratios]
    timed = ratios if metric == CPU_METRIC else []  # what those two are figures of
    errors = [ratio - t.predicted for t, ratio in timed if t.predicted is not None]
    biases = [ratio - t.sequential for t, ratio in timed if t.sequential is not None]
    apart = [
        ratio - others
        for t, ratio in ratios
        if (others := _pooled((other for other in many if other is not t), case, metric))
    ]
    pooled = _pooled(many, case, metric)
    return PlantScore(
        kind=kind,
        size=size,
        case=case,
        rate=rate(sum(map(_caught, many)), len(many)),
        wrong=sum(one.verdict is Verdict.FASTER for _, one in said),
        error=fmean(errors) if errors else None,
        worst=max(errors, key=abs) if errors else None,
        bias=fmean(biases) if biases else None,
        pooled=None if pooled is None else pooled - 1,
        apart=fmean(apart) if apart else None,
        apart_worst=max(apart, key=abs) if apart else None,
        spread=stdev(sizes) if len(sizes) > 1 else None,
        reported=fmean(sizes) if sizes else None,
        duets=fmean(
            max((one.duets for one in t.said if one.case == case), default=0) for t in many
        ),
        seconds=fmean(trial.duet_seconds for trial in many),
    )


def _pooled(trials: Iterable[Trial], case: str, metric: str) -> float | None:
    """Geometric mean of head over base, over the duets of all these trials; None without any."""
    ratios = [
        head / base
        for trial in trials
        for figures in trial.figures
        if figures.case == case and figures.metric == metric
        for base, head in zip(figures.base, figures.head, strict=True)
    ]
    return geometric_mean(ratios) if ratios else None


def _rule(
    name: str,
    trials: Sequence[Trial],
    alarmed: Callable[[Trial], frozenset[str]],
    caught: Callable[[Trial], bool],
    launches: int | None = None,
) -> RuleScore:
    planted = [trial for trial in trials if trial.kind == "busy"]
    tried = Counter(trial.size for trial in planted)
    missed = Counter(trial.size for trial in planted if not caught(trial))
    alarms, case_alarms = false_verdicts(trials, alarmed) or (None, None)
    return RuleScore(
        name=name,
        alarms=alarms,
        case_alarms=case_alarms,
        misses=tuple((size, rate(missed[size], tried[size])) for size in sorted(tried)),
        minutes=fmean(_seconds(trial, launches) for trial in planted) / 60 if planted else 0.0,
    )


def _seconds(trial: Trial, launches: int | None) -> float:
    """Time of a try: all of it, or the part of its duets that so many launches of a side take."""
    taken = max((len(figures.base) for figures in trial.figures), default=0)
    if launches is None or not taken:
        return trial.wall_seconds
    return trial.duet_seconds * launches / taken


def _caught(trial: Trial) -> bool:
    """Whether the planted case was called slower in a metric that the plant is about.

    A queue may also be caught by the proof of concurrency, which makes head not comparable.
    """
    metrics = JUDGED_BY[trial.kind]
    return any(
        (one.verdict is Verdict.SLOWER and one.metric in metrics)
        or (
            trial.kind == "queue"
            and one.verdict is Verdict.NOT_COMPARABLE
            and one.reason.startswith("head: not_concurrent")
        )
        for one in trial.said
        if one.case == trial.planted
    )


def _called(trial: Trial, rule: Rule, threshold: float) -> dict[str, Call]:
    """What a rule says of each case, by throughput where that is judged, or else by CPU."""
    chosen: dict[str, Figures] = {}
    for metric in (CPU_METRIC, "throughput"):
        many = (figures for figures in trial.figures if len(figures.base) > 1)
        chosen |= {figures.case: figures for figures in many if figures.metric == metric}

    def costs(metric: str, values: Sequence[float]) -> list[float]:
        # What is better when it is higher is turned round.
        return [1 / v for v in values] if METRICS[metric].better == "higher" else list(values)

    return {
        case: rule(costs(one.metric, one.base), costs(one.metric, one.head), threshold)
        for case, one in chosen.items()
    }
