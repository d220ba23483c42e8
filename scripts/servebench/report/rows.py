"""The rows of a comparison: one per case (or in-process benchmark) and metric. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from servebench.core.metrics import METRICS
from servebench.record.comparison import CaseComparison, Comparison, Judgement, Verdict
from servebench.report import formats
from servebench.report.grid import Grid, grid

CPU: Final = "server_cpu_per_request"
"""The metric that is judged for every case."""
INPROCESS_THRESHOLD: Final = 0.01
"""Relevance threshold of in-process benchmarks: `compare.family.FLOOR`, which costs an import."""

_MOVED: Final = (Verdict.SLOWER, Verdict.FASTER)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One case and metric.

    Attributes:
        case: The case's id, or the in-process benchmark's name.
        metric: Key of the metric registry; empty for in-process benchmarks.
        judged: The judgement itself.
        figures: Base → head in the metric's unit: base's from sequential launches, and that times
            the ratio, so that they say what `change` says; may be empty.
        grouped: Whether an event tells it together with other rows.
    """

    case: str
    metric: str
    judged: Judgement
    figures: str = ""
    grouped: bool = False

    @property
    def label(self) -> str:
        return formats.title(self.metric) if self.metric else "time in process"

    @property
    def verdict(self) -> str:
        return formats.judgement(self.metric, self.judged)

    @property
    def change(self) -> str:
        return formats.percent(self.judged.ratio)

    @property
    def interval(self) -> str:
        low, high = self.judged.low, self.judged.high
        return "" if low is None or high is None else formats.ends(low, high)

    @property
    def detectable(self) -> str:
        """The smallest change that would have been called."""
        return formats.size(self.judged.detectable)

    @property
    def samples(self) -> str:
        """Usable duets (or pairs of processes): of the screening, plus of the confirmation."""
        # A confirmation counts for what it was about; its duets have the other metrics as well.
        if self.judged.confirmed and (self.judged.verdict in _MOVED or self.judged.reason):
            return f"{self.judged.screened}+{self.judged.confirmed}"
        return str(self.judged.screened)

    @property
    def why(self) -> str:
        """Why there is no verdict that something moved, or did not."""
        if self.judged.reason:
            return formats.reason(self.judged)
        if self.judged.ratio is None:
            count = self.judged.screened
            nouns = (
                ("duet", "duets") if self.metric else ("pair of processes", "pairs of processes")
            )
            return f"only {count} {nouns[count != 1]} usable: too few to look at"
        return "neither a change nor its absence is shown yet"


_COLUMNS: Final[dict[str, Callable[[ComparisonRow], str]]] = {
    "case": lambda row: row.case,
    "metric": lambda row: row.label,
    "verdict": lambda row: row.verdict,
    "change": lambda row: row.change,
    "95 % interval": lambda row: row.interval,
    "could see": lambda row: row.detectable,
    "base → head": lambda row: row.figures or formats.MISSING,
    "samples": lambda row: row.samples,
    "why": lambda row: row.why,
}
_WORDS: Final = ("case", "metric", "verdict", "why")


def table(rows: Iterable[ComparisonRow], *without: str) -> Grid:
    """Rows with all their columns but these."""
    head = [name for name in _COLUMNS if name not in without]
    return grid(head, ([_COLUMNS[name](row) for name in head] for row in rows), _WORDS)


@dataclass(frozen=True, slots=True)
class Groups:
    """All rows, by what was said of them.

    Attributes:
        worse: Slower or larger; what is furthest beyond its relevance threshold first.
        better: Faster or smaller, in the same order.
        broken: Not comparable: a side failed, or does not have the metric.
        undecided: Measured, and neither a change nor its absence is shown.
        unjudged: Without the samples for one look.
        unchanged: No change.
    """

    worse: tuple[ComparisonRow, ...]
    better: tuple[ComparisonRow, ...]
    broken: tuple[ComparisonRow, ...]
    undecided: tuple[ComparisonRow, ...]
    unjudged: tuple[ComparisonRow, ...]
    unchanged: tuple[ComparisonRow, ...]

    @property
    def judged(self) -> tuple[ComparisonRow, ...]:
        """Those with an answer."""
        return (*self.worse, *self.better, *self.unchanged)

    @property
    def all(self) -> tuple[ComparisonRow, ...]:
        """All of them, in the order in which people should read them."""
        open_ = (*self.broken, *self.undecided, *self.unjudged)
        return (*self.worse, *self.better, *open_, *self.unchanged)


def grouped(comparison: Comparison) -> Groups:
    """Make the rows of a comparison, and group them."""
    found = tuple(_rows(comparison))

    def having(verdict: Verdict) -> tuple[ComparisonRow, ...]:
        return tuple(row for row in found if row.judged.verdict is verdict)

    waiting = having(Verdict.INCONCLUSIVE)
    return Groups(
        worse=tuple(sorted(having(Verdict.SLOWER), key=_weight, reverse=True)),
        better=tuple(sorted(having(Verdict.FASTER), key=_weight, reverse=True)),
        broken=having(Verdict.NOT_COMPARABLE),
        undecided=tuple(row for row in waiting if row.judged.ratio is not None),
        unjudged=tuple(row for row in waiting if row.judged.ratio is None),
        unchanged=having(Verdict.NO_CHANGE),
    )


def count(rows: Iterable[ComparisonRow]) -> str:
    """How many cases and in-process benchmarks rows are about: `2 cases and 1 benchmark`."""
    rows = tuple(rows)
    cases = len({row.case for row in rows if row.metric})
    inprocess = len({row.case for row in rows if not row.metric})
    parts = [formats.many(cases, "case")] if cases else []
    parts += [formats.many(inprocess, "in-process benchmark")] if inprocess else []
    return " and ".join(parts)


def _rows(comparison: Comparison) -> Iterator[ComparisonRow]:
    told = {
        (case, event.metric, event.verdict) for event in comparison.events for case in event.cases
    }
    for case in comparison.cases:
        for judged in case.judgements:
            shared = (case.case.id, judged.metric, judged.verdict) in told
            figures = _figures(case, judged)
            yield ComparisonRow(case.case.id, judged.metric, judged, figures, shared)
    for micro in comparison.micro:
        name = f"{micro.benchmark} [{micro.stack}, {micro.python}]"
        yield ComparisonRow(name, "", micro.judgement)


def _figures(case: CaseComparison, judged: Judgement) -> str:
    base = case.absolute_base.get(judged.metric)
    if base is None or judged.ratio is None:
        return ""
    # Head's own launches scatter more than the ratio, and would often contradict it.
    return " → ".join(formats.figure(judged.metric, end) for end in (base, base * judged.ratio))


def _weight(row: ComparisonRow) -> float:
    threshold = METRICS[row.metric].floor if row.metric else INPROCESS_THRESHOLD
    return abs((row.judged.ratio or 1.0) - 1) / threshold
