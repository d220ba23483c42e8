"""What a comparison says of a series, of server runs or inside the process. Pure."""

from __future__ import annotations

from servebench.compare import inprocess
from servebench.record.change import SeriesName
from servebench.record.comparison import Comparison, Judgement


def of(comparison: Comparison, series: SeriesName) -> Judgement | None:
    """The judgement on a series; None if there is none."""
    if inside(series):
        return next((one.judgement for one in comparison.micro if one.series == series.case), None)
    return next(
        (
            judgement
            for case in comparison.cases
            if case.case.id == series.case
            for judgement in case.judgements
            if judgement.metric == series.metric
        ),
        None,
    )


def played(comparison: Comparison, series: SeriesName) -> bool:
    """Whether it was measured, at least in another metric."""
    if inside(series):
        return of(comparison, series) is not None
    return any(case.case.id == series.case for case in comparison.cases)


def untouched(comparison: Comparison) -> bool:
    """Whether nothing was measured because the two sides cannot differ there."""
    return not (comparison.planned or comparison.micro or comparison.missing)


def inside(series: SeriesName) -> bool:
    """Whether it is of a benchmark inside the process, and not of server runs."""
    return series.metric == inprocess.SECONDS
