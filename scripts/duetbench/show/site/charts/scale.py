"""From figures to px: scales, round ticks, and tick labels that do not overlap. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final

from duetbench.core import units
from duetbench.show.site.charts import svg
from duetbench.show.site.charts.data import Quantity
from duetbench.show.site.charts.svg import Anchor

_GAP: Final = 8.0  # between two labels, px
_OVERHANG: Final = 24.0  # of a label to the left, where the upright axis' labels leave room, px
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class AxisScale:
    """Maps `low`…`high` onto `start`…`end` px; what is beyond lands on the edge.

    A logarithmic scale needs `low` > 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"no scale from {self.low} to {self.high}")

    def at(self, value: float) -> float:
        """Where a figure stands, px, to a tenth."""
        value = self.low if value < self.low else min(value, self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 1)

    def holds(self, value: float) -> bool:
        """Whether a figure lies within."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick: where it stands (px), its label, and which end of the label stands there."""

    at: float
    text: str
    anchor: Anchor = "middle"

    @property
    def span(self) -> tuple[float, float]:
        width = svg.text_width(self.text)
        left = self.at - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, left + width


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its ticks and title."""

    scale: AxisScale
    ticks: tuple[Tick, ...]
    title: str


def _ladder(quantity: Quantity) -> units.Ladder:
    """From which SI figure on, times how much in which unit; plain of a formatter without one."""
    return quantity.format.ladder if isinstance(quantity.format, units.Format) else units.PLAIN


def _unit(quantity: Quantity, largest: float) -> tuple[float, str]:
    """Factor and name of the unit in which an axis up to `largest` (SI) reads best."""
    steps = _ladder(quantity)
    return next((factor, name) for least, factor, name in steps if abs(largest) >= least)


def nice(low: float, high: float, most: int) -> tuple[list[float], float]:
    """Multiples of a round step within the range, and the step.

    That is the smallest of 1, 2 and 5 times a power of ten that makes at most `most` of them.
    """
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    # The tolerance lets 5 steps of 0.1 be 0.5 in spite of binary fractions.
    step = next(power * f for f in (1, 2, 5, 10, 20) if power * f >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)], step


def nice_log(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 times powers of ten; powers alone, or some of them, where those are too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for factors in ((1, 2, 5), (1,)):
        found = [
            factor * 10.0**power
            for power in decades
            for factor in factors
            if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
        ]
        if len(found) <= most:
            break
    found = found[:: math.ceil(len(found) / most)] if found else found
    return found if len(found) > 1 else nice(low, high, most)[0]


def value_axis(quantity: Quantity, scale: AxisScale, most: int, *, sideways: bool = False) -> Axis:
    """An axis of figures with at most `most` steps.

    With `sideways` it lies: labels beside each other must leave room between them.
    """
    ticks: tuple[Tick, ...] = ()
    title = quantity.title
    for steps in range(most, 0, -1):
        if scale.log:
            values = nice_log(scale.low, scale.high, steps)
            labels = [_log_label(quantity, value) for value in values]
        else:
            values, step = nice(scale.low, scale.high, steps)
            factor, unit = _unit(quantity, max(abs(scale.low), abs(scale.high)))
            labels = [_label(value * factor, step * factor) for value in values]
            title = _titled(quantity.title, unit)
        ticks = tuple(
            _tick(scale, value, label, sideways=sideways)
            for value, label in zip(values, labels, strict=True)
        )
        if not sideways or not _overlap(ticks):
            break
    if scale.log and len(_ladder(quantity)) == 1:
        title = _titled(quantity.title, _unit(quantity, scale.high)[1])
    return Axis(scale, ticks, title)


def declared_axis(quantity: Quantity, scale: AxisScale, values: Iterable[float]) -> Axis:
    """A lying axis with ticks at the values that were measured, as many as have room.

    The largest value always has its label: it tells how far the axis goes. What has a format of its
    own is labelled by it, such as names by their place.
    """
    own = quantity.format if not isinstance(quantity.format, units.Format) else None
    factor, unit = _unit(quantity, max(abs(scale.low), abs(scale.high)))
    kept: list[Tick] = []
    for value in sorted(set(values), reverse=True):
        label = own(value) if own else f"{value * factor:,.10g}"
        tick = _tick(scale, value, label, sideways=True)
        if not kept or tick.span[1] + _GAP <= kept[0].span[0]:
            kept.insert(0, tick)
    return Axis(scale, tuple(kept), _titled(quantity.title, unit))


@lru_cache(maxsize=256)  # all trends of a night have one of a few
def time_axis(scale: AxisScale) -> Axis:
    """A lying axis of dates; the scale is in seconds since 1970, UTC.

    Days, months or years, the closest ticks whose labels have room; where not even two ticks fall
    into the range, its first and last day.
    """
    first, last = _day(scale.low), _day(scale.high)
    for dates, form, step, days in _CALENDAR:
        if (last - first).days > 60 * step * days:
            continue
        ticks = tuple(
            _tick(scale, _seconds(day), day.strftime(form), sideways=True)
            for day in dates(first, last, step)
            if scale.holds(_seconds(day))
        )
        enough = 1 if (last - first).days < 2 else 2
        if len(ticks) >= enough and not _overlap(ticks):
            return Axis(scale, ticks, "")
    ends = [_tick(scale, scale.low, first.isoformat(), sideways=True)]
    if first != last:
        ends.append(_tick(scale, scale.high, last.isoformat(), sideways=True))
    return Axis(scale, tuple(ends), "")


def day_text(seconds: float) -> str:
    """The date of a moment, UTC."""
    return _day(seconds).isoformat()


def _days(first: date, last: date, step: int) -> list[date]:
    span = range(first.toordinal(), last.toordinal() + 1)
    return [date.fromordinal(number) for number in span if number % step == 0]


def _months(first: date, last: date, step: int) -> list[date]:
    span = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    return [date(number // 12, number % 12 + 1, 1) for number in span if number % step == 0]


_CALENDAR: Final[tuple[tuple[Callable[[date, date, int], list[date]], str, int, int], ...]] = (
    *((_days, "%Y-%m-%d", step, 1) for step in (1, 2, 7, 14)),
    *((_months, "%Y-%m", step, 30) for step in (1, 2, 3, 6)),
    *((_months, "%Y", 12 * step, 30) for step in (1, 2, 5, 10)),
)
"""Which dates, how they read, the step, and about how many days one unit of it has."""


def _day(seconds: float) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def _seconds(day: date) -> float:
    return (day.toordinal() - date(1970, 1, 1).toordinal()) * _DAY


def _titled(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit and unit != title else title


def _label(value: float, step: float) -> str:
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    shown = f"{value:,.{decimals}f}"
    return shown.replace("-", "−") if float(shown.replace(",", "")) else "0"


def _log_label(quantity: Quantity, value: float) -> str:
    """Each label has the unit that reads best: `500 µs`, `1 ms`, `1 s`."""
    factor, unit = _unit(quantity, value * (1 + 1e-9))
    shown = f"{float(f'{value * factor:.6g}'):,.10g}"
    return f"{shown} {unit}" if len(_ladder(quantity)) > 1 else shown


def _tick(scale: AxisScale, value: float, label: str, *, sideways: bool) -> Tick:
    """A tick; a lying axis' first and last label do not reach over its ends by much."""
    tick = Tick(scale.at(value), label)
    if sideways:
        left, right = tick.span
        if left < max(0.0, min(scale.start, scale.end) - _OVERHANG):
            return Tick(tick.at, label, "start")
        if right > max(scale.start, scale.end) + _GAP:
            return Tick(tick.at, label, "end")
    return tick


def _overlap(ticks: Sequence[Tick]) -> bool:
    return any(before.span[1] + _GAP > after.span[0] for before, after in pairwise(ticks))
