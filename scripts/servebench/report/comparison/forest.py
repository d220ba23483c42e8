"""The forest plot of a comparison: one interval per case and metric, as SVG. Pure.

A forest plot is the customary picture of many ratios with their intervals (Lewis & Clarke, BMJ
2001;322:1479): one line each, a dot at the estimate, and a vertical line where nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import jinja2

from servebench.compare.model import Comparison, Verdict
from servebench.report.comparison import words
from servebench.report.comparison.rows import Row
from servebench.report.comparison.view import make_view

MARKS: Final = 60
"""Rows that are drawn: what moved and what is open first; the rest is counted below the plot."""

_LEFT: Final = 420  # room for the case's id and metric, px
_WIDTH: Final = 400  # of the axis, px
_RIGHT: Final = 190  # room for the figures, px
_ROW: Final = 22
_TOP: Final = 44
_LEAST: Final = 1.0  # per cent to each side, so that noise does not look like a landslide
_CLASSES: Final = {
    Verdict.SLOWER: "worse",
    Verdict.FASTER: "better",
    Verdict.NO_CHANGE: "same",
    Verdict.INCONCLUSIVE: "open",
}
_NAME: Final = 58  # characters of a label that fit
_NOTHING_LEFT: Final = -100.0  # per cent: nothing can get smaller than that


@dataclass(frozen=True, slots=True)
class Mark:
    """One row of the plot; lengths in px. `less`, `more`: the interval goes on beyond the axis."""

    label: str
    title: str
    kind: str
    y: float
    x: float
    low: float
    high: float
    less: bool
    more: bool
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick of the axis."""

    x: float
    text: str


def forest(comparison: Comparison) -> str:
    """Draw the plot. Rows without a ratio have no mark: they are listed in words elsewhere."""
    view = make_view(comparison)
    rows = [row for row in view.groups.all if row.judged.ratio is not None]
    shown, hidden = rows[:MARKS], max(0, len(rows) - MARKS)
    reach = _reach(shown)
    marks = [_mark(row, index, reach) for index, row in enumerate(shown)]
    return _template().render(
        headline=view.headline,
        marks=marks,
        cut=any(mark.less or mark.more for mark in marks),
        ticks=[Tick(_x(t, reach), _tick(t)) for t in _ticks(reach)],
        zero=_x(0.0, reach),
        hidden=hidden,
        left=_LEFT,
        axis=_WIDTH,
        top=_TOP,
        width=_LEFT + _WIDTH + _RIGHT,
        bottom=_TOP + _ROW * len(shown),
        height=_TOP + _ROW * len(shown) + 48,
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("servebench.report.comparison", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("forest.svg.j2")


def _reach(rows: Sequence[Row]) -> float:
    """Half the width of the axis in per cent: holds every estimate, and most intervals whole."""
    ends = [abs(100 * ((row.judged.ratio or 1.0) - 1)) for row in rows]
    widths = sorted(
        max(abs(100 * (end - 1)) for end in (row.judged.low, row.judged.high) if end is not None)
        for row in rows
        if row.judged.low is not None
    )
    most = widths[math.ceil(0.9 * len(widths)) - 1] if widths else 0.0
    return max(_LEAST, 1.15 * max([most, *ends, 0.0]))


def _ticks(reach: float) -> list[float]:
    """Round steps: 1, 2 or 5 times a power of ten, three to five to each side."""
    rough = reach / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    count = int(reach / step)
    ticks = (index * step for index in range(-count, count + 1))
    return [tick for tick in ticks if tick >= _NOTHING_LEFT]


def _tick(value: float) -> str:
    return "0" if value == 0 else f"{value:+g} %".replace("-", "−")


def _x(change: float, reach: float) -> float:
    clipped = min(max(change, -reach), reach)
    return round(_LEFT + _WIDTH * (clipped + reach) / (2 * reach), 1)


def _mark(row: Row, index: int, reach: float) -> Mark:
    judged = row.judged
    ratio = judged.ratio if judged.ratio is not None else 1.0
    low = 100 * ((judged.low if judged.low is not None else ratio) - 1)
    high = 100 * ((judged.high if judged.high is not None else ratio) - 1)
    label = f"{row.case} · {row.label}"
    return Mark(
        label=label if len(label) <= _NAME else "…" + label[-(_NAME - 1) :],
        title=f"{label}: {words.percent(ratio)} ({row.interval}), {row.verdict}",
        kind=_CLASSES.get(judged.verdict, "open"),
        y=_TOP + _ROW * (index + 0.5),
        x=_x(100 * (ratio - 1), reach),
        low=_x(low, reach),
        high=_x(high, reach),
        less=low < -reach,
        more=high > reach,
        text=f"{_short(row.verdict)} {row.change}",
    )


def _short(verdict: str) -> str:
    """What fits beside the axis; the whole is in the mark's title."""
    seen, _, rest = verdict.partition(", ")
    return f"{seen[0]} {rest.partition(':')[0]}" if rest else verdict
