"""What charts are drawn from: figures in SI units with their intervals. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from duetbench.core import units
from duetbench.core.interval import Interval
from duetbench.core.metrics import METRICS, Direction

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_PLACES: Final = re.compile(r"(?:https://|\.{0,2}/(?!/)|[#?]|[A-Za-z0-9_-]+(?:[/#?.]|$))[^\s\\]*")
"""Addresses that stay on the site, or say openly where they lead. White space and backslashes are
refused: browsers drop the one and turn the other round, and `/\\host` would be another host."""
_SPREAD: Final = 0.25  # up to here both halves of an interval are nearly equal
_ROUNDING: Final = 1e-9  # of means over logarithms, relative


@dataclass(frozen=True, slots=True)
class Caption:
    """What a chart is: its id on the page, its title, and how to read it."""

    id: str
    title: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"id {self.id!r}: small letters, digits and hyphens, a letter first")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What an axis shows, and how its figures read.

    Attributes:
        span: How an interval reads; None: relative to its figure.
    """

    title: str
    format: units.Formatter
    better: Direction = "neither"
    span: Callable[[float, float], str] | None = None

    @classmethod
    def of(cls, metric: str) -> Quantity:
        """The quantity of a metric of the registry."""
        row = METRICS[metric]
        return cls(row.title, row.format, row.better)


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
            raise ValueError(f"{numbers}: not finite; what is no number has none, and a note")
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


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads somewhere: on this site, or to an https address."""

    text: str
    href: str

    def __post_init__(self) -> None:
        check_href(self.href)


@lru_cache(maxsize=8192)  # the same runs are on the pages of all cases
def check_href(href: str) -> None:
    """Refuse addresses that would run something or leave the site unseen.

    ValueError: neither relative, nor `https://`.
    """
    if href and not _PLACES.fullmatch(href):
        raise ValueError(f"address {href!r}: expected a relative one, or https://")


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


def sentence(quantity: Quantity, value: Value) -> str:
    """The figure and everything that stands beside it, for reading aloud."""
    if value.mean is None:
        return f"no figure: {value.note}"
    parts = [quantity.format(value.mean)]
    if found := interval(quantity, value):
        parts.append(f"95 % interval {found}")
    if value.ceiling is not None:
        parts.append(f"ceiling {quantity.format(value.ceiling)}")
    if value.published is not None:
        parts.append(f"published {quantity.format(value.published)}")
    if not value.valid:
        parts.append("not judged")
    return ", ".join(filter(None, (*parts, value.note)))
