"""What `published.toml` claims, checked against a run: sentences with figures, and shapes.

A sentence is a template under `answers`, which may use, with names from `[cases]`:

    {{ fig("a", "throughput") }}            9.50/s (±1.2 %)
    {{ ratio("a", "b", "throughput") }}     1.90 (1.83…1.97)
    {{ change("a", "b", "throughput") }}    21 % lower (19…23 %)
    {{ theirs("a", "throughput") }}         the published figure: 9.90/s

`change` chooses its words from the interval, so that no sentence claims what the figures do not
say. A sentence with a figure that was not measured is replaced by one that says so. A shape is a
ratio with its interval, compared to the declared range.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from duetbench.core import units
from duetbench.core.errors import DISTURBING, DeclarationError
from duetbench.core.metrics import METRICS
from duetbench.core.model import Frozen
from duetbench.core.units import Interval
from duetbench.project.published import Published, Shape
from duetbench.show import formats
from duetbench.trend import summary as over_launches
from duetbench.trend.summary import CaseSummary, RunSummary

_LARGE = 1.5  # from here a ratio reads better than per cent
_EQUAL = 0.02  # an interval around 1 that is no wider than this says "the same"

ONE_LAUNCH: Final = "one launch"
"""Why nothing is decided from a figure without an interval."""

ShapeVerdict = Literal["holds", "does not hold", "not decided", "not measured"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One filled sentence, or why it could not be filled; and the flags of the cases it cites."""

    text: str
    measured: bool
    flags: tuple[str, ...] = ()

    @property
    def flagged(self) -> str:
        """Its flags behind it, in brackets."""
        return _bracketed(self.flags)


class ShapeResult(Frozen):
    """A statement, its figure in a run, and whether it holds.

    `flags` are the warn flags of the cases used: a flagged figure is shown, with its flags named.
    """

    statement: str
    expected: str
    published: float | None
    ours: Interval | None
    verdict: ShapeVerdict
    reason: str
    flags: tuple[str, ...] = ()

    @property
    def figure(self) -> str:
        return formats.MISSING if self.ours is None else formats.ratio_with_interval(self.ours)

    @property
    def text(self) -> str:
        text = f"{self.verdict}: {self.reason}" if self.reason else self.verdict
        return text + _bracketed(self.flags)


class _NotMeasuredError(Exception):
    """A sentence asked for a figure that the run does not have."""


@dataclass(slots=True)
class _Figures:
    """The functions of a template; remembers the cases that it cites."""

    summary: RunSummary
    published: Published
    cited: dict[str, None] = field(default_factory=dict)

    def fig(self, case: str, metric: str) -> str:
        """A figure of ours with its interval."""
        case_id = self._cite(case, metric)
        case_summary = self.summary.cases.get(case_id)
        figure = case_summary.metrics.get(metric) if case_summary else None
        if figure is None:
            raise _NotMeasuredError(f"{metric} of {case_id}")
        interval = formats.interval(metric, figure)
        return formats.figure(metric, figure.estimate) + (f" ({interval})" if interval else "")

    def theirs(self, case: str, metric: str) -> str:
        """A published figure."""
        value = self.published.figure(self.published.ids(case)[0], _checked_metric(metric))
        if value is None:
            raise ValueError(f"no published {metric} of {case}")
        return formats.figure(metric, value)

    def ratio(self, above: str, below: str, metric: str) -> str:
        """The ratio of two figures of ours, with its interval."""
        figure = self._ratio(above, below, metric)
        if formats.ratio_interval(figure):
            return formats.ratio_with_interval(figure)
        return f"{units.significant(figure.estimate, 1)} (one launch)"

    def change(self, case: str, base: str, metric: str) -> str:
        """How a case's figure differs from that of another, in words that its interval supports."""
        return change(self._ratio(case, base, metric))

    def _ratio(self, above: str, below: str, metric: str) -> Interval:
        cases = [self._cite(above, metric), self._cite(below, metric)]
        sides = [over_launches.values(self.summary.run, case, metric) for case in cases]
        missing = [case for case, side in zip(cases, sides, strict=True) if not side]
        if missing:
            raise _NotMeasuredError(f"{metric} of {', '.join(missing)}")
        ratio = over_launches.ratio(*sides)
        if ratio is None:
            raise _NotMeasuredError(f"a ratio of {metric}, which was zero in {' or '.join(cases)}")
        return ratio

    def _cite(self, name: str, metric: str) -> str:
        _checked_metric(metric)
        if "/" not in name and name not in self.published.cases:
            raise ValueError(f"the case {name!r} is not in [cases]")
        case_id = self.published.case_id(name, self.summary.cases)
        self.cited[case_id] = None
        return case_id


def change(ratio: Interval) -> str:
    """A ratio in words: `21 % lower (19…23 %)`, `2.1 times as high`, `the same within 0.8 %`."""
    large = ratio.estimate >= _LARGE or ratio.estimate <= 1 / _LARGE
    if ratio.ends is None:
        # Launches of the same case differ by up to a fifth.
        if not large:
            return "about the same (one launch: no verdict)"
        return f"about {units.significant(ratio.estimate, 1)} times as high (one launch)"
    interval = formats.ratio_interval(ratio)
    offsets = sorted(abs(end - 1) for end in ratio.ends)
    if not ratio.excludes(1):
        if offsets[1] <= _EQUAL:
            return f"the same within {units.significant(100 * offsets[1], 2)} %"
        return f"no different as far as can be told ({interval} times)"
    if large:
        return f"{formats.ratio(ratio.estimate)} times as high ({interval})"
    near, far, size = (
        units.significant(100 * offset, 2) for offset in (*offsets, abs(ratio.estimate - 1))
    )
    return f"{size} % {'higher' if ratio.estimate > 1 else 'lower'} ({near}…{far} %)"


def fill(template: str, summary: RunSummary, published: Published, file: str) -> Sentence:
    """Fill one sentence; DeclarationError: the template is wrong, or names what is not declared."""
    figures = _Figures(summary, published)
    # Text for Markdown and terminals, not HTML: nothing to escape.
    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    environment.globals.update(
        fig=figures.fig, ratio=figures.ratio, change=figures.change, theirs=figures.theirs
    )
    try:
        text = environment.from_string(template).render()
    except _NotMeasuredError as missing:
        return Sentence(f"Not measured: {missing}.", measured=False)
    except (TemplateError, ValueError, TypeError) as problem:
        raise DeclarationError(
            file, "answers", f"{template:.60}…: {problem}", "a template of show/claims.py"
        ) from problem
    cited = (summary.cases[case] for case in figures.cited if case in summary.cases)
    return Sentence(" ".join(text.split()), True, _flags(cited))


def _flags(cases: Iterable[CaseSummary]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(flag.name) for case in cases for flag in case.warnings))


def _bracketed(flags: tuple[str, ...]) -> str:
    return f" [{', '.join(flags)}]" if flags else ""


def _checked_metric(metric: str) -> str:
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}")
    return metric


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
    metric = shape.metric
    names = [name for name in (shape.numerator, shape.denominator) if name is not None]
    cases = [published.case_id(name, summary.cases) for name in names]
    summaries = [summary.cases[case] for case in cases if case in summary.cases]
    figures = [published.figure(published.ids(name)[0], metric) for name in names]
    if len(cases) == 1:
        ours, theirs = summaries[0].metrics.get(metric) if summaries else None, figures[0]
    else:
        sides = (over_launches.values(summary.run, case, metric) for case in cases)
        ours, (above, below) = over_launches.ratio(*sides), figures
        theirs = above / below if above is not None and below else None
    verdict = judge(ours, shape.least, shape.most)
    # Flags under which at least half of a case's launches also measured something else.
    disturbed = dict.fromkeys(
        str(flag.name)
        for case in summaries
        for flag in case.warnings
        if flag.name in DISTURBING and 2 * flag.launches >= case.measured
    )
    if disturbed and verdict in {"holds", "does not hold"}:
        verdict = "not decided"
    reason = ""
    if verdict == "not measured":
        measured = {case.id for case in summaries if case.status == "measured"}
        missing = ", ".join(case.partition("/")[2] for case in cases if case not in measured)
        reason = f"no figures of {missing}" if missing else "no such figure"
    elif ours is not None and ours.ends is None:
        reason = ONE_LAUNCH
    elif disturbed:
        reason = f"measured under {', '.join(disturbed)}: measure again on a quiet machine"
    elif verdict == "not decided":
        reason = "the interval reaches over the limit: more launches would decide"
    elif verdict == "does not hold":
        reason = shape.if_not or ""
    return ShapeResult(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        published=theirs if shape.published is None else shape.published,
        ours=ours,
        verdict=verdict,
        reason=reason,
        flags=_flags(summaries) if ours is not None else (),
    )


def judge(ours: Interval | None, least: float | None, most: float | None) -> ShapeVerdict:
    """Decide a statement if the whole interval lies on one side of its limits.

    Without an interval nothing is decided: a single launch may lie anywhere within the scatter.
    """
    if ours is None:
        return "not measured"
    low, high = ours.ends or (-math.inf, math.inf)
    floor, top = -math.inf if least is None else least, math.inf if most is None else most
    if floor <= low and high <= top and ours.ends:
        return "holds"
    return "does not hold" if high < floor or low > top else "not decided"
