"""Sentences with figures: the templates under `answers` in `published.toml`, filled from a run.

A template may use, with names from `[cases]`:

    {{ fig("a", "throughput") }}            9.50/s (±1.2 %)
    {{ ratio("a", "b", "throughput") }}     1.90 (1.83…1.97)
    {{ change("a", "b", "throughput") }}    21 % lower (19…23 %)
    {{ theirs("a", "throughput") }}         the published figure: 9.90/s

`change` chooses its words from the interval, so that no sentence claims what the figures do not
say. A sentence with a figure that was not measured is replaced by one that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from servebench.core import units
from servebench.core.errors import DeclarationError
from servebench.core.metrics import METRICS
from servebench.declare.published import Published
from servebench.report import formats
from servebench.series import summary as over_launches
from servebench.series.summary import Estimate, RunSummary

_LARGE = 1.5  # from here a ratio reads better than per cent
_EQUAL = 0.02  # an interval around 1 that is no wider than this says "the same"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One filled sentence, or why it could not be filled; and the flags of the cases it cites."""

    text: str
    measured: bool
    flags: tuple[str, ...] = ()


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
        text = formats.figure(metric, estimate.mean)
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
            return f"{units.significant(estimate.mean, 1)} (one launch)"
        return f"{formats.ratio(estimate.mean)} ({interval})"

    def change(self, case: str, base: str, metric: str) -> str:
        """How a case's figure differs from that of another, in words that its interval bears."""
        return change(self._ratio(case, base, metric))

    def _ratio(self, above: str, below: str, metric: str) -> Estimate:
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


def change(estimate: Estimate) -> str:
    """A ratio in words: `21 % lower (19…23 %)`, `2.1 times as high`, `the same within 0.8 %`."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return _of_one_launch(estimate.mean)
    if low <= 1 <= high:
        widest = max(high - 1, 1 - low)
        if widest <= _EQUAL:
            return f"the same within {units.significant(100 * widest, 2)} %"
        return (
            f"no different as far as can be told ({formats.ratio(low)}…{formats.ratio(high)} times)"
        )
    if estimate.mean >= _LARGE or estimate.mean <= 1 / _LARGE:
        interval = f" ({formats.ratio(low)}…{formats.ratio(high)})"
        return f"{formats.ratio(estimate.mean)} times as high{interval}"
    near, far = sorted((abs(low - 1) * 100, abs(high - 1) * 100))
    interval = f" ({units.significant(near, 2)}…{units.significant(far, 2)} %)"
    size = units.significant(abs(estimate.mean - 1) * 100, 2)
    return f"{size} % {'higher' if estimate.mean > 1 else 'lower'}{interval}"


def _of_one_launch(ratio: float) -> str:
    """What a launch of each side bears: launches of one and the same differ by up to a fifth."""
    if 1 / _LARGE < ratio < _LARGE:
        return "about the same (one launch: no verdict)"
    return f"about {units.significant(ratio, 1)} times as high (one launch)"


def fill(template: str, summary: RunSummary, published: Published, file: str) -> Sentence:
    """Fill one sentence.

    Raises:
        DeclarationError: The template is wrong, or names what is not declared.
    """
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
            file, "answers", f"{template:.60}…: {problem}", "a template of report/sentences.py"
        ) from problem
    flags = {
        str(flag.name): None
        for case in figures.cited
        if case in summary.cases
        for flag in summary.cases[case].warnings
    }
    return Sentence(" ".join(text.split()), measured=True, flags=tuple(flags))


def _known(metric: str) -> str:
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}")
    return metric
