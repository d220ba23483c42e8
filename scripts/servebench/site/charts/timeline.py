"""A trend made ready for drawing: bins, lines, ribbons, and what was merged or left out. Pure.

All times are seconds since 1970.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final, TypeVar

from servebench.report.comparison import words
from servebench.site.charts.data import Value
from servebench.site.charts.history import Change, Event, Trend, TrendPoint
from servebench.site.charts.scale import day_text
from servebench.site.charts.thinning import Bin, binned, clustered, pieces

Item = TypeVar("Item", TrendPoint, Event)

_DAY: Final = 86_400.0
_CHANGES: Final = 40
_SILENCES: Final = 10
_LONG: Final = 8.0  # times the usual distance between two runs: some nights missing are no silence
_SLOTS: Final = {"flagged": 60, "gaps": 45, "breaks": 20, "bumps": 90}
"""How many marks of each kind the time axis has room for."""
_LEAST: Final = 0.01  # to each side of the median: noise must not look like a landslide


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Where the figures of one stretch lie if nothing but noise moves them."""

    start: float
    end: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is drawn.

    Attributes:
        span: First and last time, apart from each other.
        range: Ends of the upright axis; None: no figure at all.
        figures: How many figures may be judged.
        bins: Marks for them.
        per_mark: Most figures that share a mark.
        lines: Bins that are joined.
        ribbons: Noise around the median of each stretch.
        flagged: Figures that may not be judged; neighbours share a mark.
        gaps: Runs without a figure; neighbours share a mark.
        changes: The newest change points.
        hidden_changes: Older ones, not drawn.
        breaks: Neighbours share a mark.
        bumps: Neighbours share a mark.
        clipped: Figures beyond the axis.
    """

    span: tuple[float, float]
    range: tuple[float, float] | None
    figures: int
    bins: tuple[Bin, ...]
    per_mark: int
    lines: tuple[tuple[Bin, ...], ...]
    ribbons: tuple[Ribbon, ...]
    flagged: tuple[tuple[TrendPoint, ...], ...]
    gaps: tuple[tuple[TrendPoint, ...], ...]
    changes: tuple[Change, ...]
    hidden_changes: int
    breaks: tuple[tuple[Event, ...], ...]
    bumps: tuple[tuple[Event, ...], ...]
    clipped: int


def make(data: Trend) -> Timeline:
    """Arrange a trend for drawing."""
    span = _span(data)
    length = span[1] - span[0]
    good = [
        (index, point.time.timestamp(), point.value)
        for index, point in enumerate(data.points)
        if point.value.mean is not None and point.value.valid
    ]
    flagged = [p for p in data.points if p.value.mean is not None and not p.value.valid]
    gaps = [point for point in data.points if point.value.mean is None]
    breaks = _grouped(data.breaks, length / _SLOTS["breaks"])
    changes = tuple(sorted(data.changes, key=_time))
    cuts = [_time(group[0]) for group in breaks]
    times = [at for _, at, _ in good]
    moves = [_time(change) for change in changes[-_CHANGES:]]
    stretches = [
        _stretch(good[piece], moves, max(1, data.most * (piece.stop - piece.start) // len(good)))
        for piece in pieces(times, [*cuts, *_silences(times)])
    ]
    bins = tuple(each for stretch in stretches for each in stretch)
    edges = [*cuts, *map(_time, changes)]
    limits = _limits(bins, flagged)
    return Timeline(
        span=span,
        range=limits,
        figures=len(good),
        bins=bins,
        per_mark=max((each.size for each in bins), default=0),
        lines=tuple(
            line for stretch in stretches for line in _unbroken(stretch, [_time(g) for g in gaps])
        ),
        ribbons=tuple(_ribbons(bins, edges, data.noise)),
        flagged=_grouped(flagged, length / _SLOTS["flagged"]),
        gaps=_grouped(gaps, length / _SLOTS["gaps"]),
        changes=changes[-_CHANGES:],
        hidden_changes=max(0, len(changes) - _CHANGES),
        breaks=breaks,
        bumps=_grouped(data.bumps, length / _SLOTS["bumps"]),
        clipped=_clipped(bins, flagged, limits),
    )


def _stretch(
    figures: Sequence[tuple[int, float, Value]], moves: Sequence[float], most: int
) -> list[Bin]:
    """Bins of figures that may be joined; no bin has figures of both sides of a change point."""
    size = max(1, -(-len(figures) // most))
    times = [at for _, at, _ in figures]
    return [
        each
        for piece in pieces(times, moves)
        for each in binned(figures[piece], -(-(piece.stop - piece.start) // size))
    ]


def _silences(times: Sequence[float]) -> list[float]:
    """Where a figure follows after much longer than usual: the line does not go on there."""
    if len(times) < 3:
        return []
    steps = [(after - before, after) for before, after in pairwise(times)]
    usual = statistics.median(step for step, _ in steps)
    return [at for step, at in sorted(steps)[-_SILENCES:] if step > _LONG * usual]


def newest_first(data: Trend, most: int) -> list[tuple[TrendPoint, str]]:
    """The newest points with what happened since the one before each, as words; newest first."""
    happenings = sorted(
        [
            *((_time(change), sentence_of(change, day=False)) for change in data.changes),
            *((_time(event), f"not comparable with before: {event.label}")
              for event in data.breaks),
            *((_time(event), event.label) for event in data.bumps),
        ]
    )  # fmt: skip
    points = sorted(data.points, key=_time)
    rows: list[tuple[TrendPoint, str]] = []
    told = 0
    if hidden := points[:-most]:
        told = bisect_right(happenings, _time(hidden[-1]), key=itemgetter(0))
    for point in points[-most:]:
        until = bisect_right(happenings, _time(point), key=itemgetter(0))
        rows.append((point, "; ".join(said for _, said in happenings[told:until])))
        told = until
    return rows[::-1]


def sentence_of(change: Change, *, day: bool = True) -> str:
    """A change point in words: when, which way, by how much, and what did it."""
    ratio = change.ratio
    parts = [f"{words.MARKS[change.verdict]} {change.verdict.value} {words.percent(ratio.mean)}"]
    if ratio.low is not None and ratio.high is not None:
        parts.append(f"({words.percent(ratio.low)} to {words.percent(ratio.high)})")
    said = " ".join(parts) + (f", {change.label}" if change.label else "")
    return f"{day_text(_time(change))}: {said}" if day else said


def _time(item: TrendPoint | Change | Event) -> float:
    return item.time.timestamp()


def _span(data: Trend) -> tuple[float, float]:
    """First and last time; a single one gets half a day to both sides."""
    times = [*map(_time, data.points), *map(_time, data.changes)]
    times += [*map(_time, data.breaks), *map(_time, data.bumps)]
    if not times:
        return 0.0, _DAY
    first, last = min(times), max(times)
    return (first, last) if last - first >= _DAY else (first - _DAY / 2, last + _DAY / 2)


def _grouped(items: Sequence[Item], distance: float) -> tuple[tuple[Item, ...], ...]:
    return tuple(tuple(group) for group in clustered(items, _time, distance))


def _unbroken(stretch: Sequence[Bin], gaps: Sequence[float]) -> Iterator[tuple[Bin, ...]]:
    """Bins that may be joined: no run without a figure lies between them."""
    line: list[Bin] = []
    for each in stretch:
        if line and any(line[-1].end < gap < each.start for gap in gaps):
            yield tuple(line)
            line = []
        line.append(each)
    if line:
        yield tuple(line)


def _ribbons(bins: Sequence[Bin], edges: Sequence[float], noise: float | None) -> Iterator[Ribbon]:
    if not noise:
        return
    for piece in pieces([each.at for each in bins], edges):
        stretch = bins[piece]
        middle = statistics.median(each.mean for each in stretch)
        yield Ribbon(
            stretch[0].at, stretch[-1].at, middle * (1 - noise), middle * (1 + noise)
        )  # fmt: skip


def _limits(
    bins: Sequence[Bin], flagged: Sequence[TrendPoint]
) -> tuple[float, float] | None:  # fmt: skip
    """The axis: all figures that may be judged, and nine of ten intervals whole."""
    means = [each.mean for each in bins]
    if not means:
        means = [point.value.mean for point in flagged if point.value.mean is not None]
    if not means:
        return None
    lows = sorted(each.low for each in bins)
    highs = sorted(each.high for each in bins)
    low, high = min(means), max(means)
    if bins:
        low = min(low, lows[len(lows) // 10])
        high = max(high, highs[len(highs) - 1 - len(highs) // 10])
    middle = statistics.median(means)
    lack = max(0.0, 2 * _LEAST * abs(middle) - (high - low)) / 2
    low, high = low - lack, high + lack
    pad = 0.06 * (high - low) or 1.0
    floor = 0.0 if low >= 0 else low - pad
    return max(floor, low - pad), high + pad


def _clipped(
    bins: Sequence[Bin], flagged: Sequence[TrendPoint], limits: tuple[float, float] | None
) -> int:
    if limits is None:
        return 0
    low, high = limits
    figures = [*(each.mean for each in bins), *(p.value.mean for p in flagged)]
    return sum(figure is not None and not low <= figure <= high for figure in figures)
