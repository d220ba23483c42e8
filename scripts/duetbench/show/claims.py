"""What `published.toml` claims, held against a run: sentences with figures, and shapes.

A sentence is a template under `answers`, which may use, with names from `[cases]`:

    {{ fig("a", "throughput") }}            9.50/s (±1.2 %)
    {{ ratio("a", "b", "throughput") }}     1.90 (1.83…1.97)
    {{ change("a", "b", "throughput") }}    21 % lower (19…23 %)
    {{ theirs("a", "throughput") }}         the published figure: 9.90/s

`change` chooses its words from the interval, so that no sentence claims what the figures do not
say. A sentence with a figure that was not measured is replaced by one that says so. A shape is a
ratio with its interval, held against the declared range.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from duetbench.core import units
from duetbench.core.errors import DeclarationError
from duetbench.core.flags import DISTURBING
from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS
from duetbench.core.model import Frozen
from duetbench.project.published import Published, Shape
from duetbench.show import formats
from duetbench.trend import summary as over_launches
from duetbench.trend.summary import RunSummary

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


class _NotMeasuredError(Exception):
    """A sentence asked for a figure that the run does not have."""


@dataclass(slots=True)
class _Figures:
    """What a template can ask for; remembers the cases that it was asked about."""

    summary: RunSummary
    published: Published
    cited: dict[str, None] = field(default_factory=dict)

    def fig(self, case: str, metric: str) -> str:
        """A figure of ours with its interval."""
        case_id = self._cite(case, metric)
        found = self.summary.cases.get(case_id)
        estimate = found.metrics.get(_known(metric)) if found else None
        if estimate is None:
            raise _NotMeasuredError(f"{metric} of {case_id}")
        text = formats.figure(metric, estimate.estimate)
        interval = formats.interval(metric, estimate)
        return f"{text} ({interval})" if interval else text

    def theirs(self, case: str, metric: str) -> str:
        """A published figure."""
        value = self.published.figure(self.published.ids(case)[0], _known(metric))
        if value is None:
            raise ValueError(f"no published {metric} of {case}")
        return formats.figure(metric, value)

    def ratio(self, above: str, below: str, metric: str) -> str:
        """The ratio of two figures of ours, with its interval."""
        estimate = self._ratio(above, below, metric)
        interval = formats.ratio_interval(estimate)
        if not interval:
            return f"{units.significant(estimate.estimate, 1)} (one launch)"
        return f"{formats.ratio(estimate.estimate)} ({interval})"

    def change(self, case: str, base: str, metric: str) -> str:
        """How a case's figure differs from that of another, in words that its interval bears."""
        return change(self._ratio(case, base, metric))

    def _ratio(self, above: str, below: str, metric: str) -> Interval:
        cases = [self._cite(above, metric), self._cite(below, metric)]
        sides = [over_launches.values(self.summary.run, case, metric) for case in cases]
        missing = [case for case, side in zip(cases, sides, strict=True) if not side]
        if missing:
            raise _NotMeasuredError(f"{metric} of {', '.join(missing)}")
        estimate = over_launches.ratio(*sides)
        if estimate is None:
            raise _NotMeasuredError(f"a ratio of {metric}, which was zero in {' or '.join(cases)}")
        return estimate

    def _cite(self, name: str, metric: str) -> str:
        _known(metric)
        if "/" not in name and name not in self.published.cases:
            raise ValueError(f"the case {name!r} is not in [cases]")
        case_id = self.published.case_id(name, self.summary.cases)
        self.cited[case_id] = None
        return case_id


def change(estimate: Interval) -> str:
    """A ratio in words: `21 % lower (19…23 %)`, `2.1 times as high`, `the same within 0.8 %`."""
    if estimate.ends is None:
        # Launches of one and the same differ by up to a fifth.
        if 1 / _LARGE < estimate.estimate < _LARGE:
            return "about the same (one launch: no verdict)"
        return f"about {units.significant(estimate.estimate, 1)} times as high (one launch)"
    low, high = estimate.ends
    if not estimate.excludes(1):
        widest = max(high - 1, 1 - low)
        if widest <= _EQUAL:
            return f"the same within {units.significant(100 * widest, 2)} %"
        return (
            f"no different as far as can be told ({formats.ratio(low)}…{formats.ratio(high)} times)"
        )
    if estimate.estimate >= _LARGE or estimate.estimate <= 1 / _LARGE:
        interval = f" ({formats.ratio(low)}…{formats.ratio(high)})"
        return f"{formats.ratio(estimate.estimate)} times as high{interval}"
    near, far = sorted((abs(low - 1) * 100, abs(high - 1) * 100))
    interval = f" ({units.significant(near, 2)}…{units.significant(far, 2)} %)"
    size = units.significant(abs(estimate.estimate - 1) * 100, 2)
    return f"{size} % {'higher' if estimate.estimate > 1 else 'lower'}{interval}"


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
    return Sentence(" ".join(text.split()), True, _flags(summary, figures.cited))


def _flags(summary: RunSummary, cases: Iterable[str]) -> tuple[str, ...]:
    found = (summary.cases[case] for case in cases if case in summary.cases)
    return tuple(dict.fromkeys(str(flag.name) for case in found for flag in case.warnings))


def _bracketed(flags: tuple[str, ...]) -> str:
    return f" [{', '.join(flags)}]" if flags else ""


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}")
    return metric


class ShapeResult(Frozen):
    """A statement, what was found in a run, and whether it holds.

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
        if self.ours is None:
            return formats.MISSING
        return formats.ratio_with_interval(self.ours)

    @property
    def told(self) -> str:
        told = f"{self.verdict}: {self.reason}" if self.reason else self.verdict
        return told + _bracketed(self.flags)


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
    known = [summary.cases[case] for case in cases if case in summary.cases]
    figures = [published.figure(published.ids(name)[0], shape.metric) for name in names]
    if len(cases) == 1:
        ours = known[0].metrics.get(shape.metric) if known else None
        theirs = figures[0]
    else:
        sides = (over_launches.values(summary.run, case, shape.metric) for case in cases)
        ours = over_launches.ratio(*sides)
        above, below = figures
        theirs = above / below if above is not None and below else None
    verdict = judge(ours, shape.least, shape.most)
    # Flags under which at least half of a case's launches also measured something else.
    disturbed = [
        str(flag.name)
        for case in known
        for flag in case.warnings
        if flag.name in DISTURBING and 2 * flag.launches >= case.measured
    ]
    if disturbed and verdict in {"holds", "does not hold"}:
        verdict = "not decided"
    return ShapeResult(
        statement=shape.statement,
        expected=formats.limits(shape.least, shape.most),
        published=theirs if shape.published is None else shape.published,
        ours=ours,
        verdict=verdict,
        reason=ONE_LAUNCH
        if ours is not None and ours.ends is None
        else _reason(summary, cases, shape, verdict, disturbed),
        flags=_flags(summary, cases) if ours is not None else (),
    )


def judge(ours: Interval | None, least: float | None, most: float | None) -> ShapeVerdict:
    """A statement is decided when the whole interval lies on one side of its limits.

    Without an interval nothing is: one launch may be anywhere within what launches scatter by.
    """
    if ours is None:
        return "not measured"
    if ours.ends is None:
        return "not decided"
    low, high = ours.ends
    floor = float("-inf") if least is None else least
    top = float("inf") if most is None else most
    if low >= floor and high <= top:
        return "holds"
    if high < floor or low > top:
        return "does not hold"
    return "not decided"


def _reason(
    summary: RunSummary, cases: list[str], shape: Shape, verdict: ShapeVerdict, disturbed: list[str]
) -> str:
    if verdict == "not measured":
        missing = [
            case
            for case in cases
            if case not in summary.cases or summary.cases[case].status != "measured"
        ]
        names = ", ".join(case.partition("/")[2] for case in missing)
        return f"no figures of {names}" if missing else "no such figure"
    if verdict == "not decided":
        if names := ", ".join(dict.fromkeys(disturbed)):
            return f"measured under {names}: measure again on a quiet machine"
        return "the interval reaches over the limit: more launches would decide"
    return (shape.if_not or "") if verdict == "does not hold" else ""
