"""The rows of a comparison: one per case (or in-process benchmark) and metric. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from servebench.compare.model import CaseComparison, Comparison, Judgement, Verdict
from servebench.metrics import METRICS
from servebench.report import formats
from servebench.report.comparison import words

CPU: Final = "server_cpu_per_request"
"""The metric that is judged for every case."""

MICRO_FLOOR: Final = 0.01
"""Relevance floor of in-process benchmarks: `compare.inprocess.THRESHOLD`, a dear import."""

_MOVED: Final = (Verdict.SLOWER, Verdict.FASTER)
_MICRO_LABEL: Final = "time in process"
_TOO_FEW: Final = "only {} usable: too few to look at"


@dataclass(frozen=True, slots=True)
class Row:
    """One case and metric.

    Attributes:
        case: The case's id, or the in-process benchmark's name.
        metric: Key of the metric registry; empty for in-process benchmarks.
        label: What is measured, in words.
        judged: The judgement itself.
        verdict: The verdict in words, with its mark; or what was seen and not confirmed.
        change: Head against base, in per cent.
        interval: Its interval.
        detectable: Smallest change that would have been called.
        figures: Base → head in the metric's unit: base's from sequential launches, and that times
            the ratio, so that they say what `change` says; may be empty.
        samples: Usable duets (or pairs of processes): of the screening, plus of the confirmation.
        grouped: Whether an event tells it together with other rows.
    """

    case: str
    metric: str
    label: str
    judged: Judgement
    verdict: str
    change: str
    interval: str
    detectable: str
    figures: str
    samples: str
    grouped: bool = False

    @property
    def why(self) -> str:
        """Why there is no verdict that something moved, or did not."""
        if self.judged.reason:
            return words.reason(self.judged)
        if self.judged.ratio is None:
            noun = "duet" if self.metric else "pair of processes"
            count = self.judged.screened
            plural = f"{count} {'duets' if self.metric else 'pairs of processes'}"
            return _TOO_FEW.format(f"1 {noun}" if count == 1 else plural)
        return "neither a change nor its absence is shown yet"


@dataclass(frozen=True, slots=True)
class Groups:
    """All rows, by what was said of them.

    Attributes:
        worse: Slower or larger; what is furthest beyond its relevance floor first.
        better: Faster or smaller, in the same order.
        broken: Not comparable: a side failed, or does not have the metric.
        undecided: Measured, and neither a change nor its absence is shown.
        unjudged: Without the samples for one look.
        unchanged: No change.
    """

    worse: tuple[Row, ...]
    better: tuple[Row, ...]
    broken: tuple[Row, ...]
    undecided: tuple[Row, ...]
    unjudged: tuple[Row, ...]
    unchanged: tuple[Row, ...]

    @property
    def judged(self) -> tuple[Row, ...]:
        """Those with an answer."""
        return (*self.worse, *self.better, *self.unchanged)

    @property
    def all(self) -> tuple[Row, ...]:
        """All of them, in the order in which people should read them."""
        return (
            *self.worse, *self.better, *self.broken, *self.undecided, *self.unjudged,
            *self.unchanged,
        )  # fmt: skip


def grouped(comparison: Comparison) -> Groups:
    """Make the rows of a comparison, and group them."""
    found = tuple(_rows(comparison))

    def said(verdict: Verdict) -> tuple[Row, ...]:
        return tuple(row for row in found if row.judged.verdict is verdict)

    waiting = said(Verdict.INCONCLUSIVE)
    return Groups(
        worse=_sorted(said(Verdict.SLOWER)),
        better=_sorted(said(Verdict.FASTER)),
        broken=said(Verdict.NOT_COMPARABLE),
        undecided=tuple(row for row in waiting if row.judged.ratio is not None),
        unjudged=tuple(row for row in waiting if row.judged.ratio is None),
        unchanged=said(Verdict.NO_CHANGE),
    )


def count(rows: Iterable[Row]) -> str:
    """How many cases and in-process benchmarks rows are about: `2 cases and 1 benchmark`."""
    rows = tuple(rows)
    cases = len({row.case for row in rows if row.metric})
    inside = len({row.case for row in rows if not row.metric})
    parts = [words.many(cases, "case")] if cases else []
    parts += [words.many(inside, "in-process benchmark")] if inside else []
    return " and ".join(parts)


def _rows(comparison: Comparison) -> Iterator[Row]:
    told = {
        (case, event.metric, event.verdict) for event in comparison.events for case in event.cases
    }
    for case in comparison.cases:
        for judged in case.judgements:
            yield Row(
                case=case.case.id,
                metric=judged.metric,
                label=words.title(judged.metric),
                verdict=words.said(judged.metric, judged),
                figures=_absolute(case, judged),
                grouped=(case.case.id, judged.metric, judged.verdict) in told,
                judged=judged, change=words.percent(judged.ratio), interval=words.interval(judged),
                detectable=words.size(judged.detectable), samples=_samples(judged),
            )  # fmt: skip
    for micro in comparison.micro:
        judged = micro.judgement
        yield Row(
            case=f"{micro.benchmark} [{micro.stack}, {micro.python}]",
            metric="",
            label=_MICRO_LABEL,
            verdict=words.said("", judged),
            figures="",
            judged=judged, change=words.percent(judged.ratio), interval=words.interval(judged),
            detectable=words.size(judged.detectable), samples=_samples(judged),
        )  # fmt: skip


def _samples(judged: Judgement) -> str:
    """A confirmation counts for what it was about; its duets have the other metrics as well."""
    candidate = judged.verdict in _MOVED or judged.reason
    if judged.confirmed and candidate:
        return f"{judged.screened}+{judged.confirmed}"
    return f"{judged.screened}"


def _absolute(case: CaseComparison, judged: Judgement) -> str:
    base = case.absolute_base.get(judged.metric)
    if base is None or judged.ratio is None:
        return ""
    # Head's own launches scatter more than the ratio, and would often contradict it.
    ends = (base, base * judged.ratio)
    return " → ".join(formats.figure(judged.metric, end) for end in ends)


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    """What is furthest beyond its relevance floor first: people read the top."""
    return tuple(sorted(rows, key=_weight, reverse=True))


def _weight(row: Row) -> float:
    floor = METRICS[row.metric].floor if row.metric else MICRO_FLOOR
    return abs((row.judged.ratio or 1.0) - 1) / floor
