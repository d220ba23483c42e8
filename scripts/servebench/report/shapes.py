"""Does the published shape hold here? A ratio with its interval against the declared range."""

from __future__ import annotations

from typing import Final, Literal

from servebench.core.flags import DISTURBING
from servebench.core.model import Frozen
from servebench.declare.published import Published, Shape
from servebench.report import formats
from servebench.series.summary import Estimate, RunSummary, ratio, values

ONE_LAUNCH: Final = "one launch"
"""Why nothing is decided from a figure without an interval."""

Verdict = Literal["holds", "does not hold", "not decided", "not measured"]


class ShapeResult(Frozen):
    """A statement, what was found in a run, and whether it holds.

    `flags` are the warn flags of the cases used: a flagged figure is shown, with its flags named.
    """

    statement: str
    expected: str
    published: float | None
    ours: Estimate | None
    verdict: Verdict
    reason: str
    flags: tuple[str, ...] = ()

    @property
    def figure(self) -> str:
        """Ours with its interval."""
        if self.ours is None:
            return formats.MISSING
        interval = formats.ratio_interval(self.ours)
        return formats.ratio(self.ours.mean) + (f" ({interval})" if interval else "")

    @property
    def told(self) -> str:
        """The verdict with its reason and flags."""
        told = f"{self.verdict}: {self.reason}" if self.reason else self.verdict
        return f"{told} [{', '.join(self.flags)}]" if self.flags else told


def check_all(summary: RunSummary, published: Published) -> tuple[ShapeResult, ...]:
    """Check every shape of an experiment against a run."""
    return tuple(check(summary, published, shape) for shape in published.shapes)


def check(summary: RunSummary, published: Published, shape: Shape) -> ShapeResult:
    """Check one shape against a run."""
    if shape.metric is None or shape.numerator is None:
        return ShapeResult(
            statement=shape.statement,
            expected=formats.MISSING,
            published=shape.published,
            ours=None,
            verdict="not measured",
            reason=shape.pending or "",
        )
    names = [name for name in (shape.numerator, shape.denominator) if name is not None]
    cases = [published.case_id(name, summary.cases) for name in names]
    ours = _ours(summary, cases, shape.metric)
    verdict = judge(ours, shape.least, shape.most)
    disturbed = [flag for case in cases for flag in _disturbing(summary, case)]
    if disturbed and verdict in {"holds", "does not hold"}:
        verdict = "not decided"
    flags = dict.fromkeys(
        str(flag.name)
        for case in cases
        if case in summary.cases
        for flag in summary.cases[case].warnings
    )
    return ShapeResult(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        published=shape.published
        if shape.published is not None
        else _published(published, names, shape.metric),
        ours=ours,
        verdict=verdict,
        reason=ONE_LAUNCH
        if ours is not None and ours.low is None
        else _reason(summary, cases, shape, verdict, disturbed),
        flags=tuple(flags) if ours is not None else (),
    )


def judge(ours: Estimate | None, least: float | None, most: float | None) -> Verdict:
    """A statement is decided when the whole interval lies on one side of its limits.

    Without an interval nothing is: one launch may be anywhere within what launches scatter by.
    """
    if ours is None:
        return "not measured"
    low, high = ours.low, ours.high
    if low is None or high is None:
        return "not decided"
    floor = float("-inf") if least is None else least
    top = float("inf") if most is None else most
    if low >= floor and high <= top:
        return "holds"
    if high < floor or low > top:
        return "does not hold"
    return "not decided"


def _ours(summary: RunSummary, cases: list[str], metric: str) -> Estimate | None:
    if len(cases) == 1:
        case = summary.cases.get(cases[0])
        return case.metrics.get(metric) if case else None
    return ratio(values(summary.run, cases[0], metric), values(summary.run, cases[1], metric))


def _published(published: Published, names: list[str], metric: str) -> float | None:
    figures = [published.figure(published.ids(name)[0], metric) for name in names]
    if len(figures) == 1:
        return figures[0]
    above, below = figures
    return above / below if above is not None and below else None


def _disturbing(summary: RunSummary, case: str) -> list[str]:
    """Flags under which at least half of a case's launches also measured something else."""
    found = summary.cases.get(case)
    if found is None:
        return []
    return [
        str(flag.name)
        for flag in found.warnings
        if flag.name in DISTURBING and 2 * flag.launches >= found.measured
    ]


def _reason(
    summary: RunSummary, cases: list[str], shape: Shape, verdict: Verdict, disturbed: list[str]
) -> str:
    if verdict == "not measured":
        missing = [
            case
            for case in cases
            if case not in summary.cases or summary.cases[case].status != "measured"
        ]
        names = ", ".join(case.partition("/")[2] for case in missing)
        return f"no figures of {names}" if missing else "no such figure"
    if verdict == "not decided" and disturbed:
        names = ", ".join(dict.fromkeys(disturbed))
        return f"measured under {names}: measure again on a quiet machine"
    if verdict == "not decided":
        return "the interval reaches over the limit: more launches would decide"
    return (shape.if_not or "") if verdict == "does not hold" else ""
