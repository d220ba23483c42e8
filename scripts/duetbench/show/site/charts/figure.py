"""What charts show: captions, figures with their intervals, and how a series looks. Pure."""

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from duetbench.core import units
from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS, Direction

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_SPREAD: Final = 0.25  # up to here both halves of an interval are nearly equal
_ROUNDING: Final = 1e-9  # of means over logarithms, relative

STYLES: Final = 10
"""Styles of series: the stylesheet has five colours (Okabe and Ito's), the first five styles with
full lines, the others with dashes. Charts show at most so many series."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The id of a chart on its page, its title, and how to read it."""

    id: str
    title: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"id {self.id!r}: small letters, digits and hyphens, a letter first")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What an axis shows, and how its figures are written.

    Attributes:
        span: Writes an interval; None: relative to its figure.
        script: What `formats.js` calls the format; of others the unit.
    """

    title: str
    format: units.Formatter
    better: Direction = "neither"
    span: Callable[[float, float], str] | None = None
    script: str = ""

    @classmethod
    def of(cls, metric: str) -> "Quantity":
        """The quantity of a metric of the registry."""
        row = METRICS[metric]
        return cls(row.title, row.format, row.better, script=row.format.name)


@dataclass(frozen=True, slots=True)
class Value:
    """A figure, or the reason why there is none.

    Attributes:
        mean: The figure; None: there is none, and `note` says why.
        low: Lower end of its interval; None together with `high`.
        ceiling: What arithmetic allows here.
        valid: Whether it may be judged; drawn hollow if not.
        note: Its flags, or why there is no figure.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    published: float | None = None
    valid: bool = True
    note: str = ""

    @classmethod
    def of(cls, figure: Interval, note: str = "") -> Self:
        return cls(figure.estimate, figure.low, figure.high, note=note)

    def __post_init__(self) -> None:
        numbers = (self.mean, self.low, self.high, self.ceiling, self.published)
        if not all(number is None or math.isfinite(number) for number in numbers):
            raise ValueError(f"{numbers}: not finite; a figure that is no number has none")
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends or none")
        if self.mean is None:
            if self.low is not None or not self.note:
                raise ValueError("without a figure there is no interval, and a note says why")
        elif self.ends and not self.ends[0] <= self.mean <= self.ends[1]:
            raise ValueError(f"{self.low} ≤ {self.mean} ≤ {self.high} does not hold")

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


def interval(quantity: Quantity, value: Value) -> str:
    """The interval: `±1.2 %`, or `lo…hi` where it is wide; empty when there is none."""
    if value.mean is None or value.ends is None:
        return ""
    low, high = value.ends
    if quantity.span:
        return quantity.span(low, high)
    half = max(high - value.mean, value.mean - low)
    if half <= _ROUNDING * abs(value.mean):
        return ""  # the same in every launch
    if value.mean and half / abs(value.mean) <= _SPREAD:
        return f"±{units.significant(100 * half / abs(value.mean), 2)} %"
    return f"{quantity.format(low)}…{quantity.format(high)}"


def note(value: Value) -> str:
    """Whether a figure may be judged, and its flags; or why there is none."""
    doubt = "" if value.valid or value.mean is None else "not judged"
    return ": ".join(filter(None, (doubt, value.note)))


def assign(names: Iterable[str], fixed: Mapping[str, int]) -> dict[str, int]:
    """Give each name the number of a style, all different up to `STYLES` names.

    `fixed` names have theirs. For others the name chooses (CRC-32, the same on every build), and
    where two want the same, the alphabetically later one gets the next that is free.
    """
    styles: dict[str, int] = {}
    for name in sorted(dict.fromkeys(names), key=lambda name: (name not in fixed, name)):
        if name in fixed:
            styles[name] = fixed[name]
            continue
        free = [slot for slot in range(STYLES) if slot not in styles.values()]
        colours = {slot % 5 for slot in styles.values()}
        # A colour of its own before another dash of the same colour.
        fresh = [slot for slot in free if slot < 5 and slot not in colours]
        choice = fresh or free or list(range(STYLES))
        styles[name] = choice[zlib.crc32(name.encode("utf-8", "replace")) % len(choice)]
    return styles
